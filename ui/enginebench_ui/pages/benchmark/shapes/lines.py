"""What the figures of a benchmark share: how lines look, axes of latencies, and where legends stand."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import Measurement
from enginebench_controller.verdicts.parity import in_reading_order
from enginebench_ui.pages.benchmark.shapes.naming import (
    Reader,
    differing,
    inputs_in_full,
    options_in_full,
    short_key,
    told_apart,
)
from enginebench_ui.shared.charts import margins
from enginebench_ui.shared.text import arrivals_text, count_of, drawn_text, engine_label, shortened

GridCell = tuple[int, int]
"""A place in the grid of a line: batch and cores."""

Identity = tuple[object, ...]

_LONGEST_NAME = 48


@dataclass(frozen=True)
class Line:
    """A line of one benchmark. `key` names it in addresses, `label` among the lines it is shown with.

    `first` is the measurement that stands for what all of them share.
    """

    key: str
    label: str
    benchmark_id: str
    first: Measurement
    cells: Mapping[GridCell, Measurement]

    @property
    def batches(self) -> tuple[int, ...]:
        """The batches of its cells, smallest first."""
        return tuple(sorted({batch for batch, _ in self.cells}))

    @property
    def cores(self) -> tuple[int, ...]:
        """The numbers of cores of its cells, smallest first."""
        return tuple(sorted({cores for _, cores in self.cells}))

    @property
    def has_numbers(self) -> bool:
        """Whether any of its measurements came to numbers."""
        return any(one.latency is not None for one in self.cells.values())


def lines_of(measurements: Iterable[Measurement]) -> tuple[Line, ...]:
    """Return the lines of one benchmark, in reading order. Of two measurements in one cell the later one counts.

    How many requests are in flight follows from the cores unless somebody said so; it parts lines only where one cell
    was measured with several. A version does not: engines that fail do not always tell theirs.
    """
    groups: dict[Identity, list[Measurement]] = defaultdict(list)
    for one in in_reading_order(measurements):
        groups[_identity(one)].append(one)
    found: dict[Identity, list[Measurement]] = {}
    for identity, group in groups.items():
        found.update(_parted(identity, group))
    return tuple(_line(identity, group) for identity, group in found.items())


def labelled(lines: Sequence[Line], others: Mapping[str, str] | None = None) -> tuple[Line, ...]:
    """Name lines by their engine and by all that they do not share.

    `others` gives, for lines of other benchmarks, what these are called, by id. No two lines are called alike: whoever
    chooses one by its name would get another.
    """
    varying = differing(_AXES, (line.first for line in lines)).values()
    names = told_apart({line.key: _name(line, varying, (others or {}).get(line.benchmark_id, "")) for line in lines})
    return tuple(replace(line, label=names[line.key]) for line in lines)


def alike(line: Line, others: Iterable[Line]) -> tuple[Line, ...]:
    """Return those of the others that differ from a line in nothing but the engine."""
    return tuple(other for other in others if other.key != line.key and _settings(other.first) == _settings(line.first))


def _name(line: Line, varying: Iterable[Reader], benchmark: str) -> str:
    words = [_engine_label(line), *(read(line.first) for read in varying)]
    named = f"in {shortened(benchmark, _LONGEST_NAME)}" if benchmark else ""
    return " · ".join(filter(None, (*words, named)))


def _engine_label(line: Line) -> str:
    """With the version, which a measurement that failed early does not know."""
    known = (one for one in line.cells.values() if one.engine.version)
    return engine_label(next(known, line.first))


def _parted(identity: Identity, group: Sequence[Measurement]) -> dict[Identity, list[Measurement]]:
    if len({_cell(one) for one in group}) == len(group):
        return {identity: list(group)}
    parted: dict[Identity, list[Measurement]] = defaultdict(list)
    for one in group:
        parted[*identity, one.configuration.requests].append(one)
    return parted


def _line(identity: Identity, group: Sequence[Measurement]) -> Line:
    cells = {_cell(one): one for one in group}
    return Line(short_key(identity), engine_label(group[0]), group[0].benchmark_id, group[0], cells)


def _cell(measurement: Measurement) -> GridCell:
    return measurement.configuration.batch, measurement.configuration.cores


def _identity(measurement: Measurement) -> Identity:
    asked = measurement.configuration
    options = tuple(sorted(asked.options.items()))
    engine = (measurement.engine.name, measurement.engine.environment)
    return (*_settings(measurement), *engine, asked.input_set, options)


def _settings(measurement: Measurement) -> Identity:
    asked = measurement.configuration
    axes = (asked.device, asked.streams, asked.precision, asked.hint, asked.load, asked.arrivals)
    kind = (asked.cluster,) if asked.cluster else ()  # addresses have the keys of lines of before there were kinds
    return (measurement.model_digest, measurement.target, *map(str, axes), *kind)


_AXES: Mapping[str, Reader] = {
    "model": lambda m: m.model_name,
    "target": lambda m: m.target,
    "device": lambda m: m.configuration.device,
    "cluster": lambda m: f"{m.configuration.cluster} cores" if m.configuration.cluster else "",
    "streams": lambda m: count_of(m.configuration.streams, "stream"),
    "precision": lambda m: m.configuration.precision,
    "hint": lambda m: f"hint {m.configuration.hint}",
    "load": lambda m: str(m.configuration.load),
    "requests": lambda m: f"{m.configuration.requests} in flight",
    "arrivals": lambda m: arrivals_text(m.configuration.arrivals),
    "inputs": inputs_in_full,
    "options": lambda m: options_in_full(m.configuration.options),
}
"""What a line can be told apart by, apart from its engine."""


MARGINS = margins(30, legend_rows=1)
LEGEND = {"orientation": "h", "yanchor": "top", "y": -0.22, "x": 0}

_LARGEST_LINEAR_RATIO = 4.0
# Plotly's own ticks on a logarithmic axis leave half of a short range without a number.
_TICKS_MS = [mantissa * 10.0**exponent for exponent in range(-5, 7) for mantissa in (1, 1.5, 2, 3, 4, 5, 6, 8)]


@dataclass(frozen=True)
class LineLook:
    """How a line is drawn, the same in every figure; `name` holds no mark-up."""

    name: str
    colour: str
    symbol: str
    width: float


def looks(lines: Sequence[Line], engines: EngineLooks) -> dict[str, LineLook]:
    """Return how each line is drawn, by its key; the first, which the page is based on, is the thickest."""
    worn = engines.of_series((line.key, line.first.engine.name) for line in lines)
    return {
        line.key: LineLook(
            drawn_text(line.label),
            worn[line.key].colour,
            worn[line.key].symbol,
            3.0 if place == 0 else 1.5,
        )
        for place, line in enumerate(lines)
    }


def latency_axis(least_ms: float, most_ms: float) -> Mapping[str, Any]:
    """Return an axis for latencies: logarithmic where they are far apart, so that tails and other engines are seen."""
    if least_ms <= 0 or most_ms / least_ms < _LARGEST_LINEAR_RATIO:
        return {"title": "ms/batch"}
    ticks = [tick for tick in _TICKS_MS if least_ms / 1.5 <= tick <= most_ms * 1.5]
    every = -(-len(ticks) // 12)
    return {"title": "ms/batch (log)", "type": "log", "tickvals": ticks[::every], "tickformat": "~g"}
