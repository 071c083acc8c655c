"""The list shows baselines by name, a row a sweep, and every model's theoretical profile."""

from dataclasses import replace

import invented
from enginebench_controller.records import EngineRef, Status
from enginebench_ui.pages.profile.shapes.summary import FLOPS_KEY, siblings
from enginebench_ui.pages.profiles.shapes import MOST_LISTED, baselines, sweep_passes, theoretical
from invented_sweeps import entry

SWEEP = (
    entry("s9", "o", 0.9, status=Status.FAILED),
    entry("s5", "o", 0.5),
    entry("s0", "o", 0.0, profiled_latency_ns=7_000_000),
)
COPY = entry("copy", "o", model_digest="cd" * 32, model_name="pruned")
FAST = entry("fast", unprofiled_latency_ns=4_000_000, batch=2, total_ns=8, matched_ns=6)
ALL = (FAST, COPY, *SWEEP, entry("slow", "other", engine=EngineRef("ort", "side", None)))


def test_baselines_are_all_profiles_but_the_passes_of_sweeps():
    found = baselines(ALL)

    assert [row["Name"] for row in found.rows] == ["fast", "slow"]
    assert found.queries == ({"id": "fast"}, {"id": "slow"})
    first, second = found.rows
    assert (first["Median (ms)"], first["Items/s"], first["Matched (%)"]) == (4.0, 500.0, 75.0)
    assert (second["Median (ms)"], second["Items/s"], second["Matched (%)"]) == (None, None, None)
    assert second["Engine"] == "ort (side)"


def test_a_sweep_is_one_row_that_opens_its_dense_pass():
    (row,) = sweep_passes(ALL).rows

    assert sweep_passes(ALL).queries == ({"id": "s0"},)
    assert (row["Passes"], row["Zeros imposed"], row["Failed"], row["Dense (ms)"]) == (4, "0.5, 0.9", 1, 7.0)
    assert row["Name"] == "s0"


def test_each_configuration_of_an_order_is_a_row_and_none_of_it_a_baseline():
    one_core = [replace(one, id=f"one-{one.id}", cores=1) for one in SWEEP]
    listed = (*SWEEP, *one_core, FAST)

    assert [(row["Cores"], row["Passes"]) for row in sweep_passes(listed).rows] == [(2, 3), (1, 3)]
    assert sweep_passes(listed).queries == ({"id": "s0"}, {"id": "one-s0"})
    assert baselines(listed).queries == ({"id": "fast"},)


def test_every_model_has_a_theoretical_profile():
    found = theoretical([invented.model(), invented.model("cd" * 32, "child", derivation=invented.PRUNED_90)])

    assert found.queries == ({"model": "ab" * 32}, {"model": "cd" * 32})
    assert [row["Made by"] for row in found.rows] == [None, str(invented.PRUNED_90)]


def test_a_search_wants_every_word_somewhere():
    assert [row["Name"] for row in baselines(ALL, "ORT side").rows] == ["slow"]
    assert baselines(ALL, "ort fast").total == 0
    assert sweep_passes(ALL, "nothing").rows == ()


def test_a_very_long_list_is_cut_and_counted():
    found = baselines([entry(f"p{number}") for number in range(MOST_LISTED + 5)])

    assert (len(found.rows), found.total) == (MOST_LISTED, MOST_LISTED + 5)


def test_names_that_a_spreadsheet_would_compute_are_quoted():
    (row,) = baselines([entry("x", name="=HYPERLINK(1)")]).rows
    assert row["Name"] == "'=HYPERLINK(1)"


def test_a_page_switches_among_the_profiles_of_one_model():
    found = siblings(FAST, ALL)

    assert [one.key for one in found] == ["fast", "s9", "s5", "s0", "slow", FLOPS_KEY]
    assert "batch 2" in found[0].label and "90 % zeros · failed" in found[1].label
    assert found[-1].query == {"model": "ab" * 32}


def test_the_profile_on_the_page_is_among_its_siblings_however_many_there_are():
    many = [entry(f"p{number}") for number in range(500)]
    assert many[-1].id in {one.key for one in siblings(many[-1], many)}
