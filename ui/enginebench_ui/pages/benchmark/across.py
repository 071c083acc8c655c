"""A benchmark on many targets: who stands out first, then how far apart they are, and the choice of one to look at."""

import streamlit as st

from enginebench_controller.verdicts.across import work_of
from enginebench_ui.pages.benchmark import stored
from enginebench_ui.pages.benchmark.shapes.across import (
    across_rows,
    headline,
    labels_of,
    spread_figure,
    works,
)
from enginebench_ui.pages.benchmark.shapes.whole import WholeBenchmark
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one
from enginebench_ui.shared.showing import chart, table
from enginebench_ui.shared.text import inert

_KIND, _ALL = "", ""
COLUMNS = {
    "Median (ms)": st.column_config.NumberColumn(format="%.3f", help="Of the targets' median latencies."),
    "10 % (ms)": st.column_config.NumberColumn(format="%.3f", help="A tenth of the targets takes no longer."),
    "90 % (ms)": st.column_config.NumberColumn(format="%.3f", help="Nine tenths of the targets take no longer."),
    "Doubtful": st.column_config.NumberColumn(help="On how many it was disturbed, inconclusive or otherwise doubtful."),
}


def show_across(benchmark: WholeBenchmark) -> str:
    """Show all targets together; returns the one that was chosen to be looked at, "" for none."""
    with reading.banner_on_error():
        measured = sorted({one.target for one in benchmark.measurements})
        labels = {one.name: one.labels for one in reading.targets()[0]}
        keys = labels_of([labels.get(name, {}) for name in measured])
        found = stored.across(benchmark.id, _KIND)
    odd = {one.target: one.ratio for one in found.odd}
    with st.container(border=True, key="verdict", gap="small"):
        st.markdown(f":material/dns: **{inert(headline(found))}**")
        for sentence in found.sentences:
            st.caption(inert(sentence))
    every = works(benchmark.measurements)
    left, middle, right = st.columns(3)
    with left:
        chosen = choose_one("Work", dict(zip(map(str, range(len(every))), every, strict=True)), "work", default="0")
    with middle:
        label = choose_one("Together by", {_KIND: "kind of machine"} | {key: key for key in keys}, "by", default=_KIND)
    with right:
        named = {name: f"{name} ({odd[name]:.2f}× its kind)" for name in odd} | {
            name: name for name in measured if name not in odd
        }
        target = choose_one("Look at one", {_ALL: "all targets"} | named, "target", default=_ALL, scope=benchmark.id)
    if target:
        return target
    drawn = every[int(chosen)]
    same = [one for one in benchmark.measurements if work_of(one) == drawn]
    apart = tuple(dict.fromkeys([*odd, *(one.target for one in found.odd_once if one.work == drawn)]))
    with reading.banner_on_error():
        figure = spread_figure(same, stored.groups(benchmark.id, label), apart, reading.engine_looks())
        chart(figure, "across", name=f"{benchmark.id}-targets", alt=headline(found))
        table(across_rows(stored.across(benchmark.id, label)), "across", columns=COLUMNS)
    return _ALL
