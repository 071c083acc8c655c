"""Lines: measurements of the same model, engine, target and settings, which differ in nothing but batch and cores.

A model is what `views.originals` makes of it: copies for other batches are the model itself.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from enginebench_controller.documents.reading_order import in_reading_order
from enginebench_controller.records import Measurement
from enginebench_ui.views.magnitudes import shortened
from enginebench_ui.views.text import arrivals_text, count_of, engine_label

Cell = tuple[int, int]
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
    cells: Mapping[Cell, Measurement]

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

    `others` gives, for lines of other benchmarks, what these are called, by id.
    """
    varying = [read for read in _AXES.values() if len({read(line.first) for line in lines}) > 1]
    return tuple(_labelled(line, varying, (others or {}).get(line.benchmark_id, "")) for line in lines)


def alike(line: Line, others: Iterable[Line]) -> tuple[Line, ...]:
    """Return those of the others that differ from a line in nothing but the engine."""
    return tuple(other for other in others if other.key != line.key and _settings(other.first) == _settings(line.first))


def _labelled(line: Line, varying: Sequence[Callable[[Measurement], str]], benchmark: str) -> Line:
    words = [_engine_label(line), *(read(line.first) for read in varying)]
    named = f"in {shortened(benchmark, _LONGEST_NAME)}" if benchmark else ""
    return replace(line, label=" · ".join(filter(None, (*words, named))))


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
    key = hashlib.sha256(repr(identity).encode()).hexdigest()[:8]
    return Line(key, engine_label(group[0]), group[0].benchmark_id, group[0], {_cell(one): one for one in group})


def _cell(measurement: Measurement) -> Cell:
    return measurement.configuration.batch, measurement.configuration.cores


def _identity(measurement: Measurement) -> Identity:
    asked = measurement.configuration
    options = tuple(sorted(asked.options.items()))
    engine = (measurement.engine.name, measurement.engine.environment)
    return (*_settings(measurement), *engine, asked.input_set, options)


def _settings(measurement: Measurement) -> Identity:
    asked = measurement.configuration
    axes = (asked.device, asked.streams, asked.precision, asked.hint, asked.load, asked.arrivals)
    return (measurement.model_digest, measurement.target, *map(str, axes))


def _options(measurement: Measurement) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(measurement.configuration.options.items()))


_AXES: Mapping[str, Callable[[Measurement], str]] = {
    "model": lambda m: shortened(m.model_name, _LONGEST_NAME),
    "target": lambda m: m.target,
    "device": lambda m: m.configuration.device,
    "streams": lambda m: count_of(m.configuration.streams, "stream"),
    "precision": lambda m: m.configuration.precision,
    "hint": lambda m: f"hint {m.configuration.hint}",
    "load": lambda m: str(m.configuration.load),
    "requests": lambda m: f"{m.configuration.requests} in flight",
    "arrivals": lambda m: arrivals_text(m.configuration.arrivals),
    "inputs": lambda m: f"inputs {shortened(m.configuration.input_set.name, _LONGEST_NAME)}",
    "options": lambda m: shortened(_options(m), _LONGEST_NAME),
}
"""What a line can be told apart by, apart from its engine."""
