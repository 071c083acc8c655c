"""A ladder as a table for the terminal."""

from enginebench_controller.cli.console import UNKNOWN, print_table, remark
from enginebench_controller.ladder.chart import gain_words
from enginebench_controller.ladder.results import Gain, Ladder, RungResult
from enginebench_controller.records import Interval
from enginebench_controller.trust.parity import flags


def print_ladder(ladder: Ladder) -> None:
    """A row a rung; reasons and remarks below, and which rung is the best."""
    columns = [("rung", False), ("", False), ("first inference s", True), ("s per image", True), ("FPS", True)]
    columns += [("median ms", True), ("on the one before", True), ("on the first", True), ("status", False)]
    print_table(f"{ladder.benchmark.name} ({ladder.benchmark.id})", columns, [_row(rung) for rung in ladder.rungs])
    remark("± is half of the 95 % interval; ≈ a gain within the noise of both rungs")
    for rung in ladder.rungs:
        if rung.reason:
            remark(f"  {rung.title}: {'not available' if rung.measurement is None else 'failed'}: {rung.reason}")
        for flag in _flags(rung):
            remark(f"  note: {rung.title}: {flag}")
    for line in ladder.remarks:
        remark(line)
    if best := ladder.best:
        remark(f"best: {best.title}")


def _flags(rung: RungResult) -> list[str]:
    """What to know before trusting a rung's numbers; a fast wrong answer is no result."""
    wrong = rung.output_check.problem if rung.output_check else ""
    return [*(flags(rung.measurement) if rung.measurement else ()), *([f"outputs: {wrong}"] if wrong else [])]


def _row(rung: RungResult) -> list[object]:
    return [
        *(rung.name, rung.title),
        UNKNOWN if rung.first_inference_ns is None else f"{rung.first_inference_ns / 1e9:.4f}",
        UNKNOWN if rung.seconds_per_image is None else f"{rung.seconds_per_image:.5f}",
        _with_interval(rung.fps, rung.fps_interval, 1.0, 1),
        _with_interval(rung.latency_ns, rung.latency_interval, 1e-6, 3),
        *(_gain(rung.gain_over_previous), _gain(rung.gain_over_first), rung.status_words),
    ]


def _with_interval(value: float | None, interval: Interval | None, factor: float, digits: int) -> str:
    if value is None:
        return UNKNOWN
    number = f"{value * factor:.{digits}f}"
    return number if interval is None else f"{number} ± {(interval.high - interval.low) / 2 * factor:.{digits}f}"


def _gain(gain: Gain | None) -> str:
    return UNKNOWN if gain is None else gain_words(gain)
