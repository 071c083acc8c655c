"""Batch × cores as a grid: which cells an order would measure, and which of them have numbers already.

And the way to the same form with the configurations of another benchmark.
"""

import html
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from enginebench_controller.plan.expand import Case
from enginebench_controller.records.configuration import cores_in_words
from enginebench_controller.store.measurements import MeasuredCell
from enginebench_ui.shared.order_fields import address_of
from enginebench_ui.shared.text import Row

_Place = tuple[int, int, str]
"""Batch, cores and their kind."""

_MEASURED = "✓"


@dataclass
class _Cell:
    new: int = 0
    again: int = 0
    medians_ns: list[float] = field(default_factory=list)


def cell_grid(cases: Iterable[Case], measured: Iterable[MeasuredCell], family: Mapping[str, str]) -> tuple[Row, ...]:
    """Return a row a batch with a column for each number of cores.

    Measured is what has numbers from the same version (or its copy for that batch: `family`), engine with its options,
    environment, target, device, load with its arrivals, and input set; cells of that kind that are not ordered now are
    shown, too.
    """
    ordered = list(cases)
    known = {_key(one, family): one for one in measured}
    cells: defaultdict[_Place, _Cell] = defaultdict(_Cell)
    for case in ordered:
        _count(
            cells[case.configuration.batch, case.configuration.cores, case.configuration.cluster],
            known.get(_key_of(case)),
        )
    for key in _alike(ordered, known) - {_key_of(case) for case in ordered}:
        one = known[key]
        cells[one.batch, one.cores, one.cluster].medians_ns += [one.median_ns] if one.median_ns is not None else []
    return _rows(cells)


def tally(cases: Sequence[Case], measured: Iterable[MeasuredCell], family: Mapping[str, str]) -> tuple[int, int]:
    """Count the cases that have no numbers yet, and those that have."""
    known = {_key(one, family) for one in measured}
    again = sum(_key_of(case) in known for case in cases)
    return len(cases) - again, again


def legend(new: int, again: int, grid: Sequence[Row]) -> str:
    """Say how much is new, and what the signs of the grid mean."""
    said = [f"{new} new"] * bool(new) + [f"{again} measured before (↻, newest median)"] * bool(again)
    has_more = any(str(value).startswith(_MEASURED) for row in grid for value in row.values())
    more = f" {_MEASURED} marks what was measured in the same way, and is not asked for now." if has_more else ""
    return f"{', '.join(said)}.{more}"


def _count(cell: _Cell, before: MeasuredCell | None) -> None:
    if before is None:
        cell.new += 1
        return
    cell.again += 1
    cell.medians_ns += [before.median_ns] if before.median_ns is not None else []


def _alike(cases: Iterable[Case], known: Iterable[tuple[object, ...]]) -> set[tuple[object, ...]]:
    """The keys that differ from a case in batch and cores only."""
    kinds = {_key_of(case)[3:] for case in cases}
    return {key for key in known if key[3:] in kinds}


def _key(one: MeasuredCell, family: Mapping[str, str]) -> tuple[object, ...]:
    model = family.get(one.model_digest, one.model_digest)
    where = (one.target, one.engine, one.environment, one.device)
    load = (one.load, one.requests, one.arrival_process, one.arrival_rate_per_s)
    how = (one.streams, one.precision, one.hint, *load, frozenset(one.options.items()), one.input_set)
    return (one.batch, one.cores, one.cluster, model, *where, *how)


def _key_of(case: Case) -> tuple[object, ...]:
    asked = case.configuration
    where = (case.target, case.engine.name, case.engine.environment, asked.device)
    arrivals = (str(asked.arrivals.process), asked.arrivals.rate_per_s) if asked.arrivals else (None, None)
    load = (str(asked.load), asked.requests, *arrivals)
    how = (asked.streams, asked.precision, str(asked.hint), *load, frozenset(asked.options.items()), asked.input_set)
    return (asked.batch, asked.cores, asked.cluster, case.model.digest, *where, *how)


def _rows(cells: Mapping[_Place, _Cell]) -> tuple[Row, ...]:
    batches, places = sorted({batch for batch, *_ in cells}), sorted({(kind, cores) for _, cores, kind in cells})
    return tuple(
        {"Batch": batch}
        | {cores_in_words(cores, kind): _words(cells.get((batch, cores, kind))) for kind, cores in places}
        for batch in batches
    )


def _words(cell: _Cell | None) -> str | None:
    if cell is None:
        return None
    time = f"{cell.medians_ns[0] / 1e6:.2f} ms" if len(cell.medians_ns) == 1 else ""
    if not cell.new + cell.again:
        return f"{_MEASURED} {time or f'{len(cell.medians_ns)} measured'}"
    if cell.new + cell.again == 1:
        return "new" if cell.new else " ".join(filter(None, ("↻ again", f"({time})" if time else "")))
    counts = [f"{cell.new} new"] * bool(cell.new) + [f"↻ {cell.again} again"] * bool(cell.again)
    return ", ".join(counts)


_SIZES = ("batch", "batches", "batches_on", "cores", "several_cores", "cores_on")
_CONFIGURATIONS = frozenset((*_SIZES, "precision", "load", "hint", "streams", "requests", "rate", "arrivals"))
"""The fields of the form, by what they are called in its address, that say what is measured of a model on an engine."""


def same_configurations_html(asked: Mapping[str, Sequence[str]], plan: Mapping[str, Any]) -> str:
    """Return a link to the form as it is `asked` for in the address, but with the configurations of a plan.

    A plain link, for which the browser loads the page anew: Streamlit writes a field into the address that is changed,
    but not one that is set while it is drawn for the first time, as that of several batches; a reload would lose it.
    Nor does it let go of a field's value for an address without one while the same page is open.
    """
    kept = [(name, value) for name, values in asked.items() if name not in _CONFIGURATIONS for value in values]
    taken = [(name, value) for name, value in address_of(plan) if name in _CONFIGURATIONS]
    where = html.escape(f"?{urlencode([*kept, *taken])}")
    return f'<a href="{where}" target="_self" style="color:inherit">Same configurations as that one</a>'
