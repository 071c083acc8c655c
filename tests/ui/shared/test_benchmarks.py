"""The list says what each benchmark covered, how it went and how fast it was."""

from dataclasses import replace

import invented
import invented_bisects
from enginebench_controller.records import Status
from enginebench_controller.store.benchmarks import BenchmarkEntry, BenchmarkPage, Fastest, ListedBenchmark
from enginebench_ui.shared.benchmarks import benchmark_views, found_text
from enginebench_ui.shared.searches import search_sentence
from enginebench_ui.shared.text import benchmark_title

FASTEST = Fastest("m0000001", "b0000002", 1234.5, "resnet50", "fake", 4, 1, Status.OK)


def viewed(found):
    return benchmark_views(found, search_sentence)


def listed(benchmark, counts=None, models=(), engines=(), targets=(), fastest=None):
    return ListedBenchmark(BenchmarkEntry(benchmark, counts or {}, models, engines, targets), fastest)


def test_a_benchmark_shows_what_it_covered_and_how_it_went():
    rerun = invented.benchmark("b0000002", "Night run", rerun_of="b0000001", imported=True)
    counts = {Status.FAILED: 1, Status.OK: 2}
    first, second = viewed(
        [
            listed(rerun, counts, ("resnet50",), ("fake",), ("nuc", "arm"), FASTEST),
            listed(invented.benchmark("b0000001", "")),
        ]
    )

    assert first.tallies == (("2 ok", "green"), ("1 failed", "red"))
    assert (first.covered, first.note) == ("resnet50 · fake · 2 targets", "re-run of b0000001, imported")
    assert first.said == "Highest measured: 1,234 items/s with fake, batch 4, 1 core"
    assert (second.name, second.tallies, second.said) == ("Unnamed benchmark", (("nothing measured", "gray"),), "")


def test_no_side_of_a_gate_is_called_the_highest():
    gate = replace(invented.benchmark("b0000002"), plan={"gate": {"budget": "2m"}})
    (view,) = viewed([listed(gate, fastest=FASTEST)])
    assert view.said == ""


STEP = replace(invented.benchmark(), plan={"search": {"id": "5ea4c0", "step": 1, "title": "looking"}})


def test_a_step_whose_search_is_not_here_says_of_which_it_is():
    (view,) = viewed([listed(STEP)])
    assert (view.id, view.search, view.note) == (STEP.id, None, "step of the search 5ea4c0")


def test_a_search_stands_for_its_steps():
    search = invented_bisects.search()
    (view,) = viewed([replace(listed(STEP), search=search, steps=3)])
    assert (view.id, view.name, view.search, view.note) == (search.id, search.name, search, "bisect, 3 steps")
    assert view.said == search_sentence(search), "and not how fast a step was, which may have measured what is wrong"
    (open_,) = viewed([replace(listed(STEP), search=replace(search, answer=None), steps=3)])
    assert open_.said == ""


def test_the_fastest_of_several_models_names_its_model_and_doubt():
    unsure = Fastest("m0000001", "b0000001", 10.0, "resnet50", "fake", 1, 2, Status.INCONCLUSIVE)
    (view,) = viewed([listed(invented.benchmark(), models=("a", "resnet50"), fastest=unsure)])

    assert view.said == "Highest measured: 10.00 items/s (inconclusive) with resnet50, fake, batch 1, 2 cores"


def test_many_names_and_long_ones_are_cut():
    engines = tuple("abcdef")
    (view,) = viewed([listed(invented.benchmark(name="x" * 1000), models=("m" * 1000,), engines=engines)])

    assert len(view.name) <= 90
    assert view.covered.endswith("a, b, c, d and 2 more")
    assert len(view.covered) < 90
    assert benchmark_title("") == "Unnamed benchmark"


def test_what_was_found_is_counted():
    assert found_text(BenchmarkPage((), 1, 1)) == "1 benchmark"
    assert found_text(BenchmarkPage((), 3, 120)) == "3 of 120 benchmarks"
