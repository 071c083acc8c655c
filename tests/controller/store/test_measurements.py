"""Measurements come out of the store as they went in, with their samples, through the file each time."""

from dataclasses import replace

import duckdb
import numpy as np
import pytest

import invented
from controller.plain import fields, series
from enginebench_controller.errors import StoreError
from enginebench_controller.records import (
    Arrivals,
    BlockSamples,
    Bystanders,
    Evidence,
    MachineUse,
    ProcessUse,
    StopReason,
    WarmUp,
)
from enginebench_controller.store import samples as samples_module
from enginebench_controller.store.samples import samples_of
from enginebench_controller.store.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "home" / "results.duckdb", timeout_s=5)


@pytest.fixture
def filled(store):
    store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    return store


@pytest.mark.slow
def test_a_measurement_comes_back_whole_with_its_samples_in_order(filled):
    measurement = invented.measured("m1", configuration=invented.CONFIGURATION, noisy=True, interleaving_group="g1")
    samples = invented.samples("m1")
    filled.add_measurement(measurement, samples)

    (found,) = filled.measurements("b0000001")
    assert fields(found) == fields(measurement)
    assert series(filled.block_samples("m1")) == series(samples)
    assert filled.samples("m1").dtype == np.int64
    assert np.array_equal(filled.samples("m1"), np.concatenate([one.latency_ns for one in samples]))


def test_an_open_loop_keeps_when_each_request_was_due_sent_and_complete(filled):
    open_loop = replace(invented.OPEN_LOOP, arrivals=Arrivals(12.5))
    measurement = invented.measured("m1", configuration=open_loop)
    process = replace(measurement.processes[0], scheduled_arrivals=70, unsent_arrivals=3)
    measurement = replace(measurement, processes=(process, *measurement.processes[1:]))
    samples = invented.samples("m1", open_loop=True)
    filled.add_measurement(measurement, samples)

    (found,) = filled.measurements("b0000001")
    assert fields(found) == fields(measurement)
    assert series(filled.block_samples("m1")) == series(samples)


def test_who_else_used_the_machine_is_kept_and_a_warm_up_that_could_not_be_told(filled):
    use = MachineUse(500_000_000, 2, 310_000_000, 0, (ProcessUse("pip", 812, 1, 300_000_000),))
    seen = Bystanders(use, 10_000_000_000, None, 1.5, ("processes of other users",))
    measurement = invented.measured("m1")
    process = replace(measurement.processes[0], bystanders=seen, warm_up=WarmUp(None, 4, "too few"))
    process = replace(process, stop_reason=StopReason.DISTURBED)
    measurement = replace(measurement, processes=(process, *measurement.processes[1:]))
    filled.add_measurement(measurement, invented.samples("m1"))

    (found,) = filled.measurements("b0000001")
    assert found.processes == measurement.processes


class Counting:
    """A connection that counts how often the samples are gone through."""

    def __init__(self, connection):
        self.connection, self.scans = connection, 0

    def execute(self, query, parameters=None):
        self.scans += "FROM block_samples" in query
        return self.connection.execute(query, parameters)


@pytest.mark.slow
@pytest.mark.parametrize(("at_a_time", "scans"), [(10_000_000, 2), (1, 7)])
def test_the_samples_of_many_measurements_are_read_together_as_far_as_memory_goes(
    filled, monkeypatch, at_a_time, scans
):
    monkeypatch.setattr(samples_module, "_READ_SAMPLES", at_a_time)
    stored = {f"m{n}": invented.samples(f"m{n}", open_loop=n == 3, iterations=20) for n in range(6)} | {"none": ()}
    for identity, each in stored.items():
        filled.add_measurement(invented.measured(identity, iterations=20), each)
    with duckdb.connect(str(filled.path), read_only=True) as connection:
        found = samples_of(counting := Counting(connection), list(stored))

    assert {identity: series(each) for identity, each in found.items()} == {
        identity: series(each) for identity, each in stored.items()
    }
    assert counting.scans == scans


def test_samples_of_many_measurements_read_at_once_stay_with_their_own(filled):
    # So many names are looked for by a join, and so many rows are read by several threads: neither keeps an order.
    ids = [f"many{number}" for number in range(8)]
    own = {identity: np.arange(60_000) + 10**6 * place for place, identity in enumerate(ids)}
    for identity in ids:
        parts = np.array_split(own[identity], 6)
        blocks = tuple(BlockSamples(*divmod(place, 2), part) for place, part in enumerate(parts))
        filled.add_measurement(invented.measured(identity, iterations=60_000), blocks)
    for _ in range(3):
        bundle = filled.bundle("b0000001")
        for identity in ids:
            read = np.concatenate([one.latency_ns for one in bundle.samples[identity]])
            assert np.array_equal(read, own[identity])
        assert np.array_equal(filled.samples(ids[3]), own[ids[3]])


def test_what_the_machine_does_not_tell_stays_unknown(filled):
    block = replace(invented.measured("m1").blocks[0], evidence=Evidence(missing={"turbo": "no such file"}))
    filled.add_measurement(invented.measured("m1", blocks=(block,)))

    assert filled.measurements("b0000001")[0].blocks == (block,)


def test_what_stood_still_comes_back(filled):
    whole = invented.measured("m1")
    block = replace(whole.blocks[0], paused_ns=20_000_000_000)
    process = replace(whole.processes[0], agent_paused_ns=19_600_000_000, clock_jump_ns=-3_600_000_000_000)
    filled.add_measurement(replace(whole, blocks=(block,), processes=(process,)))

    found = filled.measurements("b0000001")[0]
    assert (found.blocks, found.processes) == ((block,), (process,))


def test_blocks_stay_behind_where_they_are_not_wanted(filled):
    filled.add_measurement(invented.measured("m1"), invented.samples("m1"))

    (found,) = filled.measurements("b0000001", with_blocks=False)
    assert (found.blocks, len(found.processes)) == ((), invented.PROCESSES)


def test_a_failure_comes_back_whole_and_has_no_samples(filled):
    filled.add_measurement(invented.failed("m1"))

    assert fields(filled.measurements("b0000001")[0]) == fields(invented.failed("m1"))
    assert filled.samples("m1") is None
    assert filled.block_samples("m1") == ()


def test_blocks_larger_than_a_chunk_and_empty_ones_lose_no_sample(filled):
    large, empty = np.arange(150_000, dtype=np.int64), np.empty(0, dtype=np.int64)
    blocks = [BlockSamples(0, 0, large), BlockSamples(0, 1, empty), BlockSamples(1, 0, large[:5])]
    filled.add_measurement(invented.measured("m1"), iter(blocks))

    assert series(filled.block_samples("m1")) == series([blocks[0], blocks[2]])


def test_a_measurement_whose_samples_break_off_is_not_there_at_all(filled):
    def breaking_off():
        yield from invented.samples("m1")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        filled.add_measurement(invented.measured("m1"), breaking_off())

    assert filled.measurements("b0000001") == ()
    assert filled.add_measurement(invented.measured("m1"), invented.samples("m1")) is True


def test_storing_a_measurement_twice_keeps_the_first(filled):
    twice = invented.samples("m1", latency_ms=8)
    assert filled.add_measurement(invented.measured("m1"), invented.samples("m1")) is True
    assert filled.add_measurement(invented.measured("m1", latency_ms=8), twice) is False

    assert filled.measurements("b0000001")[0].latency.median_ns == pytest.approx(4e6, rel=0.1)
    assert series(filled.block_samples("m1")) == series(invented.samples("m1"))


def test_measurements_come_back_in_the_order_they_were_stored(filled):
    for identity in ("m3", "m1", "m2"):
        filled.add_measurement(invented.measured(identity, iterations=3))

    assert [one.id for one in filled.measurements("b0000001")] == ["m3", "m1", "m2"]


def test_a_measurement_without_its_benchmark_is_refused(filled):
    with pytest.raises(StoreError, match="its benchmark gone was removed"):
        filled.add_measurement(invented.measured("m1", "gone"))


def test_people_can_query_the_axes_and_numbers_with_any_duckdb(filled):
    filled.add_measurement(invented.measured("m1", batch=4))
    filled.add_measurement(invented.failed("m2"))
    query = """SELECT engine, batch, cores, precision, effective_threads, median_ns > 0, failure_kind
        FROM measurements ORDER BY position"""

    with duckdb.connect(filled.path, read_only=True) as connection:
        rows = connection.execute(query).fetchall()
    assert rows == [
        ("fake", 4, 2, "f32", 2, True, None),
        ("fake-broken", 1, 2, "f32", None, None, "crashed"),
    ]


def test_people_can_query_samples_and_evidence_with_any_duckdb(filled):
    filled.add_measurement(invented.measured("m1", noisy=True), invented.samples("m1"))
    query = """SELECT count(*), max(latency_ns) = max(max_ns), count(DISTINCT process)
        FROM block_samples JOIN measurements ON id = measurement_id"""
    disturbed = "SELECT process, block, disturbances, other_cpu_time_ns FROM blocks WHERE disturbances != []"

    with duckdb.connect(filled.path, read_only=True) as connection:
        assert connection.execute(query).fetchall() == [(200, True, 3)]
        assert connection.execute(disturbed).fetchall() == [(0, 1, ["other processes 12 %"], 4_000_000)]
