"""Whether what ran is what was asked for, and whether engines that are compared ran the same: sentences for people.

An engine that silently computes in bf16 looks twice as fast as one that kept to f32. Such a comparison may be shown,
but never without saying so; every table, page and document takes its words from here.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from enginebench_controller.records import Effective, Hint, Measurement, Readback, Source

PRECISION_OF_THE_ENGINE = "default"
"""The requested precision that leaves the choice to the engine, so that nothing can differ from it."""

_HOW_KNOWN = {
    Source.ENGINE_API: "as the engine reports",
    Source.OBSERVED: "as observed",
    Source.ASSUMED: "as assumed from how the engine works",
}


def requested_is_not_effective(measurement: Measurement) -> tuple[str, ...]:
    """Return one sentence for each setting that differs from the request; unknown settings are not differences.

    Threads are compared with the requested cores. Streams are compared only without a hint, since a hint leaves them
    to the engine.
    """
    wanted, got = measurement.configuration, measurement.effective
    streams = wanted.streams if wanted.hint is Hint.NONE else None
    precision = None if wanted.precision == PRECISION_OF_THE_ENGINE else wanted.precision
    sentences = (
        _difference("precision", precision, got.precision),
        _difference("threads", wanted.cores, got.threads),
        _difference("streams", streams, got.streams),
    )
    return tuple(sentence for sentence in sentences if sentence)


def unequal_settings(measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Return one sentence for each way in which engines given the same work differ in an effective setting.

    Measurements are given the same work when target, model, device and configuration agree; those without numbers
    are left out.
    """
    models_by_difference: dict[str, list[str]] = defaultdict(list)
    for group in _same_work(measurements):
        for setting in ("precision", "threads"):
            if difference := _unequal(setting, group):
                models_by_difference[difference].append(group[0].model_name)
    return tuple(
        f"{difference} (for {', '.join(dict.fromkeys(models))})" for difference, models in models_by_difference.items()
    )


def engine_label(measurement: Measurement) -> str:
    """Name an engine so that two environments or versions stay apart: "onnxruntime 1.31.1 (legacy)"."""
    engine = measurement.engine
    version = f" {engine.version}" if engine.version else ""
    environment = f" ({engine.environment})" if engine.environment not in ("", "default") else ""
    return f"{engine.name}{version}{environment}"


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
    axes = (asked.batch, asked.cores, asked.streams, asked.precision, asked.hint, asked.load, asked.requests)
    return (measurement.target, measurement.model_digest, asked.device, *axes)


def _unequal(setting: str, group: Sequence[Measurement]) -> str | None:
    engines_by_value: dict[str, list[str]] = defaultdict(list)
    for measurement in group:
        engines_by_value[_value(measurement.effective, setting)].append(engine_label(measurement))
    if len(engines_by_value) < 2:
        return None
    sides = (f"{value} on {', '.join(dict.fromkeys(names))}" for value, names in sorted(engines_by_value.items()))
    return f"effective {setting} differs: {'; '.join(sides)}"


def _value(effective: Effective, setting: str) -> str:
    readback: Readback | None = getattr(effective, setting)
    return str(readback.value) if readback else "unknown"
