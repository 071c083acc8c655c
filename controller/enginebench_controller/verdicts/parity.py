"""Whether what ran is what was asked for, and whether engines that are compared ran the same: sentences for people.

An engine that silently computes in bf16 looks twice as fast as one that kept to f32. Such a comparison may be shown,
but never without saying so; every table, page and document takes its words from here.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from enginebench_controller.records import (
    Effective,
    Hint,
    Measurement,
    Profile,
    Readback,
    ReadbackSource,
)
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT, Precision


def in_reading_order(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Sort by target, model, engine and device, then along the axes of the grid."""
    return sorted(measurements, key=_place)


def _place(measurement: Measurement) -> tuple[object, ...]:
    asked = measurement.configuration
    rate_per_s = asked.arrivals.rate_per_s if asked.arrivals else 0.0
    where = (measurement.target, measurement.model_name, engine_label(measurement), asked.device)
    axes = (asked.batch, str(asked.place), asked.streams, asked.precision, asked.hint, asked.load, asked.requests)
    return (*where, *axes, rate_per_s, measurement.id)


Subject = TypeVar("Subject", Measurement, Profile)

_HOW_KNOWN = {
    ReadbackSource.ENGINE_API: "as the engine reports",
    ReadbackSource.OBSERVED: "as observed",
    ReadbackSource.ASSUMED: "as assumed from how the engine works",
}


def requested_is_not_effective(measurement: Measurement | Profile) -> tuple[str, ...]:
    """Return one sentence for each setting that differs from the request; unknown settings are not differences.

    Threads are compared with the requested cores. Streams are compared only without a hint, since a hint leaves them
    to the engine.
    """
    wanted, got = measurement.configuration, measurement.effective
    streams = wanted.streams if wanted.hint is Hint.NONE else None
    precision = None if wanted.precision == Precision.DEFAULT else wanted.precision
    sentences = (
        _difference("precision", precision, got.precision),
        _difference("threads", wanted.cores, got.threads),
        _difference("streams", streams, got.streams),
        _in_parts(wanted.device, got.provider),
    )
    return tuple(sentence for sentence in sentences if sentence)


def unequal_settings(measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Return one sentence for each way in which measurements of the same work differ in what they really used.

    The same work is the same target, model, device and configuration, whatever precision was asked for: bf16 is a
    different thing from f32 also where somebody wanted it so. Those without numbers are left out.
    """
    models_by_difference: dict[str, list[str]] = defaultdict(list)
    for group in _same_work(measurements):
        for difference in unequal(group):
            models_by_difference[difference].append(group[0].model_name)
    return tuple(
        f"{difference} (for {', '.join(dict.fromkeys(models))})" for difference, models in models_by_difference.items()
    )


def unequal(group: Sequence[Measurement]) -> tuple[str, ...]:
    """Return one sentence for each setting that measurements which are compared do not share."""
    inputs = None
    if all(one.input_set_sha256 for one in group):
        inputs = _unequal("input set", group, lambda one: (one.input_set_sha256 or "")[:12])
    return (*unequal_effective(group), *([inputs] if inputs else []))


def unequal_effective(group: Sequence[Subject]) -> tuple[str, ...]:
    """Return one sentence for each setting that really differed between measurements, or between profiles."""
    differences = [
        _unequal(f"effective {setting}", group, lambda one: _value(one.effective, setting))  # noqa: B023  # called at once
        for setting in ("precision", "threads")
    ]
    return tuple(difference for difference in differences if difference)


def engine_label(measurement: Measurement | Profile) -> str:
    """Name an engine so that two environments or versions stay apart: "onnxruntime 1.31.1 (legacy)"."""
    engine = measurement.engine
    version = f" {engine.version}" if engine.version else ""
    environment = f" ({engine.environment})" if engine.environment not in ("", DEFAULT_ENVIRONMENT) else ""
    return f"{engine.name}{version}{environment}"


def _in_parts(device: str, provider: Readback | None) -> str | None:
    """What a device's own provider lacks another one takes over, without a word of the engine."""
    first, *others = str(provider.value).split(",") if provider is not None else [""]
    if not others:
        return None
    return f"{device} did not compute all: most nodes were given to {first}, others to {' and '.join(others)}"


def _difference(setting: str, wanted: int | str | None, got: Readback | None) -> str | None:
    if wanted is None or got is None or got.value == wanted:
        return None
    return f"{setting}: {wanted} requested, {got.value} effective ({_HOW_KNOWN[got.source]})"


def _same_work(measurements: Iterable[Measurement]) -> list[list[Measurement]]:
    groups: dict[object, list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        if measurement.latency is not None:
            groups[_work(measurement)].append(measurement)
    return list(groups.values())


def _work(measurement: Measurement) -> tuple[object, ...]:
    asked = measurement.configuration
    axes = (asked.batch, asked.place, asked.streams, asked.hint, asked.load, asked.requests, asked.arrivals)
    return (measurement.target, measurement.model_digest, asked.device, *axes)


def _unequal(setting: str, group: Sequence[Subject], value_of: Callable[[Subject], str]) -> str | None:
    engines_by_value: dict[str, list[str]] = defaultdict(list)
    for measurement in group:
        engines_by_value[value_of(measurement)].append(engine_label(measurement))
    if len(engines_by_value) < 2:
        return None
    sides = (f"{value} on {', '.join(dict.fromkeys(names))}" for value, names in sorted(engines_by_value.items()))
    return f"{setting} differs: {'; '.join(sides)}"


def _value(effective: Effective, setting: str) -> str:
    readback: Readback | None = getattr(effective, setting)
    return str(readback.value) if readback else "unknown"
