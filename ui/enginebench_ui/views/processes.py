"""What each process of a measurement did, and what the machine was doing meanwhile."""

from collections.abc import Iterable, Sequence

from enginebench_controller.records import Block, Measurement, Process, WarmUp
from enginebench_ui.views.series import series_names
from enginebench_ui.views.text import Row, cells, milliseconds


def process_rows(measurements: Sequence[Measurement]) -> tuple[Row, ...]:
    """Return a table row a process; None stands where the machine did not tell."""
    names = series_names(measurements)
    return tuple(cells(_row(one, process, names[one.id])) for one in measurements for process in one.processes)


def _row(measurement: Measurement, process: Process, series: str) -> Row:
    blocks = [block for block in measurement.blocks if block.process == process.index]
    evidence = [block.evidence for block in blocks]
    return {
        "Model": measurement.model_name,
        "Series": series,
        "Batch": measurement.configuration.batch,
        "Process": process.index + 1,
        "Median (ms)": milliseconds(process.median_ns),
        "Items/s": process.throughput_items_per_s,
        "Warm-up": _warm_up(process.warm_up),
        "Blocks": len(blocks),
        "Disturbed blocks": _disturbed(blocks),
        "Other processes (ms)": milliseconds(_total(one.other_cpu_time_ns for one in evidence)),
        "Steal (ms)": milliseconds(_total(one.steal_ns for one in evidence)),
        "Throttled (ms)": milliseconds(_total(one.throttled_ns for one in evidence)),
        "Involuntary switches": _total(one.involuntary_switches for one in evidence),
        "Lowest clock (GHz)": _least([one.min_frequency_hz for one in evidence]),
        "Hottest (°C)": _hottest([one.temperature_millicelsius for one in evidence]),
    }


def _warm_up(warm_up: WarmUp | None) -> str | None:
    if warm_up is None:
        return None
    if warm_up.steady is None:
        return "too few inferences to tell"
    return "steady" if warm_up.steady else f"never steady: {warm_up.reason}".removesuffix(": ")


def _disturbed(blocks: Sequence[Block]) -> int:
    return sum(bool(block.disturbances) for block in blocks)


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _least(frequencies_hz: Sequence[int | None]) -> float | None:
    return min((value / 1e9 for value in frequencies_hz if value is not None), default=None)


def _hottest(temperatures_millicelsius: Sequence[int | None]) -> float | None:
    return max((value / 1000 for value in temperatures_millicelsius if value is not None), default=None)
