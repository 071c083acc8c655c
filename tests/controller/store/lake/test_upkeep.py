"""Small files are joined without a row lost, and cleared away only when nobody can be reading them any more."""

import os
import time
from pathlib import Path

import pytest

import invented
from controller.plain import series
from controller.store.lake.conftest import copied
from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.store.lake.reading import forget
from enginebench_controller.store.lake.upkeep import GRACE_HOURS, Compacted, compact
from enginebench_controller.store.store import LakeStore, Store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("scattered")]  # one worker writes the lake for all of them

IDS = tuple(f"b000000{number}" for number in range(1, 5))


@pytest.fixture
def own_and_scattered(filled_again, tmp_path):
    return copied(filled_again, tmp_path)


@pytest.fixture
def own(own_and_scattered):
    return own_and_scattered[0]


@pytest.fixture
def scattered(own_and_scattered):
    return own_and_scattered[1]


def files(lake):
    return sorted(path for path in Path(lake.url).rglob("*.parquet") if "_delta_log" not in path.parts)


def test_every_row_is_kept_and_a_second_time_nothing_is_left_to_do(own, scattered):
    before = len(files(scattered))
    found = compact(scattered, 0, nobody_else=True)
    assert found.joined > found.into > 0
    assert len(files(scattered)) == before - found.joined + found.into
    assert compact(scattered, 0, nobody_else=True) == Compacted(0, 0)

    store = LakeStore(own.path, [scattered.url])
    assert store.benchmarks() == own.benchmarks()
    for identity in IDS:
        for measurement in (f"{identity}-m1", f"{identity}-m2"):
            assert series(store.block_samples(measurement)) == series(own.block_samples(measurement))
    assert store.profile("p0000001") == own.profile("p0000001")


def test_who_began_before_goes_on_reading(own, scattered):
    """Also where what is replaced was written long ago: the grace begins with the moment in which it is replaced."""
    store = LakeStore(own.path, [scattered.url])
    before, long_ago = files(scattered), time.time() - 2 * GRACE_HOURS * 3600
    for file in before:
        os.utime(file, (long_ago, long_ago))
    with store._reading() as connection:
        assert compact(scattered).joined > 0
        assert set(before) < set(files(scattered))
        ((samples,),) = connection.execute("SELECT count(latency_ns) FROM block_samples").fetchall()
    assert samples == sum(
        one.latency_ns.size for identity in IDS for n in (1, 2) for one in own.block_samples(f"{identity}-m{n}")
    )


def test_who_reads_files_that_are_gone_is_told_and_the_next_look_finds_the_new_ones(own, scattered, monkeypatch):
    monkeypatch.setattr("enginebench_controller.store.lake.reading._LOOK_AFTER_S", 3600.0)
    store = LakeStore(own.path, [scattered.url])
    store.generation()
    compact(scattered, 0, nobody_else=True)

    with pytest.raises(StoreError, match=r"a file of it is gone.*try again"):
        store.measurements("b0000001")
    assert len(store.measurements("b0000001")) == 3


def test_writers_and_readers_go_on_meanwhile(own, scattered, writer, tmp_path):
    late = Store(tmp_path / "late" / "results.duckdb")
    late.add_benchmark(invented.benchmark("b0000009"))
    begun = [writer(late.path, scattered)]
    compact(scattered)
    assert [(one.wait(60), one.stderr.read()) for one in begun] == [(0, "")]
    forget(scattered)
    assert len(LakeStore(own.path, [scattered.url]).benchmarks()) == 5


def test_a_grace_that_is_too_short_takes_a_clear_word(scattered):
    before = files(scattered)
    with pytest.raises(InputError, match="--nobody-else"):
        compact(scattered, 0)
    assert files(scattered) == before
    with pytest.raises(InputError, match="no lake"):
        compact(scattered.__class__(scattered.url + "-nowhere"))
