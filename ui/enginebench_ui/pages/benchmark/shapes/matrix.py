"""All cells of a benchmark at a glance: a row a line, a column a batch and number of cores, the best of each marked.

It is HTML of ours and no chart: each cell is a button, read and pressed without a mouse, and on a narrow screen each
row becomes a card.
"""

import html
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.files.palette import EngineLook
from enginebench_controller.records import Measurement, Status
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.verdicts.doubts import Mark, marks, status_words
from enginebench_ui.pages.benchmark.shapes.figures import UNITS, Lens, figure_of
from enginebench_ui.pages.benchmark.shapes.lines import GridCell, Line
from enginebench_ui.shared.text import count_of, number

BEST, OPEN, UNSURE, WRONG, FAILED, ABSENT = "★", "☆", "≈", "≠", "✗", "·"
_LEGEND = {
    BEST: "the best of its column that can be trusted",
    OPEN: "the best, as far as can be told: others may be as good",
    WRONG: "wrong outputs",
    FAILED: "no numbers",
    ABSENT: "not measured",
}

_SENSELESS = {Mark.IMPOSSIBLE, Mark.EMULATED}

CSS = """
.matrix { overflow-x: auto; font-family: var(--st-font); color: var(--st-text-color); }
table { border-collapse: separate; border-spacing: 3px; width: 100%; font-size: 0.875rem; }
th { font-weight: 600; text-align: left; padding: 0.2rem 0.5rem; }
thead th { text-align: right; font-weight: 400; white-space: nowrap; }
thead th:first-child { text-align: left; width: 1%; }
tbody th { font-weight: 400; white-space: nowrap; }
td { padding: 0; text-align: right; }
button { all: unset; box-sizing: border-box; width: 100%; padding: 0.4rem 0.5rem; text-align: right; cursor: pointer;
  border-radius: 0.3rem; font-variant-numeric: tabular-nums; white-space: nowrap;
  background: color-mix(in srgb, var(--st-primary-color) calc(var(--share, 0) * 34%), var(--st-background-color)); }
button:hover { outline: 1px solid var(--st-text-color); }
button:focus-visible, button[aria-current] { outline: 2px solid var(--st-primary-color); outline-offset: -1px; }
button.best { font-weight: 700; }
.absent { padding: 0.4rem 0.5rem; }
.dot { display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%; margin-right: 0.5em; }
p { margin: 0.3rem 0.2rem; font-size: 0.8rem; opacity: 0.85; }
td .size { display: none; }
@media (max-width: 640px) {
  table, tbody, tr, tbody th, td { display: block; }
  thead { display: none; }
  tr { border: 1px solid var(--st-border-color); border-radius: 0.5rem; padding: 0.4rem; margin-bottom: 0.5rem; }
  tbody th { font-weight: 600; white-space: normal; }
  td .size { display: inline; float: left; }
  td { margin-top: 3px; }
}
"""

JS = """
export default function ({ data, parentElement, setTriggerValue }) {
  const place = parentElement.querySelector('.matrix');
  place.innerHTML = data;
  place.onclick = event => {
    const button = event.target.closest('button[data-cell]');
    if (button) setTriggerValue('cell', button.dataset.cell);
  };
}
"""


@dataclass(frozen=True)
class MatrixCell:
    """A cell as it is drawn: its value as text, the sign before it, and its `share` of the best of its column.

    `doubt` says why it is `UNSURE`: "inconclusive, emulated".
    """

    text: str
    sign: str = ""
    share: float = 0.0
    doubt: str = ""


def matrix_cells(lines: Sequence[Line], quantity: Quantity, lens: Lens) -> dict[tuple[str, GridCell], MatrixCell]:
    """Return the cells by key of line and place. Lines of another model or target are no rivals of each other."""
    columns: dict[tuple[str, str, GridCell], dict[str, Measurement]] = defaultdict(dict)
    for line in lines:
        for cell, one in line.cells.items():
            columns[line.first.model_digest, line.first.target, cell][line.key] = one
    found: dict[tuple[str, GridCell], MatrixCell] = {}
    for (_, _, cell), rivals in columns.items():
        found |= {(key, cell): one for key, one in _column(rivals, quantity, lens)}
    return found


def is_trusted(measurement: Measurement, problems: Mapping[str, str]) -> bool:
    """Whether a measurement may be called the best: conclusive, of a real machine, possible, not known to be wrong."""
    is_possible = not _SENSELESS.intersection(marks(measurement))
    return measurement.status is Status.OK and is_possible and measurement.id not in problems


def matrix_html(
    lines: Sequence[Line],
    quantity: Quantity,
    lens: Lens,
    looks: Mapping[str, EngineLook],
    chosen: tuple[str, GridCell] | None = None,
) -> str:
    """Return the table, with names from elsewhere escaped. `looks` are by the lines' keys; `chosen` is outlined."""
    found = matrix_cells(lines, quantity, lens)
    places = sorted({cell for line in lines for cell in line.cells})
    signs = {one.sign for one in found.values()} | ({ABSENT} if len(found) < len(lines) * len(places) else set())
    doubts = " or ".join(dict.fromkeys(one.doubt for one in found.values() if one.doubt))
    legend = [f"{sign} {words}" for sign, words in {**_LEGEND, UNSURE: doubts}.items() if sign in signs]
    better = "more is better" if quantity is Quantity.ITEMS_PER_S else "less is better"
    several = {
        "model": len({line.first.model_digest for line in lines}) > 1,
        "target": len({line.first.target for line in lines}) > 1,
    }
    among = " and ".join(noun for noun, is_one_of_several in several.items() if is_one_of_several)
    of = f"its column, among those of its {among}" if among else "its column"
    said = f"{UNITS[quantity]}, {better}. The darker, the nearer to the best of {of}. {'; '.join(legend)}"
    return (
        f"<table><thead><tr><th><span>{html.escape(UNITS[quantity])}</span></th>{_headings(places)}</tr></thead><tbody>"
        + "".join(_row(line, places, found, looks[line.key].colour, quantity, chosen) for line in lines)
        + f"</tbody></table><p>{html.escape(said)}.</p>"
    )


def _column(rivals: Mapping[str, Measurement], quantity: Quantity, lens: Lens) -> Iterator[tuple[str, MatrixCell]]:
    values = {key: figure_of(one, quantity, lens).value for key, one in rivals.items()}
    trusted = {key: value for key, value in values.items() if value and is_trusted(rivals[key], lens.problems)}
    choose = max if quantity is Quantity.ITEMS_PER_S else min
    known = trusted or {key: value for key, value in values.items() if value}
    best = choose(known.values(), default=None)
    for key, one in rivals.items():
        value = values[key]
        if not value or best is None:
            yield key, MatrixCell(one.failure.kind.value.replace("_", " ") if one.failure else one.status.value, FAILED)
            continue
        share = min(1.0, value / best if quantity is Quantity.ITEMS_PER_S else best / value)
        # Who has no rival is no best.
        sign = _sign(one, lens, is_best=len(rivals) > 1 and key in trusted and value == best)
        yield key, MatrixCell(number(value), sign, share, status_words(one) if sign == UNSURE else "")


def _sign(one: Measurement, lens: Lens, *, is_best: bool) -> str:
    if one.id in lens.problems:
        return WRONG
    if is_best:
        return OPEN if one.id in lens.open else BEST
    return "" if is_trusted(one, lens.problems) else UNSURE


def _headings(places: Sequence[GridCell]) -> str:
    return "".join(f'<th scope="col">batch {batch}<br>{count_of(cores, "core")}</th>' for batch, cores in places)


def _row(
    line: Line,
    places: Sequence[GridCell],
    found: Mapping[tuple[str, GridCell], MatrixCell],
    colour: str,
    quantity: Quantity,
    chosen: tuple[str, GridCell] | None,
) -> str:
    name = html.escape(line.label)
    cells = "".join(
        _cell(line.key, place, found, name, quantity, is_chosen=chosen == (line.key, place)) for place in places
    )
    return f'<tr><th scope="row"><span class="dot" style="background:{colour}"></span>{name}</th>{cells}</tr>'


def _cell(
    key: str,
    place: GridCell,
    found: Mapping[tuple[str, GridCell], MatrixCell],
    name: str,
    quantity: Quantity,
    *,
    is_chosen: bool,
) -> str:
    batch, cores = place
    size = f"batch {batch}, {count_of(cores, 'core')}"
    one = found.get((key, place))
    if one is None:
        return f'<td><div class="absent" title="not measured"><span class="size">{size}</span>{ABSENT}</div></td>'
    meaning = f" ({one.doubt or _LEGEND[one.sign]})" if one.sign else ""
    unit = "" if one.sign == FAILED else f" {UNITS[quantity]}"
    label = f"{name}, {size}: {html.escape(one.text)}{unit}{meaning}"
    current = ' aria-current="true"' if is_chosen else ""
    best = ' class="best"' if one.sign == BEST else ""
    said = f'aria-label="{label}" title="{label}" style="--share:{one.share:.3f}"'
    return (
        f'<td><button type="button"{best}{current} data-cell="{key},{batch},{cores}" {said}>'
        f'<span class="size">{size}</span>{one.sign} {html.escape(one.text)}</button></td>'
    )
