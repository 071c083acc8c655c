"""What spans the subjects of a store: a file that is not there, bundles, and telling that something was written."""

import pytest

import invented
from controller.plain import series
from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.store.store import BenchmarkBundle, Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "home" / "results.duckdb", timeout_s=5)


def test_a_store_without_a_file_is_empty_and_reading_makes_none(store):
    assert (store.benchmarks(), store.targets(), store.snapshots(), store.models(), store.profiles()) == ((),) * 5
    assert not store.path.parent.exists()


def test_bundles_are_stored_all_or_none(store):
    samples = {"m1": invented.samples("m1")}
    good = BenchmarkBundle(invented.benchmark(), (invented.measured("m1"),), (invented.snapshot(),), samples)
    orphan = BenchmarkBundle(invented.benchmark("b0000002"), (invented.measured("m2", "gone"),), ())

    with pytest.raises(StoreError):
        store.add_bundles([good, orphan])
    assert store.benchmarks() == ()
    assert store.add_bundles([good]) == ("b0000001",)
    assert series(store.block_samples("m1")) == series(samples["m1"])


def test_an_import_adds_nothing_to_a_benchmark_of_ones_own(store):
    def with_one(identity, **fields):
        return BenchmarkBundle(invented.benchmark(**fields), (invented.measured(identity),), (invented.snapshot(),))

    store.add_bundles([with_one("m1")])
    assert store.add_bundles([with_one("m2", imported=True)]) == ()
    assert [one.id for one in store.measurements("b0000001")] == ["m1"]


def test_what_is_imported_grows_with_what_is_imported_later(store):
    def with_those(*ids):
        measured = tuple(invented.measured(one) for one in ids)
        return BenchmarkBundle(invented.benchmark(imported=True), measured, (invented.snapshot(),))

    for ids in (("m1",), ("m1", "m2")):
        assert store.add_bundles([with_those(*ids)]) == ("b0000001",)
    assert [one.id for one in store.measurements("b0000001")] == ["m1", "m2"]


def test_a_bundle_is_named_as_its_benchmark_is(store):
    store.add_benchmark(invented.benchmark())

    assert store.bundle("invented").benchmark == store.benchmark("invented")
    for named in ("", "nope"):
        with pytest.raises(InputError, match="no benchmark"):
            store.bundle(named)


def test_the_generation_changes_with_every_write_and_with_no_read(store):
    seen = [store.generation()]
    store.add_benchmark(invented.benchmark())
    seen.append(store.generation())
    store.add_measurement(invented.measured("m1"))
    seen.append(store.generation())

    assert len(set(seen)) == 3
    store.benchmarks()
    store.samples("m1")
    assert store.generation() == seen[-1]
