"""Refuses settings that an engine does not offer, so that nothing is ever ignored silently."""

from collections.abc import Collection, Sequence

from enginebench_plugins import spec


def refuse_unsupported(
    engine: str, info: spec.EngineInfo, devices: Sequence[spec.Device], settings: spec.Settings
) -> spec.Device:
    """The device the settings name. Raises `UnsupportedSettingsError` for anything beyond `info` and `devices`."""
    device = next((each for each in devices if each.name == settings.device), None)
    if device is None:
        names = ", ".join(each.name for each in devices)
        raise spec.UnsupportedSettingsError(f"{engine} has no device {settings.device}; it has {names}")
    offered = {spec.Precision.DEFAULT, *device.precisions}
    if settings.precision not in offered:
        _refuse(engine, "precision", settings.precision, offered)
    if settings.hint not in info.hints:
        _refuse(engine, "hint", settings.hint, info.hints)
    if settings.load not in info.loads:
        _refuse(engine, "load", settings.load, info.loads)
    if settings.streams > 1 and not info.multiple_streams:
        raise spec.UnsupportedSettingsError(f"{engine} runs one stream, not {settings.streams}")
    for name, value in settings.options.items():
        _refuse_option(engine, info.options, name, value)
        if not settings.profiling and any(each.name == name and each.profile_only for each in info.options):
            raise spec.UnsupportedSettingsError(f"option {name} of {engine} is for profiles only")
    return device


def _refuse(engine: str, what: str, wanted: str, offered: Collection[str]) -> None:
    raise spec.UnsupportedSettingsError(
        f"{engine} does not offer the {what} {wanted} here; it offers {', '.join(sorted(offered))}"
    )


def _refuse_option(engine: str, options: Sequence[spec.OptionSpec], name: str, value: spec.OptionValue) -> None:
    option = next((each for each in options if each.name == name), None)
    if option is None:
        known = ", ".join(each.name for each in options) or "none"
        raise spec.UnsupportedSettingsError(f"{engine} has no option {name}; its options: {known}")
    if type(value) is not option.type:
        raise spec.UnsupportedSettingsError(f"option {name} of {engine} is a {option.type.__name__}, not {value!r}")
    if option.choices and value not in option.choices:
        choices = ", ".join(map(str, option.choices))
        raise spec.UnsupportedSettingsError(f"option {name} of {engine} is one of {choices}, not {value!r}")
