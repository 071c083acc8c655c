"""All cells of a benchmark at a glance: a row a line, a column a batch and number of cores, the best of each marked.

It is HTML of ours and no chart: each cell is a button, read and pressed without a mouse, and on a narrow screen each
row becomes a card.
"""

import html
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.files.palette import EngineLook
from enginebench_controller.records import Measurement
from enginebench_controller.stats.ranking import Standing
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.verdicts.answers import Answer, RankedPlace, RankMetric
from enginebench_controller.verdicts.doubts import is_trusted, status_words
from enginebench_ui.pages.benchmark.shapes.figures import UNITS, Lens, figure_of
from enginebench_ui.pages.benchmark.shapes.lines import GridCell, Line
from enginebench_ui.shared.text import count_of, isolated, number

BEST, OPEN, UNSURE, WRONG, FAILED, ABSENT = "★", "☆", "≈", "≠", "✗", "·"
_LEGEND = {
    BEST: "the best of its column that can be trusted",
    OPEN: "the best, as far as can be told: others may be as good",
    WRONG: "wrong outputs",
    FAILED: "no numbers",
    ABSENT: "not measured",
}

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
  // What is replaced loses the focus, and whoever goes by the keyboard would begin anew at the top of the page.
  const focused = parentElement.getRootNode().activeElement?.dataset.cell;
  place.innerHTML = data;
  if (focused) place.querySelector(`[data-cell="${focused}"]`)?.focus({ preventScroll: true });
  place.onclick = event => {
    const button = event.target.closest('button[data-cell]');
    if (button) setTriggerValue('cell', button.dataset.cell);
  };
}
"""


@dataclass(frozen=True)
class MatrixCell:
    """A cell as it is drawn: its value as text, the sign before it, and its `share` of the best of its column.

    `doubt` says why it is `UNSURE`, "inconclusive, emulated", or whom the answer has before the best of its column.
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
    names = {line.key: line.label for line in lines}
    found: dict[tuple[str, GridCell], MatrixCell] = {}
    for (_, _, cell), rivals in columns.items():
        found |= {(key, cell): one for key, one in _column(rivals, names, quantity, lens)}
    return found


def outrun(answers: Iterable[Answer]) -> dict[str, dict[str, RankMetric]]:
    """Return those that the answers have slower than others: by what, by the others' ids, the fastest first."""
    return {
        one.measurement_id: {
            other.measurement_id: answer.metric for other in answer.places[:place] if _is_slower(one, other)
        }
        for answer in answers
        for place, one in enumerate(answer.places)
    }


def _is_slower(one: RankedPlace, other: RankedPlace) -> bool:
    """Ratios are to the fastest: of two others it is told where their intervals do not touch."""
    if other.standing is Standing.FASTEST:
        return one.standing is Standing.SLOWER
    return one.low is not None and other.high is not None and one.low > other.high


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
    legend = _legend(found.values(), has_gaps=len(found) < len(lines) * len(places))
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
        + f"</tbody></table><p>{html.escape(isolated(said))}.</p>"
    )


def _legend(found: Collection[MatrixCell], *, has_gaps: bool) -> list[str]:
    plain = {one.sign for one in found if not one.doubt} | ({ABSENT} if has_gaps else set())
    legend = [f"{sign} {words}" for sign, words in _LEGEND.items() if sign in plain]
    doubts: dict[str, dict[str, None]] = defaultdict(dict)
    for one in found:
        if one.doubt:
            doubts[one.sign][one.doubt] = None
    return legend + [f"{sign} {'; or '.join(words)}" for sign, words in doubts.items()]


def _column(
    rivals: Mapping[str, Measurement], names: Mapping[str, str], quantity: Quantity, lens: Lens
) -> Iterator[tuple[str, MatrixCell]]:
    values = {key: figure_of(one, quantity, lens).value for key, one in rivals.items()}
    trusted = {key: value for key, value in values.items() if value and is_trusted(rivals[key], lens.problems)}
    choose = max if quantity is Quantity.ITEMS_PER_S else min
    known = trusted or {key: value for key, value in values.items() if value}
    best = choose(known.values(), default=None)
    fit = {rivals[key].id: names[key] for key in trusted}
    for key, one in rivals.items():
        value = values[key]
        if not value or best is None:
            yield key, MatrixCell(one.failure.kind.value.replace("_", " ") if one.failure else one.status.value, FAILED)
            continue
        share = min(1.0, value / best if quantity is Quantity.ITEMS_PER_S else best / value)
        # Who has no rival is no best.
        is_best = len(rivals) > 1 and key in trusted and value == best
        is_open = any(each.id in lens.open.get(one.id, ()) for each in rivals.values())
        sign, doubt = _best(one, fit, quantity, lens, is_open=is_open) if is_best else _sign(one, lens)
        yield key, MatrixCell(number(value), sign, share, doubt)


def _best(
    one: Measurement, rivals: Mapping[str, str], quantity: Quantity, lens: Lens, *, is_open: bool
) -> tuple[str, str]:
    """The sign of the best, and whom the answer has before it all the same; `rivals` are names by id.

    A few long ones among many latencies do that: they count by wall clock, and not in the median.
    """
    before = lens.outrun.get(one.id, {})
    faster = next((identity for identity in before if identity in rivals), None)
    if faster is None:
        return OPEN if is_open else BEST, ""
    is_rate, of_rate = quantity is Quantity.ITEMS_PER_S, before[faster] is RankMetric.THROUGHPUT
    by = "the answer above" if is_rate == of_rate else "throughput" if of_rate else "median latency"
    return OPEN, f"{'most' if is_rate else 'least'} {UNITS[quantity]}, but by {by} {rivals[faster]} is faster"


def _sign(one: Measurement, lens: Lens) -> tuple[str, str]:
    if one.id in lens.problems:
        return WRONG, ""
    return ("", "") if is_trusted(one, lens.problems) else (UNSURE, status_words(one))


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
    name = html.escape(isolated(line.label))
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
    label = f"{name}, {size}: {html.escape(one.text)}{unit}{html.escape(isolated(meaning))}"
    current = ' aria-current="true"' if is_chosen else ""
    best = ' class="best"' if one.sign == BEST else ""
    said = f'aria-label="{label}" title="{label}" style="--share:{one.share:.3f}"'
    return (
        f'<td><button type="button"{best}{current} data-cell="{key},{batch},{cores}" {said}>'
        f'<span class="size">{size}</span>{one.sign} {html.escape(one.text)}</button></td>'
    )
