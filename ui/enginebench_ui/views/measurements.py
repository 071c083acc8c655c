"""The measurements of one benchmark as a table, and what went wrong in words."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.parity import requested_is_not_effective
from enginebench_controller.records import Failure, Measurement
from enginebench_ui.views.series import varying_axes
from enginebench_ui.views.text import Row, cells, engine_label, milliseconds, readback


@dataclass(frozen=True)
class FailureView:
    """Measurements that failed in the same way: what to tell a person, and the engine's own words."""

    heading: str
    message: str
    detail: str
    configurations: tuple[str, ...]


def measurement_rows(measurements: Sequence[Measurement]) -> tuple[Row, ...]:
    """Return a table row a measurement; None stands where there is no number.

    Axes that few people touch have a column only where the measurements differ in them.
    """
    varying = varying_axes(measurements)
    extra = {axis.capitalize(): varying[axis] for axis in ("streams", "hint", "load", "requests") if axis in varying}
    return tuple(cells(_row(measurement, extra)) for measurement in measurements)


def failure_views(measurements: Iterable[Measurement]) -> tuple[FailureView, ...]:
    """Return the failures, those of one engine with the same words together."""
    alike: dict[tuple[str, Failure], list[Measurement]] = {}
    for measurement in measurements:
        if measurement.failure:
            alike.setdefault((engine_label(measurement), measurement.failure), []).append(measurement)
    return tuple(_failure(engine, failure, group) for (engine, failure), group in alike.items())


def configuration_text(measurement: Measurement) -> str:
    """Name what was measured within a benchmark: "resnet50, local, CPU, batch 1, 2 cores"."""
    asked = measurement.configuration
    cores = "1 core" if asked.cores == 1 else f"{asked.cores} cores"
    return f"{measurement.model_name}, {measurement.target}, {asked.device}, batch {asked.batch}, {cores}"


def _row(measurement: Measurement, extra: Mapping[str, Callable[[Measurement], str]]) -> Row:
    asked, latency = measurement.configuration, measurement.latency
    return {
        "Model": measurement.model_name,
        "Engine": measurement.engine.name,
        "Version": measurement.engine.version,
        "Environment": measurement.engine.environment,
        "Target": measurement.target,
        "Device": asked.device,
        "Batch": asked.batch,
        "Cores": asked.cores,
        **{heading: read(measurement) for heading, read in extra.items()},
        "Precision": readback(measurement.effective.precision),
        "Threads": readback(measurement.effective.threads),
        "Median (ms)": milliseconds(latency.median_ns if latency else None),
        "p95 (ms)": milliseconds(latency.p95_ns if latency else None),
        "Items/s": measurement.throughput_items_per_s,
        "Status": measurement.status.value,
        "Remarks": "; ".join(_remarks(measurement)) or None,
    }


def _remarks(measurement: Measurement) -> tuple[str, ...]:
    failure = measurement.failure
    ending = (_ending(failure),) if failure else ()
    return ending + requested_is_not_effective(measurement)


def _failure(engine: str, failure: Failure, group: list[Measurement]) -> FailureView:
    detail = "\n\n".join(filter(None, (failure.detail, failure.stderr_tail)))
    return FailureView(f"{engine}: {_ending(failure)}", failure.message, detail, tuple(map(configuration_text, group)))


def _ending(failure: Failure) -> str:
    """Say in a few words how a run ended: "crashed, SIGSEGV, in compile"."""
    where = f"in {failure.phase.replace('_', ' ')}" if failure.phase else ""
    return ", ".join(filter(None, (failure.kind.value.replace("_", " "), failure.signal, where)))
