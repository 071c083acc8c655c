"""One cell of a benchmark: its cards, how it compares with the same cell of other lines, and how it is distributed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.comparing.pairing import Compared
from enginebench_controller.records import Load, Measurement, Status
from enginebench_controller.stats.comparison import PRACTICAL, Comparison, Verdict
from enginebench_controller.stats.scaling import Figure
from enginebench_controller.trust.parity import status_words
from enginebench_ui.views.benchmark.figures import (
    UNITS,
    Lens,
    Remark,
    figure_of,
    interval_text,
)
from enginebench_ui.views.benchmark.lines import Cell, Line
from enginebench_ui.views.magnitudes import number
from enginebench_ui.views.measurements import ending
from enginebench_ui.views.text import Row, cells, count_of, milliseconds, percent, readback

_INCONCLUSIVE = "The interval is wider than was asked for."
_VERDICTS = {
    Verdict.FASTER: "faster",
    Verdict.SLOWER: "slower",
    Verdict.SAME: f"the same, to {PRACTICAL:.0%}",
    Verdict.INCONCLUSIVE: "within noise",
}
_UNTOLD = "cannot be told"
_NEAR = 1.1
"""Figures that are no further apart need no word."""


@dataclass(frozen=True)
class Card:
    """One figure of a cell: "ms/item", "0.8123", where it lies, and what it is."""

    unit: str
    value: str
    interval: str
    explanation: str


@dataclass(frozen=True)
class CellView:
    """A cell of the line that the page is based on: its cards, how it ended, and what to know before trusting it.

    Without numbers there are no cards, and `missing` says why in words.
    """

    cards: tuple[Card, ...]
    status: Status | None
    remarks: tuple[str, ...]
    effective: str
    missing: str = ""


def cell_view(line: Line, cell: Cell, lens: Lens) -> CellView:
    """Return the cell of a line; one that was not measured says so."""
    measurement = line.cells.get(cell)
    if measurement is None:
        return CellView((), None, (), "", f"{cell_text(cell)} was not measured with {line.label}.")
    if measurement.latency is None:
        return CellView((), measurement.status, (), "", _missing(line, cell, measurement))
    unsure = (_INCONCLUSIVE,) if measurement.status is Status.INCONCLUSIVE else ()
    return CellView(
        tuple(_card(measurement, figure, lens) for figure in Figure),
        measurement.status,
        unsure + lens.remarks(measurement),
        _effective(measurement),
    )


def comparison_rows(
    base: Line,
    others: Sequence[Line],
    cell: Cell,
    compared: Mapping[str, Compared],
    lens: Lens,
) -> tuple[Row, ...]:
    """Return a row for the base and each line beside it; `compared` with the base, by the other's measurement id."""
    return tuple(_comparison_row(line, base, cell, compared, lens) for line in (base, *others))


def remarks_on(lines: Sequence[Line], shown: Sequence[Cell], lens: Lens) -> tuple[Remark, ...]:
    """Return all that is to be known of cells of lines that have numbers, each with the line's and the cell's name."""
    found = ((line, cell, line.cells.get(cell)) for line in lines for cell in shown)
    return tuple(
        Remark(f"{line.label}, {cell_text(cell).lower()}", sentence)
        for line, cell, measurement in found
        if measurement is not None and measurement.latency is not None
        for sentence in lens.remarks(measurement)
    )


def unlike(compared: Iterable[Compared]) -> tuple[str, ...]:
    """Return a sentence for each way in which what is compared was not the same work on equal terms."""
    return tuple(dict.fromkeys(remark for one in compared for remark in one.remarks))


def distribution_rows(lines: Sequence[Line], cell: Cell) -> tuple[Row, ...]:
    """Return, for the same cell of each line, a row of what its latencies are in ms; None where too few tell."""
    shown = ((line, line.cells[cell]) for line in lines if cell in line.cells)
    return tuple(cells(_distribution(line, one)) for line, one in shown if one.latency is not None)


def cell_text(cell: Cell) -> str:
    """Name a cell: "Batch 4 on 2 cores"."""
    return f"Batch {cell[0]} on {count_of(cell[1], 'core')}"


def _missing(line: Line, cell: Cell, measurement: Measurement) -> str:
    failure = measurement.failure
    why = f"{ending(failure)}. {failure.message}" if failure else str(measurement.status)
    return f"{cell_text(cell)} has no numbers with {line.label}: {why}"


def _card(measurement: Measurement, figure: Figure, lens: Lens) -> Card:
    found = figure_of(measurement, figure, lens)
    latency = f"{lens.statistic.capitalize()} latency of an inference"
    explanations = {
        Figure.TIME_PER_ITEM: f"{latency} ÷ its batch of {measurement.configuration.batch}.",
        Figure.TIME_PER_BATCH: f"{latency}, which is of a whole batch.",
        Figure.ITEMS_PER_S: "Items of the whole steady state by wall clock, not the inverse of a latency.",
    }
    apart = _apart(measurement) if figure is Figure.ITEMS_PER_S else ""
    below = " · ".join(filter(None, (interval_text(found.interval), apart)))
    return Card(UNITS[figure], number(found.value), below, explanations[figure])


def _apart(measurement: Measurement) -> str:
    """Why items/s are not what the batch ÷ the median latency comes to; "" where they are, to a tenth."""
    asked, latency, rate = measurement.configuration, measurement.latency, measurement.throughput_items_per_s
    if latency is None or not rate:
        return ""
    in_flight = rate / asked.batch * latency.median_ns / 1e9  # Little's law
    if 1 / _NEAR < in_flight < _NEAR:
        return ""
    if asked.arrivals is not None:
        return f"{asked.arrivals.rate_per_s:g} requests/s arrive, and a latency counts the wait"
    if asked.load is not Load.SYNC:
        return f"{count_of(asked.requests, 'request')} in flight, {in_flight:.2g} at work on average"
    return f"the mean latency, {latency.mean_ns / 1e6:.3g} ms, is not the median: some take much longer or shorter"


def _effective(measurement: Measurement) -> str:
    got = measurement.effective
    words = (f"precision {readback(got.precision)}", f"threads {readback(got.threads)}")
    samples = measurement.latency.samples if measurement.latency else 0
    count = len(measurement.processes)
    processes = "1 process" if count == 1 else f"{count} processes"
    return " · ".join(filter(None, (*words, f"{samples:,} inferences in {processes}", got.preparation)))


def _comparison_row(
    line: Line,
    base: Line,
    cell: Cell,
    compared: Mapping[str, Compared],
    lens: Lens,
) -> Row:
    measurement = line.cells.get(cell)
    values = {figure: figure_of(measurement, figure, lens) for figure in Figure}
    found = compared[measurement.id].comparison if measurement and measurement.id in compared else None
    return cells(
        {
            "": "based on" if line is base else "",
            "Line": line.label,
            "ms/item": values[Figure.TIME_PER_ITEM].value,
            "ms/batch": values[Figure.TIME_PER_BATCH].value,
            "± (%)": percent(values[Figure.TIME_PER_BATCH].half_width),
            "items/s": values[Figure.ITEMS_PER_S].value,
            "items/s ± (%)": percent(values[Figure.ITEMS_PER_S].half_width),
            "Time ÷ base": found.ratio if found else None,
            "95 % interval": f"{found.low:.3f} to {found.high:.3f}" if found and found.low and found.high else None,
            "It is": _told(found) if found else None,
            "Status": status_words(measurement) if measurement else "not measured",
            "Remarks": _remarks(measurement, found.note if found else "", lens),
        }
    )


def _told(found: Comparison) -> str:
    """The verdict; without a ratio there is no interval either that a difference could lie within."""
    return _UNTOLD if found.ratio is None else _VERDICTS[found.verdict]


def _remarks(measurement: Measurement | None, note: str, lens: Lens) -> str | None:
    if measurement is None:
        return None
    failed = (ending(measurement.failure),) if measurement.failure else ()
    return "; ".join(filter(None, (*failed, *lens.remarks(measurement), note))) or None


def _distribution(line: Line, measurement: Measurement) -> Row:
    latency = measurement.latency
    assert latency is not None  # noqa: S101  # asked before
    tails = {f"p{one.percent:g}": milliseconds(one.value_ns) for one in latency.percentiles if one.percent != 50}
    return {
        "Line": line.label,
        "Least": milliseconds(latency.min_ns),
        "Median": milliseconds(latency.median_ns),
        "Mean": milliseconds(latency.mean_ns),
        **tails,
        "Most": milliseconds(latency.max_ns),
        "SD": milliseconds(latency.sd_ns),
        "Outliers (%)": percent(latency.outliers / latency.samples if latency.samples else None),
    }
