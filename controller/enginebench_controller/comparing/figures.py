"""The summary of compared profiles: a row a figure, a column a side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from enginebench_controller.comparing.words import UNKNOWN, milliseconds, number, percent
from enginebench_controller.model.counted_model import is_at_most
from enginebench_controller.planning.configurations import describe_load
from enginebench_controller.records import Profile, Readback
from enginebench_controller.stats import profiles as figures
from enginebench_controller.trust.parity import engine_label


@dataclass(frozen=True)
class Figure:
    """A figure's name and its value on each side, as text."""

    name: str
    values: tuple[str, ...]


def summary(profiles: Sequence[Profile]) -> tuple[Figure, ...]:
    """What ran where, how long it took, how far that can be trusted, and what was asked of the machine."""
    return tuple(Figure(name, tuple(map(value_of, profiles))) for name, value_of in _FIGURES.items())


def _target(profile: Profile) -> str:
    cpu = profile.host.get("cpu_model")
    return f"{profile.target}: {cpu}" if cpu else profile.target


def _configuration(profile: Profile) -> str:
    asked = profile.configuration
    options = "".join(f", {name}={value}" for name, value in asked.options.items())
    words = f"{asked.device}, {asked.size}, {asked.precision}, {describe_load(asked)}"
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
    "Σ layers ÷ latency": lambda one: number(figures.layers_to_latency(one)),
    "time matched to source nodes": _matched,
    "FLOPs of an inference": _work,
    "parameters": _parameters,
    "model size": lambda one: _megabytes(one.model_size_bytes),
    "peak memory": lambda one: _megabytes(one.peak_rss_bytes),
    "energy": lambda _: UNKNOWN,
}
