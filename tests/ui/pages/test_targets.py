"""Many targets: what is wrong with how many, whom a search finds, and a map with a tile for each.

One target: what engines reach there at best, as charts and tables.
"""

import re
import time
from dataclasses import replace

import pytest

import invented
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import EngineRef, Noise, Peak, PeakKind, Rate, Target
from enginebench_controller.targets.health import Health, HealthAnswer
from enginebench_ui.pages.targets.shapes import (
    State,
    bandwidth_figure,
    bandwidth_rows,
    busy_sentence,
    core_counts,
    crowd,
    groupings,
    map_html,
    operation_rows,
    operations_figure,
    peaks_on,
    trouble,
)
from enginebench_ui.shared.targets import target_views

OWN = invented.snapshot().host.agent_version


def board(number, **labels):
    return Target(f"board-{number:04}", f"10.0.{number // 250}.{number % 250}:50151", 0, labels)


def seen_now(target, **host):
    snapshot = invented.snapshot(target.name, time.time_ns())
    return replace(snapshot, address=target.address, host=replace(snapshot.host, **host))


@pytest.fixture
def boards():
    return [board(number, site=f"lab{number % 3}") for number in range(30)]


def test_a_state_is_the_worst_that_holds(boards):
    silent, noisy, old, unseen, stale, fine, *_ = boards
    snapshots = [
        seen_now(silent, agent_version="0.0.1"),
        seen_now(noisy),
        seen_now(old, agent_version="0.0.1"),
        replace(seen_now(stale), seen_at_unix_ns=time.time_ns() - 8 * 86_400 * 10**9),
        seen_now(fine),
    ]
    answers = {
        silent.name: HealthAnswer(silent, Health.UNREACHABLE, 3.0),
        fine.name: HealthAnswer(fine, Health.SERVING, 0.1),
    }
    noise = {noisy.name: Noise(noisy.name, 5, 0.9, 0.01), fine.name: Noise(fine.name, 5, 0.2, 0.01)}

    seen = crowd(target_views(boards[:6], snapshots), answers, noise, OWN)
    assert {one.view.name: one.state for one in seen} == {
        silent.name: State.SILENT,
        noisy.name: State.NOISY,
        old.name: State.OLD,
        unseen.name: State.UNSEEN,
        stale.name: State.STALE,
        fine.name: State.FINE,
    }
    assert trouble(seen) == (
        "6 targets: 1 does not answer, 1 noisy, 1 of another version, 1 not yet seen, 1 not seen for a week"
    )


def test_nothing_wrong_is_said_too(boards):
    seen = crowd(target_views(boards, map(seen_now, boards)), {}, {}, OWN)
    assert trouble(seen) == "30 targets, all fine"


def test_all_words_must_be_found_in_names_labels_or_facts(boards):
    snapshots = [seen_now(one, architecture="aarch64" if number % 2 else "x86_64") for number, one in enumerate(boards)]
    seen = crowd(target_views(boards, snapshots), {}, {}, OWN)

    def found(*words):
        return [one.view.name for one in seen if one.has(words)]

    assert len(found()) == 30
    assert len(found("site=lab1")) == 10
    assert len(found("SITE=lab1", "aarch64")) == 5
    assert found("0007") == ["board-0007"]
    assert found("10.0.0.7:") == ["board-0007"]
    assert found("nowhere") == []


def test_targets_are_put_together_by_what_they_differ_in(boards):
    seen = crowd(target_views(boards, map(seen_now, boards)), {}, {}, OWN)
    assert groupings(seen) == ("state", "site")


@pytest.mark.parametrize("name", ["<b>lab</b>", ""])
def test_the_map_has_a_tile_for_each_in_its_group_and_shows_names_as_they_are(boards, name):
    odd = replace(boards[0], labels={"site": name} if name else {})
    seen = crowd(target_views([odd, *boards[1:]], map(seen_now, boards)), {}, {}, OWN)
    drawn = map_html(seen, "site")

    assert sorted(re.findall(r'href="\?target=([^"]*)"', drawn)) == [one.name for one in boards]
    groups = set(re.findall(r"<b>(.*?)</b><div>", drawn))
    assert groups == {"lab0 (9)", "lab1 (10)", "lab2 (10)", "&lt;b&gt;lab&lt;/b&gt; (1)" if name else "unknown (1)"}
    assert "fine (30)" in drawn


F32 = Peak(
    *("nuc", EngineRef("openvino", "default", "2026.4"), "CPU", 2, PeakKind.FLOPS, "MatMul", 10),
    precision="f32",
    rate=Rate(90e9, 80e9, 95e9, 9),
)
INT8 = replace(F32, precision="int8", rate=Rate(200e9, 190e9, 210e9, 9))
WINOGRAD = replace(F32, what="Conv 3×3", may_be_winograd=True, rate=Rate(150e9, 140e9, 160e9, 9))
CANNOT = replace(F32, precision="bf16", rate=None, failure="cannot")
MEMORY = replace(
    F32, kind=PeakKind.BANDWIDTH, what="read", precision=None, working_set_bytes=1 << 20, rate=Rate(5e9, 4e9, 6e9, 9)
)
OTHER = replace(F32, engine=EngineRef("onnxruntime", "legacy", "1.31"), rate=Rate(10e9, 9e9, 11e9, 9))


def bars(figure):
    return {(trace.name, *trace.x): tuple(trace.y) for trace in figure.data}


def test_the_best_of_each_engine_on_so_many_cores_are_shown():
    slower = replace(F32, what="Gemm", rate=Rate(1e9, 1e9, 1e9, 9))

    assert peaks_on([slower, F32, OTHER, replace(F32, cores=1)], 2) == (F32, OTHER)
    assert core_counts([F32, replace(F32, cores=1)]) == (1, 2)


def test_operations_are_bars_by_precision_with_intervals():
    figure = operations_figure([INT8, F32, OTHER], EngineLooks())

    assert bars(figure) == {("openvino 2026.4", "int8", "f32"): (200, 90), ("onnxruntime 1.31 (legacy)", "f32"): (10,)}
    assert list(figure.layout.xaxis.categoryarray) == ["f32", "int8"]
    assert figure.data[1].error_y.array == (1.0,)
    assert all(bar.error_y.color not in (None, bar.marker.color) for bar in figure.data), "it lies upon the bar"


def test_winograd_is_a_bar_of_its_own_only_where_it_is_faster():
    assert ("openvino 2026.4, Winograd", "f32") in bars(operations_figure([F32, WINOGRAD], EngineLooks()))
    slower = replace(WINOGRAD, rate=Rate(1e9, 1e9, 1e9, 9))
    assert len(operations_figure([F32, slower], EngineLooks()).data) == 1


def test_bandwidth_is_a_line_over_the_size_of_the_data():
    large = replace(MEMORY, working_set_bytes=1 << 28, rate=Rate(1e9, 1e9, 1e9, 9))

    (line,) = bandwidth_figure([large, MEMORY, F32], EngineLooks()).data

    assert (line.x, line.y) == ((1 << 20, 1 << 28), (5, 1))
    assert list(bandwidth_figure([large], EngineLooks()).layout.xaxis.ticktext) == ["256 MiB"]


def test_an_engine_has_one_colour_in_both_charts():
    found = [F32, OTHER, replace(MEMORY, engine=OTHER.engine)]

    assert (
        operations_figure(found, EngineLooks()).data[1].marker.color
        == bandwidth_figure(found, EngineLooks()).data[0].line.color
    )


def test_without_a_rate_there_is_no_chart_and_the_table_says_why():
    assert operations_figure([CANNOT, MEMORY], EngineLooks()) is None
    assert bandwidth_figure([CANNOT, F32], EngineLooks()) is None
    (row,) = operation_rows([CANNOT, MEMORY])
    assert (row["Precision"], row["Gop/s"], row["Remark"]) == ("bf16", None, "not available: cannot")


def test_rows_have_units_intervals_and_remarks():
    busy = replace(WINOGRAD, rate=replace(WINOGRAD.rate, disturbed=True))

    (row,), (memory,) = operation_rows([busy]), bandwidth_rows([busy, MEMORY])

    assert (row["Gop/s"], row["Low"], row["High"], row["Best at"]) == (150, 140, 160, "Conv 3×3")
    assert "Winograd" in row["Remark"]
    assert "the true peak is higher" in row["Remark"]
    assert (memory["Data"], memory["GB/s"], memory["Remark"]) == ("1 MiB", 5, None)
    assert "1 of these 2 were measured" in busy_sentence([busy, MEMORY])
    assert busy_sentence([F32, CANNOT]) == ""


def test_names_do_not_speak_html():
    hostile = replace(F32, engine=EngineRef("<b>x</b>", "default", None), what="<i>")

    assert operations_figure([hostile], EngineLooks()).data[0].name == "&lt;b&gt;x&lt;/b&gt;"


def test_a_precision_from_elsewhere_is_no_markup():
    figure = operations_figure([replace(F32, precision="<b>f32</b>")], EngineLooks())

    assert list(figure.data[0].x) == list(figure.layout.xaxis.categoryarray) == ["&lt;b&gt;f32&lt;/b&gt;"]
