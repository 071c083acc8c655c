"""Several profiles side by side: their figures, and the settings, hosts and versions that they do not share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from enginebench_controller.records import Profile, Readback
from enginebench_controller.records.fields import CONFIGURATION
from enginebench_controller.records.profile import is_at_most
from enginebench_controller.stats import layers as figures
from enginebench_controller.verdicts.host_words import processor_of
from enginebench_controller.verdicts.parity import engine_label, unequal_effective
from enginebench_controller.verdicts.words import UNKNOWN, milliseconds, number, percent
from enginebench_proto.agreed.words import Precision


@dataclass(frozen=True)
class SettingDifference:
    """A setting with its value on each side, as text; None where unknown or not set."""

    setting: str
    values: tuple[str | None, ...]


def settings_that_differ(profiles: Sequence[Profile]) -> tuple[SettingDifference, ...]:
    """Everything about the runs that is not the same on all sides: asked for, effective, and the machines."""
    flat = [_settings(profile) for profile in profiles]
    names = dict.fromkeys(name for one in flat for name in one)
    rows = (SettingDifference(name, tuple(one.get(name) for one in flat)) for name in names)
    return tuple(row for row in rows if len(set(row.values)) > 1)


def unlike(profiles: Sequence[Profile]) -> tuple[str, ...]:
    """A sentence for each way in which the sides are not the same work on equal terms."""
    return tuple(dict.fromkeys(_sentences(profiles)))


def _sentences(profiles: Sequence[Profile]) -> Iterator[str]:
    if len({one.model_digest for one in profiles}) > 1:
        yield from _differs("the model files differ", profiles, lambda one: f"{one.model_name} {one.model_digest[:12]}")
    yield from _differs("the processors differ", profiles, lambda one: processor_of(one.host) or "unknown")
    yield from _differs("the targets differ", profiles, lambda one: one.target)
    yield from _differs("the batch differs", profiles, lambda one: str(one.configuration.batch))
    yield from _differs("the cores differ", profiles, lambda one: str(one.configuration.place))
    yield from _differs("the requested precision differs", profiles, _precision)
    yield from unequal_effective(profiles)
    yield from _differs("the imposed sparsity differs", profiles, lambda one: str(one.imposed_sparsity or "none"))
    if len({one.engine.name for one in profiles}) == 1:
        yield from _differs("the optimization level differs", profiles, lambda one: str(one.optimization_level))
    for one in profiles:
        if one.host.emulation:
            yield f"{one.target} is emulated ({one.host.emulation}): its times say nothing of a real machine"
        if one.unmatched_reason:
            yield f"the layers of {one.name} ({engine_label(one)}) stand for no source nodes: {one.unmatched_reason}"


def _precision(profile: Profile) -> str:
    asked = profile.configuration.precision
    return "the engine's choice" if asked == Precision.DEFAULT else asked


def _differs(what: str, profiles: Sequence[Profile], value_of: Any) -> Iterator[str]:
    values = [value_of(profile) for profile in profiles]
    if len(set(values)) > 1:
        yield f"{what}: {', '.join(f'{value} in {letter(place)}' for place, value in enumerate(values))}"


def letter(place: int) -> str:
    """What a side is called: A, B, … Z, then S27, S28, …"""
    return chr(ord("A") + place) if place < 26 else f"S{place + 1}"


def _settings(profile: Profile) -> dict[str, str]:
    effective = {
        name: value.value if isinstance(value, Readback) else value for name, value in vars(profile.effective).items()
    }
    whole = {
        "model": {"name": profile.model_name, "digest": profile.model_digest},
        "engine": asdict(profile.engine),
        "target": profile.target,
        "configuration": CONFIGURATION.to_data(profile.configuration),
        "effective": effective,
        "host": asdict(profile.host),
    }
    return dict(_flat("", whole))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), inner)
    elif isinstance(value, list | tuple):
        yield prefix, ", ".join(_text(one) for one in value)
    elif value is not None:
        yield prefix, str(value)


def _text(value: Any) -> str:
    """An element of a list on one line: `name=pixels dtype=float32`."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_text(inner)}" for name, inner in value.items() if inner is not None)
    if isinstance(value, list | tuple):
        return "x".join(_text(one) for one in value)
    return str(value)


@dataclass(frozen=True)
class ComparedFigure:
    """A figure's name and its value on each side, as text."""

    name: str
    values: tuple[str, ...]


def summary(profiles: Sequence[Profile]) -> tuple[ComparedFigure, ...]:
    """What ran where, how long it took, how far that can be trusted, and what was asked of the machine."""
    return tuple(ComparedFigure(name, tuple(map(value_of, profiles))) for name, value_of in _FIGURES.items())


def _target(profile: Profile) -> str:
    cpu = processor_of(profile.host)
    return f"{profile.target}: {cpu}" if cpu else profile.target


def _configuration(profile: Profile) -> str:
    asked = profile.configuration
    options = "".join(f", {name}={value}" for name, value in asked.options.items())
    words = f"{asked.device}, {asked.size}, {asked.precision}, {asked.load_in_words}"
    return words + options


def _effective(profile: Profile) -> str:
    got = profile.effective
    return ", ".join((_value(got.precision), f"{_value(got.threads)} threads", _value(got.isa)))


def _value(readback: Readback | None) -> str:
    return UNKNOWN if readback is None else str(readback.value)


def _latency(profile: Profile) -> str:
    return f"{milliseconds(profile.unprofiled_latency_ns)} ms"


def _layers(profile: Profile) -> str:
    return f"{milliseconds(figures.total_ns(profile.layers))} ms"


def _matched(profile: Profile) -> str:
    coverage = profile.coverage
    return f"{percent(coverage.share)} %" if coverage else UNKNOWN


def _work(profile: Profile) -> str:
    work = profile.work
    if work is None or work.flops is None:
        return UNKNOWN
    known = "" if work.coverage == 1 else f" (of {percent(work.coverage)} % of the nodes)"
    return f"{'≤ ' if is_at_most(profile.nodes) else ''}{work.flops / 1e9:.3f} G{known}"


def _parameters(profile: Profile) -> str:
    work = profile.work
    if work is None or work.parameters is None:
        return UNKNOWN
    nonzero = "" if work.nonzero_parameters is None else f", {work.nonzero_parameters / 1e6:.3f} M not zero"
    return f"{work.parameters / 1e6:.3f} M{nonzero}"


def _megabytes(size: int | None) -> str:
    return UNKNOWN if size is None else f"{size / 1e6:.1f} MB"


_FIGURES: dict[str, Callable[[Profile], str]] = {
    "profile": lambda one: f"{one.name} ({one.id[:12]})",
    "model": lambda one: f"{one.model_name} ({one.model_digest[:12]})",
    "engine": engine_label,
    "target": _target,
    "configuration": _configuration,
    "effective": _effective,
    "prepared": lambda one: "; ".join(one.effective.prepared) or UNKNOWN,
    "median latency without counters": _latency,
    "profiled ÷ unprofiled latency": lambda one: number(figures.profiled_to_unprofiled(one)),
    "Σ layers": _layers,
    "Σ layers ÷ latency": lambda one: figures.layers_to_latency_words(one) or UNKNOWN,
    "time matched to source nodes": _matched,
    "FLOPs of an inference": _work,
    "parameters": _parameters,
    "model size": lambda one: _megabytes(one.model_size_bytes),
    "peak memory": lambda one: _megabytes(one.peak_rss_bytes),
    "energy": lambda _: UNKNOWN,
}
