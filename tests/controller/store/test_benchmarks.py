"""Benchmarks are found by what names them and by the page, know which others belong to them, and go altogether."""

from dataclasses import replace

import duckdb
import pytest

import invented
import invented_bisects
from enginebench_controller.errors import InputError
from enginebench_controller.records import Status
from enginebench_controller.store.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results.duckdb", timeout_s=5)


@pytest.fixture
def filled(store):
    store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    return store


def benchmark(number, name="run", **fields):
    return replace(invented.benchmark(f"b{number:07}", name, **fields), created_at_unix_ns=invented.CREATED_NS + number)


def ids(page):
    return [one.entry.benchmark.id for one in page.listed]


def test_benchmarks_are_listed_newest_first_with_counts(filled):
    newer = replace(invented.benchmark("b0000002", rerun_of="b0000001"), created_at_unix_ns=invented.CREATED_NS + 1)
    filled.add_benchmark(newer)
    for measurement in (invented.measured("m1"), invented.measured("m2", engine="alpha"), invented.failed("m3")):
        filled.add_measurement(measurement)

    first, second = filled.benchmarks()
    assert (first.benchmark, first.measurements) == (newer, 0)
    assert second.counts == {Status.OK: 2, Status.FAILED: 1}
    assert (second.measurements, second.failed) == (3, 1)
    assert (second.engines, second.models, second.targets) == (
        ("alpha", "fake", "fake-broken"),
        ("invented",),
        ("local",),
    )


@pytest.mark.parametrize("named", ["b0000001", "b00", "invented"])
def test_a_benchmark_is_found_by_id_start_of_id_or_name(filled, named):
    assert filled.benchmark(named) == invented.benchmark()


@pytest.mark.parametrize("named", ["", "nope", "%", "b_000001"])
def test_an_unknown_benchmark_is_refused_with_what_to_do(filled, named):
    with pytest.raises(InputError, match="enginebench list"):
        filled.benchmark(named)


def test_an_ambiguous_name_is_refused_with_the_ids(filled):
    filled.add_benchmark(invented.benchmark("b0000002"))

    with pytest.raises(InputError, match=r"means 2 benchmarks; name one by its id: b0000001 \(.*\), b0000002 \("):
        filled.benchmark("invented")


def test_an_ambiguous_name_is_refused_whatever_a_plan_has_in_place_of_lists(filled):
    filled.add_benchmark(replace(invented.benchmark("b0000002"), plan={"engines": 5, "models": True}))

    with pytest.raises(InputError, match="means 2 benchmarks"):
        filled.benchmark("invented")


def test_an_id_is_stronger_than_another_benchmarks_name(filled):
    filled.add_benchmark(invented.benchmark("b0000002", name="b0000001"))

    assert filled.benchmark("b0000001").id == "b0000001"


@pytest.mark.slow
def test_removing_a_benchmark_takes_everything_of_it_and_nothing_else(filled):
    filled.add_benchmark(invented.benchmark("b0000002", "kept"), [invented.snapshot()])
    filled.add_measurement(invented.measured("m1"), invented.samples("m1"))
    filled.add_measurement(invented.measured("m2", "b0000002"), invented.samples("m2"))

    filled.remove_benchmark("b0000001")

    assert [entry.benchmark.id for entry in filled.benchmarks()] == ["b0000002"]
    assert (filled.measurements("b0000001"), filled.samples("m1")) == ((), None)
    assert filled.benchmark_snapshots("b0000001") == ()
    assert filled.samples("m2") is not None
    assert filled.benchmark_snapshots("b0000002") == (invented.snapshot(),)
    with duckdb.connect(filled.path, read_only=True) as connection:
        for table in ("processes", "blocks", "block_samples", "captured_outputs"):
            assert connection.execute(f"SELECT DISTINCT measurement_id FROM {table}").fetchall() == [("m2",)], table


def test_removing_an_unknown_benchmark_is_refused(filled):
    with pytest.raises(InputError, match="no benchmark 'b0'"):
        filled.remove_benchmark("b0")


def test_what_a_target_said_belongs_to_each_benchmark(filled):
    filled.save_snapshot(invented.snapshot(seen_at_unix_ns=invented.CREATED_NS + 5))

    assert filled.benchmark_snapshots("b0000001") == (invented.snapshot(),)
    assert filled.snapshots() == (invented.snapshot(seen_at_unix_ns=invented.CREATED_NS + 5),)


def test_names_with_quotes_and_statements_are_only_names(store):
    hostile = "x'; DROP TABLE benchmarks; --\x00\n\u202e"
    store.add_benchmark(invented.benchmark(name=hostile))

    assert store.benchmark(hostile).name == hostile


@pytest.mark.slow
def test_pages_part_the_list_newest_first(store):
    for number in range(5):
        store.add_benchmark(benchmark(number))

    assert ids(store.benchmark_page(size=2)) == ["b0000004", "b0000003"]
    assert ids(store.benchmark_page(size=2, page=3)) == ["b0000000"]
    assert (store.benchmark_page(size=2).found, store.benchmark_page(size=2).total) == (5, 5)


def test_the_steps_of_a_search_are_one_entry(store):
    search = invented_bisects.search()
    store.add_search(search)
    for number in range(3):
        plan = {"search": {"id": search.id, "step": number, "title": "gate"}}
        store.add_benchmark(replace(benchmark(number, f"step {number}"), plan=plan))
        engine = ("quick", "slow", "fake")[number]
        store.add_measurement(invented.measured(f"m{number}", f"b000000{number}", engine=engine, latency_ms=1 + number))
    store.add_benchmark(benchmark(4))

    page = store.benchmark_page()

    assert (page.found, page.total) == (2, 2)
    alone, whole = page.listed
    assert (alone.entry.benchmark.id, alone.search, alone.steps) == ("b0000004", None, 1)
    assert (whole.entry.benchmark.id, whole.search, whole.steps) == ("b0000002", search, 3)
    assert whole.entry.counts == {Status.OK: 3}
    assert whole.entry.engines == ("fake", "quick", "slow")
    assert whole.fastest.engine == "quick"
    for words in (search.name, search.id, "step 1", "slow"):
        assert [one.search for one in store.benchmark_page(words).listed] == [search], words
    assert store.benchmark_page(page=2).total == 2


def test_a_page_beyond_the_last_one_and_an_empty_store_are_empty(store):
    assert (store.benchmark_page().listed, store.benchmark_page().total) == ((), 0)
    store.add_benchmark(benchmark(1))
    beyond = store.benchmark_page(page=2)
    assert (beyond.listed, beyond.total) == ((), 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", "b0000002 b0000001"),
        ("NIGHT", "b0000002"),
        ("run day", "b0000001"),
        ("resnet", "b0000002"),
        ("nuc fake", "b0000002"),
        ("0001", "b0000001"),
        ("100%", ""),
        ("nothing like it", ""),
    ],
)
def test_a_search_finds_every_word_in_name_id_model_engine_or_target(store, search, found):
    store.add_benchmark(benchmark(1, "day run"))
    store.add_benchmark(benchmark(2, "Night run"))
    store.add_measurement(invented.measured("m1", "b0000002", model_name="ResNet-50", target="nuc"))

    page = store.benchmark_page(search)

    assert " ".join(ids(page)) == found
    assert (page.found, page.total) == (len(found.split()), 2)


def test_an_entry_tells_what_it_covered_and_which_was_the_fastest(store):
    store.add_benchmark(benchmark(1))
    store.add_measurement(invented.measured("m1", "b0000001"))
    store.add_measurement(invented.measured("m2", "b0000001", engine="quick", batch=4, status=Status.INCONCLUSIVE))
    store.add_measurement(invented.failed("m3", "b0000001"))
    store.add_benchmark(benchmark(0))

    filled, empty = store.benchmark_page().listed

    assert filled.entry == next(one for one in store.benchmarks() if one.measurements)
    fastest = filled.fastest
    assert (fastest.engine, fastest.batch, fastest.cores, fastest.status) == ("quick", 4, 2, Status.INCONCLUSIVE)
    assert fastest.items_per_s == pytest.approx(1000, rel=0.05)
    assert (empty.fastest, empty.entry.counts) == (None, {})


@pytest.mark.slow
def test_a_benchmark_knows_its_reruns_and_what_it_can_be_compared_with(store):
    store.add_benchmark(benchmark(1))
    store.add_benchmark(benchmark(2, rerun_of="b0000001"))
    store.add_benchmark(benchmark(3))
    store.add_benchmark(benchmark(4))
    for number in (1, 2, 3):
        store.add_measurement(invented.measured(f"m{number}", f"b000000{number}"))
    store.add_measurement(invented.measured("m4", "b0000004", model_name="another"))
    store.add_benchmark(benchmark(5))
    store.add_measurement(invented.failed("m5", "b0000005"))

    found = store.relatives("b0000001")

    assert [one.id for one in found.reruns] == ["b0000002"]
    assert [one.id for one in found.comparable] == ["b0000003", "b0000002", "b0000004"]  # another model comes last
    assert [one.id for one in store.relatives("b0000001", most=1).comparable] == ["b0000003"]
