"""Searches are kept with what was asked for; they are answered once, and their steps are benchmarks."""

from dataclasses import replace

import pytest

import invented
import invented_profiles
from enginebench_controller.errors import InputError
from enginebench_controller.records import Search, SearchKind
from enginebench_controller.store.searches import search_of
from enginebench_controller.store.store import Store

BISECT = Search("5ea4c0000001", SearchKind.BISECT, "bisect of net", invented.CREATED_NS, {"worse": "5%"})


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.duckdb")


def step(identity, number, search=BISECT.id):
    made = invented.benchmark(identity)
    return replace(made, plan={**made.plan, "search": {"id": search, "step": number, "title": "which is it"}})


def test_a_search_is_kept_whole_and_answered_once(store):
    assert store.add_search(BISECT)
    assert not store.add_search(BISECT), "it is there"
    assert store.search("5ea4c0") == BISECT
    assert store.answer_search(BISECT.id, {"culprit": "1.7"})
    assert not store.answer_search(BISECT.id, {"culprit": "1.8"}), "an answer stays"
    (found,) = store.searches()
    assert found.answer == {"culprit": "1.7"}
    assert found.ended_at_unix_ns is not None


def test_what_is_skipped_is_kept_with_the_reason(store):
    store.add_search(BISECT)
    store.skip_in_search(BISECT.id, "1.3", "no wheel")
    store.skip_in_search(BISECT.id, "1.4", "no wheel either")
    assert store.search(BISECT.id).skipped == {"1.3": "no wheel", "1.4": "no wheel either"}


def test_the_steps_are_its_benchmarks_in_their_order_and_no_others(store):
    store.add_search(BISECT)
    for one in (step("b10", 10), step("b2", 2), step("b1", 1), step("other", 0, "another"), invented.benchmark()):
        store.add_benchmark(one)
    assert [one.id for one in store.steps_of(BISECT.id)] == ["b1", "b2", "b10"]


def test_what_is_imported_is_no_step_of_a_search_here(store):
    """It may name any search, and any text as its step."""
    store.add_search(BISECT)
    foreign = replace(step("b2", "odd"), imported=True)
    for one in (step("b1", 1), foreign):
        store.add_benchmark(one)
    assert [one.id for one in store.steps_of(BISECT.id)] == ["b1"]
    assert sorted(one.entry.benchmark.id for one in store.benchmark_page().listed) == ["b1", "b2"]
    assert search_of(foreign) == ""
    store.remove_search(BISECT.id)
    assert [one.benchmark for one in store.benchmarks()] == [foreign]


def test_a_search_is_removed_with_its_steps(store):
    store.add_search(BISECT)
    store.add_benchmark(step("b1", 1))
    store.add_benchmark(invented.benchmark())
    store.remove_search(BISECT.id)
    assert store.searches() == ()
    assert [one.benchmark.id for one in store.benchmarks()] == [invented.benchmark().id]
    with pytest.raises(InputError, match="there is no search '5ea4c0000001'"):
        store.remove_search(BISECT.id)


def test_a_name_of_several_searches_is_told_apart(store):
    for identity in ("5ea4c0000001", "5ea4c1000002"):
        store.add_search(replace(BISECT, id=identity))
    with pytest.raises(InputError, match=r"means 2 searches; name one by its id: 5ea4c[01] \(bisect, 2023"):
        store.search("bisect of net")


def test_a_name_of_something_else_is_told_as_that(store):
    store.add_benchmark(invented.benchmark("b0000001", "nightly"))
    store.add_measurement(invented.measured("m0000001"))
    store.add_profile(invented_profiles.profile("p0000001", name="layers"))
    for one in range(2):
        store.add_profile(invented_profiles.profile(f"p100000{one}", name="passes"))
    store.add_search(BISECT)
    told = {
        store.benchmark: {
            "layers": "'layers' is a profile, not a benchmark; `enginebench profiles show layers` shows it",
            "passes": "'passes' is what 2 profiles are called, and no benchmark is; `enginebench profiles list` shows",
            "m0000001": "'m0000001' is a measurement, not a benchmark; `enginebench open m0000001` shows it",
            BISECT.id: f"'{BISECT.id}' is a search, not a benchmark; `enginebench show {BISECT.id}` shows it",
        },
        store.profile: {"nightly": "'nightly' is a benchmark, not a profile; `enginebench show nightly` shows it"},
        store.measurement: {"b0000001": "'b0000001' is a benchmark, not a measurement"},
        store.search: {"none": "there is no search 'none'"},
    }
    for find, by_name in told.items():
        for name, sentence in by_name.items():
            with pytest.raises(InputError) as refusal:
                find(name)
            assert str(refusal.value).startswith(sentence)
