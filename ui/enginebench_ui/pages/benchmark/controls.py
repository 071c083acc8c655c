"""What a person looks at: based on which line, beside which others, by which statistic, and in which cell."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from enginebench_controller.errors import InputError
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.verdicts.answers import contested
from enginebench_ui.pages.benchmark import stored
from enginebench_ui.pages.benchmark.shapes.figures import UNITS, CellRemark, Lens, Statistic
from enginebench_ui.pages.benchmark.shapes.lines import GridCell, Line, LineLook, looks
from enginebench_ui.pages.benchmark.shapes.matrix import CSS, JS, matrix_html, outrun
from enginebench_ui.pages.benchmark.shapes.whole import (
    Lines,
    WholeBenchmark,
    benchmark_options,
    default_base,
    default_beside,
    default_cell,
    lines_to_choose,
)
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one, choose_several, choose_view, chosen
from enginebench_ui.shared.keys import show_steps
from enginebench_ui.shared.text import count_of, inert


def show_remarks(remarks: Sequence[CellRemark], on_what: str) -> None:
    """Show the sentences behind an expander; nothing without any."""
    if not remarks:
        return
    label = f"{count_of(len(remarks), 'remark')} {on_what}"
    # Drawn once it is opened: hundreds of sentences would hold up every answer of the page.
    expander = st.expander(label, icon=":material/flag:", key=f"remarks {on_what}", on_change="rerun")
    if expander.open:
        expander.markdown("\n".join(f"- **{inert(one.about)}**: {inert(one.sentence)}" for one in remarks))


NOTHING = "none"


@dataclass(frozen=True)
class ChosenLines:
    """What was chosen. `lines` are the base and those beside it, `looks` how each is drawn, by key."""

    benchmark: WholeBenchmark
    other: WholeBenchmark | None
    base: Line
    beside: tuple[Line, ...]
    statistic: Statistic

    @property
    def lines(self) -> tuple[Line, ...]:
        """The base, and those beside it."""
        return (self.base, *self.beside)

    @property
    def looks(self) -> dict[str, LineLook]:
        """How each line is drawn."""
        return looks(self.lines, reading.engine_looks())

    def lens(self, *, with_mean_intervals: bool = True) -> Lens:
        """How measurements are looked at. The intervals of means are read from the store only where they are shown."""
        shown = [one for line in self.lines for one in line.cells.values()]
        by_mean = self.statistic is Statistic.MEAN and with_mean_intervals
        problems = {**self.benchmark.problems, **(self.other.problems if self.other else {})}
        return Lens(self.statistic, stored.mean_intervals(shown) if by_mean else {}, problems)


def choose_lines(benchmark: WholeBenchmark) -> ChosenLines:
    """Show the drop-downs above all views."""
    first, second = st.columns(2), st.columns([3, 1])
    with first[1]:
        other = _choose_other(benchmark)
    lines = lines_to_choose(benchmark, other)
    labels = {key: line.label for key, line in lines.by_key.items()}
    with first[0]:
        key = choose_one(
            "Based on",
            labels,
            "based",
            default=default_base(lines.own, benchmark.problems).key,
            scope=benchmark.id,
            help="Cards, speed-ups and ratios are those of this one.",
        )
    base = lines.by_key[key]
    with second[0]:
        beside = _choose_beside(benchmark, other, base, lines, labels)
    with second[1]:
        statistic = choose_view(
            "Latency by",
            {one.value: one.value.capitalize() for one in Statistic},
            "stat",
            default=Statistic.MEDIAN.value,
            help="Items/s is by wall clock, whichever latency is chosen.",
        )
    return ChosenLines(benchmark, other, base, beside, Statistic(statistic))


_MATRIX = "cells of the benchmark"
_QUANTITIES = {one.value: UNITS[one] for one in (Quantity.ITEMS_PER_S, Quantity.TIME_PER_BATCH)}


def choose_cell(benchmark: WholeBenchmark) -> None:
    """Show all cells; one that is pressed becomes what the rest of the page is based on."""
    lines = lines_to_choose(benchmark, None).own
    if sum(len(line.cells) for line in lines) < 2:
        return
    current, cells = _chosen_cell(benchmark, lines), [(line.key, cell) for line in lines for cell in sorted(line.cells)]
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        quantity = Quantity(
            choose_view(
                "Cells show", _QUANTITIES, "cells", default=Quantity.ITEMS_PER_S.value, label_visibility="collapsed"
            )
        )
        show_steps("cell", cells, current, _choose)
    looks = reading.engine_looks().of_series((line.key, line.first.engine.name) for line in lines)
    answers = stored.answers(benchmark)
    lens = Lens(problems=benchmark.problems, open=contested(answers), outrun=outrun(answers))
    drawn = matrix_html(lines, quantity, lens, looks, current)
    matrix = st.components.v2.component("enginebench_matrix", html='<div class="matrix"></div>', css=CSS, js=JS)
    matrix(data=drawn, key=_MATRIX, on_cell_change=_cell_pressed)


def _chosen_cell(benchmark: WholeBenchmark, lines: Sequence[Line]) -> tuple[str, GridCell]:
    """The cell that the address names, as `choose_lines` and `choose_batch` read it."""
    by_key = {line.key: line for line in lines}
    line = by_key.get(st.query_params.get("based", ""), default_base(lines, benchmark.problems))
    batch, cores = default_cell(line)
    asked_batch = chosen("batch", _in_words(line.batches), str(batch))
    asked_cores = chosen("cores", _in_words(line.cores), str(cores))
    return line.key, (int(asked_batch), int(asked_cores))


def _cell_pressed() -> None:
    pressed = st.session_state[_MATRIX].get("cell")
    if not pressed:
        return
    key, batch, cores = str(pressed).split(",")
    _choose((key, (int(batch), int(cores))))


def _choose(cell: tuple[str, GridCell]) -> None:
    key, (batch, cores) = cell
    st.query_params.update({"based": key, "batch": str(batch), "cores": str(cores)})
    st.query_params.pop("view", None)


def choose_batch(choice: ChosenLines) -> int:
    """Show the batches of the base."""
    return _choose_size("Batch", "batch", choice.base.batches, default_cell(choice.base)[0])


def choose_cores(choice: ChosenLines) -> int:
    """Show the core counts of the base."""
    return _choose_size("Cores", "cores", choice.base.cores, default_cell(choice.base)[1])


def _choose_size(label: str, name: str, sizes: Sequence[int], default: int) -> int:
    return int(choose_one(label, _in_words(sizes), name, default=str(default), width=140))


def _in_words(sizes: Sequence[int]) -> dict[str, str]:
    return {str(size): str(size) for size in sizes}


def _choose_other(benchmark: WholeBenchmark) -> WholeBenchmark | None:
    options = {NOTHING: "No other benchmark"} | benchmark_options(stored.relatives(benchmark.id).comparable)
    asked = st.query_params.get("with", NOTHING)
    other = None if asked in (NOTHING, benchmark.id) else _other(asked)
    if other:
        options |= benchmark_options([other.bundle.benchmark])
    choose_one("Compared with another benchmark", options, "with", default=NOTHING, scope=benchmark.id)
    return other


def _other(benchmark_id: str) -> WholeBenchmark | None:
    try:
        return stored.whole(benchmark_id)
    except InputError as error:
        st.warning(inert(str(error)))
        return None


def _choose_beside(
    benchmark: WholeBenchmark, other: WholeBenchmark | None, base: Line, lines: Lines, labels: dict[str, str]
) -> tuple[Line, ...]:
    options = {key: label for key, label in labels.items() if key != base.key}
    default = [line.key for line in default_beside(base, lines)]
    scope = "-".join((benchmark.id, other.id if other else "", base.key))
    keys = choose_several("Beside it", options, "beside", default=default, scope=scope, placeholder="Nothing beside it")
    return tuple(lines.by_key[key] for key in keys)
