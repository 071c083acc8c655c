"""How the figures of lines scale with cores or batch: the table, the best and the worst point, and the gaps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Measurement
from enginebench_controller.stats.scaling import Axis, Figure, Point, ScaledPoint, Scaling, scale
from enginebench_controller.trust.parity import status_words
from enginebench_ui.views.benchmark.figures import UNITS, Lens, figure_of
from enginebench_ui.views.benchmark.lines import Cell, Line
from enginebench_ui.views.magnitudes import number, times_text
from enginebench_ui.views.measurements import ending
from enginebench_ui.views.text import Row, cells, count_of, percent

HEADINGS: Mapping[Axis, str] = {Axis.CORES: "Cores", Axis.BATCH: "Batch"}


@dataclass(frozen=True)
class Gap:
    """A cell without numbers: which, of which line, and why, in words."""

    line: str
    cell: str
    reason: str


def scaling_of(line: Line, axis: Axis, fixed: int, figure: Figure, lens: Lens) -> Scaling:
    """Return how a figure of a line scales along an axis while the other stays at `fixed`."""
    points = []
    for size, measurement in _along(line, axis, fixed):
        found = figure_of(measurement, figure, lens)
        points.append(Point(size, found.value, found.low, found.high))
    return scale(points, axis, figure)


def scaling_rows(lines: Sequence[Line], axis: Axis, fixed: int, lens: Lens) -> tuple[Row, ...]:
    """Return a row a size of each line, with speed-up and efficiency against the smallest size that has numbers."""
    return tuple(cells(row) for line in lines for row in _rows(line, axis, fixed, lens))


def extremes(scaling: Scaling) -> str:
    """Name the best and the worst point: "Best: 2 cores, 1.234 ms/item (speed-up 1.90×). Worst: …"."""
    if scaling.best is None or scaling.worst is None:
        known = "No" if scaling.base is None else "One"
        return f"{known} point with numbers: nothing to compare."
    best, worst = (_named(point, scaling) for point in (scaling.best, scaling.worst))
    return f"Best: {best}. Worst: {worst}."


def gaps(lines: Sequence[Line], axis: Axis, fixed: int) -> tuple[Gap, ...]:
    """Return the cells that have no numbers, with the reason."""
    return tuple(
        Gap(line.label, size_text(axis, size), _reason(measurement))
        for line in lines
        for size, measurement in _along(line, axis, fixed)
        if measurement is None or measurement.latency is None
    )


def size_text(axis: Axis, size: int) -> str:
    """Name a place on an axis: "batch 4", "2 cores"."""
    return f"batch {size}" if axis is Axis.BATCH else count_of(size, "core")


def _along(line: Line, axis: Axis, fixed: int) -> Iterator[tuple[int, Measurement | None]]:
    sizes = line.batches if axis is Axis.BATCH else line.cores
    for size in sizes:
        cell: Cell = (size, fixed) if axis is Axis.BATCH else (fixed, size)
        yield size, line.cells.get(cell)


def _reason(measurement: Measurement | None) -> str:
    if measurement is None:
        return "not measured"
    failure = measurement.failure
    return f"{ending(failure)}: {failure.message}" if failure else measurement.status.value


def _named(point: ScaledPoint, scaling: Scaling) -> str:
    gained = "" if point.speed_up is None else f" (speed-up {times_text(point.speed_up)})"
    return f"{size_text(scaling.axis, point.size)}, {number(point.value)} {UNITS[scaling.figure]}{gained}"


def _rows(line: Line, axis: Axis, fixed: int, lens: Lens) -> Iterator[Row]:
    scaled = {figure: scaling_of(line, axis, fixed, figure, lens) for figure in Figure}
    for place, (size, measurement) in enumerate(_along(line, axis, fixed)):
        points = {figure: scaling.points[place] for figure, scaling in scaled.items()}
        time, rate = points[Figure.TIME_PER_BATCH], points[Figure.ITEMS_PER_S]
        yield {
            "Line": line.label,
            HEADINGS[axis]: size,
            "ms/item": points[Figure.TIME_PER_ITEM].value,
            "ms/batch": time.value,
            "± (%)": percent(_half_width(time)),
            "Speed-up": time.speed_up,
            "Speed-up, range": _range(time),
            "Efficiency (%)": percent(time.efficiency),
            "items/s": rate.value,
            "items/s ± (%)": percent(_half_width(rate)),
            "items/s, speed-up": rate.speed_up,
            "items/s, efficiency (%)": percent(rate.efficiency),
            "Point": place_among(points[Figure.TIME_PER_ITEM], scaled[Figure.TIME_PER_ITEM]),
            "Status": status_words(measurement) if measurement else "not measured",
            "Remarks": _remarks(measurement, lens),
        }


def _half_width(point: ScaledPoint) -> float | None:
    if point.low is None or point.high is None or not point.value:
        return None
    return (point.high - point.low) / 2 / point.value


def _range(point: ScaledPoint) -> str | None:
    if point.speed_up_low is None or point.speed_up_high is None:
        return None
    return f"{number(point.speed_up_low)} to {number(point.speed_up_high)}"


def place_among(point: ScaledPoint, scaling: Scaling) -> str | None:
    """Say whether a point is the best or the worst of its scaling."""
    return "best" if point is scaling.best else "worst" if point is scaling.worst else None


def _remarks(measurement: Measurement | None, lens: Lens) -> str | None:
    if measurement is None:
        return None
    if measurement.failure:
        return _reason(measurement)
    return "; ".join(lens.remarks(measurement)) or None
