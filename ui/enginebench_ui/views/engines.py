"""The engines of a target as tables: what each environment offers or why it does not, and the devices."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from enginebench_controller.records.cause import cause
from enginebench_ui.views.text import UNKNOWN, Row, cells
from enginebench_ui.views.versions import format_name

Engine = Mapping[str, Any]
"""An engine as a `TargetSnapshot` describes it."""


def visible(engines: Iterable[Engine]) -> tuple[Engine, ...]:
    """Return the engines that do not exist for testing only."""
    return tuple(engine for engine in engines if not engine.get("hidden"))


def engine_rows(engines: Iterable[Engine]) -> tuple[Row, ...]:
    """Return a row an engine, with its version or the reason for its absence; hidden ones are left out.

    Those of one environment stand together, the default one first.
    """
    return tuple(cells(_engine_row(engine)) for engine in sorted(visible(engines), key=_place))


def device_rows(engines: Iterable[Engine]) -> tuple[Row, ...]:
    """Return a row a device of an engine that is available, with what it can do; hidden engines are left out.

    A last row of an engine tells how many more devices it has than its agent lists.
    """
    return tuple(
        cells(_device_row(engine, device))
        for engine in sorted(visible(engines), key=_place)
        for device in (*((engine.get("available") or {}).get("devices") or ()), *_more_devices(engine))
    )


def available_names(engines: Iterable[Engine]) -> tuple[str, ...]:
    """Return the engines that can be used, as a command names them: NAME, or NAME@ENVIRONMENT outside the default."""
    found = (engine for engine in visible(engines) if engine.get("available"))
    return tuple(
        str(engine.get("name"))
        if engine.get("environment") in (None, "", "default")
        else f"{engine.get('name')}@{engine.get('environment')}"
        for engine in found
    )


def _place(engine: Engine) -> tuple[bool, str, str]:
    environment = str(engine.get("environment") or "")
    return environment not in ("", "default"), environment, str(engine.get("name"))


def _engine_row(engine: Engine) -> Row:
    available = engine.get("available") or {}
    devices = available.get("devices") or ()
    return {
        "Environment": _known(engine.get("environment")),
        "Engine": _known(engine.get("name")),
        "Version": available.get("version"),
        "Status": _status(engine, devices),
        "Devices": ", ".join([*(_known(device.get("name")) for device in devices), *_more(engine)]) or None,
        "Formats": ", ".join(format_name(str(one)) for one in available.get("formats") or ()) or None,
        "Loads": _list(available.get("loads")),
        "Hints": _list(available.get("hints")),
        "Streams": _yes(available.get("multiple_streams")),
        "Layer times": _yes(available.get("profiling")),
        "Python": engine.get("python_version"),
        "Plugin": engine.get("distribution"),
    }


def _status(engine: Engine, devices: Sequence[Any]) -> str:
    if engine.get("available"):
        return "available" if devices else "available, no device found"
    return f"unavailable: {_known(cause((engine.get('unavailable') or {}).get('reason') or ''))}"


def _more(engine: Engine) -> tuple[str, ...]:
    """How many devices an engine has besides those that are listed, in words; nothing where all are."""
    more = (engine.get("available") or {}).get("more_devices")
    return (f"and {more:,} more",) if more else ()


def _more_devices(engine: Engine) -> Iterable[Mapping[str, Any]]:
    return ({"name": "…", "full_name": words} for words in _more(engine))


def _device_row(engine: Engine, device: Mapping[str, Any]) -> Row:
    properties = device.get("properties") or {}
    return {
        "Device": _known(device.get("name")),
        "Full name": device.get("full_name") or None,
        "Engine": _known(engine.get("name")),
        "Environment": _known(engine.get("environment")),
        "Precisions": _list(device.get("precisions")),
        "Shares": _list(device.get("resources")),
        "Properties": "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in properties.items()) or None,
    }


def _list(values: Sequence[Any] | None) -> str | None:
    return ", ".join(map(str, values or ())) or None


def _yes(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"


def _known(value: Any) -> str:
    return UNKNOWN if value in (None, "") else str(value)
