"""What can be compared, and the experiments of one project, out of a real store."""

from dataclasses import replace

import pytest

import invented
import invented_profiles
from enginebench_controller.records import Configuration, InputSet, Status
from enginebench_controller.store.store import Store


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    return store


def measure(store, identity, **fields):
    whole = invented.measured(identity, **fields)
    store.add_measurement(whole)
    return whole


def test_an_empty_store_has_nothing_to_compare(tmp_path):
    assert Store(tmp_path / "none.duckdb").contenders() == ()


@pytest.mark.slow
def test_each_model_engine_target_and_device_is_a_contender_with_its_best_throughput(store):
    slow, fast = measure(store, "m1", latency_ms=8.0), measure(store, "m2", latency_ms=2.0)
    measure(store, "m3", configuration=Configuration("GPU.0", 1, cores=2))
    measure(store, "m4", engine="fake-fast")
    store.add_measurement(invented.failed("m5"))

    found = {(one.engine, one.device): one for one in store.contenders()}

    assert set(found) == {("fake", "CPU"), ("fake", "GPU.0"), ("fake-fast", "CPU"), ("fake-broken", "CPU")}
    assert found["fake", "CPU"].best_items_per_s == fast.throughput_items_per_s > slow.throughput_items_per_s
    assert (found["fake", "CPU"].experiments, found["fake", "CPU"].with_numbers) == (2, 2)
    broken = found["fake-broken", "CPU"]
    assert (broken.experiments, broken.with_numbers, broken.best_items_per_s) == (1, 0, None)
    assert (found["fake", "CPU"].best_benchmark_id, broken.best_benchmark_id) == (fast.benchmark_id, None)


def test_what_does_not_count_is_nobodys_best(store):
    slow, fast = measure(store, "m1", latency_ms=8.0), measure(store, "m2", latency_ms=2.0)
    assert [one.best_items_per_s for one in store.contenders([fast.id])] == [slow.throughput_items_per_s]
    (none,) = store.contenders([slow.id, fast.id])
    assert (none.best_items_per_s, none.best_benchmark_id, none.with_numbers) == (None, None, 2)


def test_what_was_only_profiled_can_be_compared_too(store):
    store.add_profile(invented_profiles.profile(engine=replace(invented_profiles.profile().engine, name="only")))

    (found,) = store.contenders()

    assert (found.engine, found.model_name, found.experiments, found.profiles) == ("only", "invented", 0, 1)
    assert store.experiments(found) == ()


@pytest.mark.slow
def test_an_experiment_has_the_numbers_of_its_measurement(store):
    whole = measure(store, "m1", batch=4)
    store.add_measurement(invented.failed("m2", engine="fake"))

    failed, found = store.experiments(store.contenders()[0])

    assert (found.id, found.batch, found.cores, found.streams, found.load) == ("m1", 4, 2, 1, "sync")
    assert found.latency_ns == whole.latency.median_ns
    assert found.throughput_items_per_s == whole.throughput_items_per_s
    assert (found.throughput_low_items_per_s, found.throughput_high_items_per_s) == (
        whole.throughput_interval.low,
        whole.throughput_interval.high,
    )
    assert (found.status, found.failure, found.input_set) == (Status.OK, None, "random, seed 0")
    assert failed.status is Status.FAILED
    assert failed.latency_ns is None
    assert "SIGSEGV" in failed.failure


@pytest.mark.slow
def test_a_configuration_is_shown_by_its_newest_measurement_that_has_numbers(store):
    for place, identity in enumerate(("m1", "m2")):
        measure(store, identity, started_at_unix_ns=invented.CREATED_NS + place)
    later = invented.CREATED_NS + 9
    store.add_measurement(
        invented.failed("m3", engine="fake", configuration=Configuration("CPU", 1, cores=2), started_at_unix_ns=later)
    )
    (contender,) = store.contenders()

    (newest,) = store.experiments(contender)
    assert (newest.id, newest.earlier) == ("m2", 2)
    assert {one.id for one in store.experiments(contender, repeats=True)} == {"m1", "m2", "m3"}
    assert [one.id for one in store.experiments(contender, also=["m1"])] == ["m2", "m1"]


@pytest.mark.slow
def test_input_sets_rates_and_options_make_other_configurations(store):
    measure(store, "m1")
    measure(store, "m2", configuration=Configuration("CPU", 1, cores=2, input_set=InputSet(seed=7)))
    measure(store, "m3", configuration=replace(invented.CONFIGURATION, cores=2))
    measure(store, "m4", configuration=replace(invented.OPEN_LOOP, cores=2))

    found = {one.id: one for one in store.experiments(store.contenders()[0])}

    assert {one.input_set for one in found.values()} == {"random, seed 0", "random, seed 7", "photos"}
    assert found["m4"].load == "open-loop 250.0/s poisson"
    assert "yes" in found["m3"].options
