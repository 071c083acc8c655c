"""The measurements of one benchmark as a table, and what went wrong in words."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Failure, Measurement, ModelVersion, OutputCheck
from enginebench_controller.trust.evidence_summary import summarize_evidence
from enginebench_controller.trust.output_check import check_outputs
from enginebench_controller.trust.parity import flags, status_words
from enginebench_ui.views.series import varying_axes
from enginebench_ui.views.text import Row, cells, engine_label, milliseconds, percent, readback

_RARE_AXES = ("target", "streams", "hint", "load", "requests", "arrivals")
_SOMETIMES: Mapping[str, set[str | float | None]] = {
    "Environment": {"default"},
    "Spread (%)": {None},
    "p99 (ms)": {None},
    "Outputs": {None},
}
"""Columns that are left out where they hold nothing but these."""


@dataclass(frozen=True)
class FailureView:
    """Measurements that failed in the same way: what to tell a person, and the engine's own words."""

    heading: str
    message: str
    detail: str
    configurations: tuple[str, ...]


def measurement_rows(
    measurements: Sequence[Measurement],
    models: Iterable[ModelVersion] = (),
    checks: Mapping[str, OutputCheck] | None = None,
) -> tuple[Row, ...]:
    """Return a table row a measurement; None stands where there is no number.

    Columns that would say nothing, and axes in which the measurements do not differ, are left out but for the most
    common. `models`, all those of the store, tell which versions are to compute the same; `checks` of the outputs are
    made where none are given.
    """
    varying = varying_axes(measurements)
    extra = {axis.capitalize(): varying[axis] for axis in _RARE_AXES if axis in varying}
    checks = check_outputs(measurements, models) if checks is None else checks
    rows = [_row(one, extra, _outputs(one.id, checks)) for one in measurements]
    silent = {heading for heading in _SOMETIMES if {row[heading] for row in rows} <= _SOMETIMES[heading]}
    return tuple(cells({heading: row[heading] for heading in row if heading not in silent}) for row in rows)


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


def _row(measurement: Measurement, extra: Mapping[str, Callable[[Measurement], str]], outputs: str | None) -> Row:
    asked, latency = measurement.configuration, measurement.latency
    return {
        "Model": measurement.model_name,
        "Engine": measurement.engine.name,
        "Version": measurement.engine.version,
        "Environment": measurement.engine.environment,
        "Device": asked.device,
        "Batch": asked.batch,
        "Cores": asked.cores,
        **{heading: read(measurement) for heading, read in extra.items()},
        "Precision": readback(measurement.effective.precision),
        "Threads": readback(measurement.effective.threads),
        "Median (ms)": milliseconds(latency.median_ns if latency else None),
        "± (%)": percent(latency.median_relative_half_width if latency else None),
        "Spread (%)": percent(measurement.process_spread),
        "p95 (ms)": milliseconds(latency.percentile_ns(95) if latency else None),
        "p99 (ms)": milliseconds(latency.percentile_ns(99) if latency else None),
        "Items/s": measurement.throughput_items_per_s,
        "Status": status_words(measurement),
        "Outputs": outputs,
        "Disturbed (%)": percent(summarize_evidence(measurement.blocks).disturbed_share),
        "Remarks": "; ".join(_remarks(measurement)) or None,
    }


def _remarks(measurement: Measurement) -> tuple[str, ...]:
    failure = measurement.failure
    ended = (ending(failure),) if failure else ()
    return ended + flags(measurement)


def _outputs(identity: str, checks: Mapping[str, OutputCheck]) -> str | None:
    """Say how a measurement's outputs compare with another's; None where there was nothing to compare."""
    check = checks.get(identity)
    if check is not None and (check.problem or check.reference):
        return check.problem or check.remark or "agree"
    return "reference" if any(other.reference == identity for other in checks.values()) else None


def _failure(engine: str, failure: Failure, group: list[Measurement]) -> FailureView:
    detail = "\n\n".join(filter(None, (failure.detail, failure.stderr_tail)))
    return FailureView(f"{engine}: {ending(failure)}", failure.message, detail, tuple(map(configuration_text, group)))


def ending(failure: Failure) -> str:
    """Say in a few words how a run ended: "crashed, SIGSEGV, in compile"."""
    where = f"in {failure.phase.replace('_', ' ')}" if failure.phase else ""
    return ", ".join(filter(None, (failure.kind.value.replace("_", " "), failure.signal, where)))
