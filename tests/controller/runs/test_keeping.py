"""What comes while a transaction goes on is stored together with the next; what cannot be stored fails alone."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from filelock import FileLock

import invented
from enginebench_controller.errors import StoreBusyError, StoreError
from enginebench_controller.home import Home
from enginebench_controller.records import BlockSamples, Measurement
from enginebench_controller.runs import busy_store
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.keeping import Storing, keeper
from enginebench_controller.store import connection
from enginebench_controller.store.store import Store


class Counting(Store):
    """A store that remembers how many measurements each of its transactions had."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.together: list[int] = []

    def add_measurement(self, measurement: Measurement, samples: Iterable[BlockSamples] = ()) -> bool:
        self.together.append(1)
        return super().add_measurement(measurement, samples)

    def add_measurements(self, together: Iterable[tuple[Measurement, Iterable[BlockSamples]]]) -> None:
        self.together.append(len(list(together)))
        super().add_measurements(together)


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    store = Counting(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark(), ())
    return store


async def add_all(store: Store, measurements: Iterable[Measurement]) -> list[BaseException | None]:
    storing = Storing(store)
    added = (storing.add(one, invented.samples(one.id)) for one in measurements)
    return list(await asyncio.gather(*added, return_exceptions=True))


async def test_many_at_once_are_a_few_transactions_and_one_alone_waits_for_none(store: Counting) -> None:
    ids = [f"m{number:07}" for number in range(40)]
    assert await add_all(store, map(invented.measured, ids)) == [None] * 40
    assert sum(store.together) == 40
    assert len(store.together) <= 3

    found = store.measurements("b0000001")
    assert [one.id for one in found] == ids, "in the order in which they came"
    assert all(one.blocks and store.samples(one.id) is not None for one in found)

    await add_all(store, [invented.measured("m0000099")])
    assert store.together[-1] == 1


async def test_what_comes_while_others_may_have_the_store_goes_together(store: Counting) -> None:
    storing = Storing(store)
    await storing.add(invented.measured("m0000000"), ())
    coming = []
    for number in range(1, 6):
        coming.append(asyncio.create_task(storing.add(invented.measured(f"m{number:07}"), ())))
        await asyncio.sleep(0.001)
    await asyncio.gather(*coming)
    assert store.together == [1, 5]


async def test_one_that_is_there_already_is_not_there_twice(store: Counting) -> None:
    assert await add_all(store, map(invented.measured, ("m0000001", "m0000002"))) == [None] * 2
    assert await add_all(store, map(invented.measured, ("m0000002", "m0000003"))) == [None] * 2
    assert [one.id for one in store.measurements("b0000001")] == ["m0000001", "m0000002", "m0000003"]


async def test_one_that_cannot_be_stored_fails_alone(store: Counting) -> None:
    lost = invented.measured("mlost", "b0000009")
    first, failed, last = await add_all(store, [invented.measured("ma"), lost, invented.measured("mb")])
    assert (first, last) == (None, None)
    assert isinstance(failed, StoreError)
    assert "its benchmark b0000009 was removed" in str(failed)
    assert {one.id for one in store.measurements("b0000001")} == {"ma", "mb"}


@pytest.fixture
def kept_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLock:
    """What keeps the results of a home, which are there already, from those who have no more patience than 0.1 s."""
    monkeypatch.setattr(connection, "DEFAULT_TIMEOUT_S", 0.1)
    Home(tmp_path).store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    return FileLock(tmp_path / "results.duckdb.lock")


async def test_a_result_waits_for_a_backup_that_takes_longer_and_lacks_nothing_then(
    tmp_path: Path, kept_by_others: FileLock, caplog: pytest.LogCaptureFixture
) -> None:
    with kept_by_others:
        keep = keeper(Home(tmp_path))
        coming = asyncio.gather(*(keep(invented.measured(name), invented.samples(name)) for name in ("ma", "mb")))
        await asyncio.sleep(0.5)
        assert not coming.done()
    await coming

    stored = Home(tmp_path).store.measurements("b0000001")
    assert {one.id for one in stored} == {"ma", "mb"}
    assert all(one.grounds is not None for one in stored), "what it is judged by was waited for, too"
    (said,) = {one.getMessage() for one in caplog.records if one.levelname == "WARNING"}
    assert "waiting up to 10 minutes for the results, where a second Ctrl-C leaves the rest to" in said
    assert "in use by another enginebench process" in said


async def test_what_ends_at_the_first_ctrl_c_asks_for_no_second(
    tmp_path: Path, kept_by_others: FileLock, caplog: pytest.LogCaptureFixture
) -> None:
    with kept_by_others:
        asked = asyncio.create_task(patiently(Home(tmp_path).store.benchmarks))
        await asyncio.sleep(0.5)
    await asked
    (said,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "waiting up to 10 minutes for the results: " in said and "Ctrl-C" not in said


async def test_whoever_comes_to_the_store_between_judging_and_storing_is_waited_for_too(
    tmp_path: Path, kept_by_others: FileLock
) -> None:
    with kept_by_others:
        coming = asyncio.create_task(add_all(Home(tmp_path).store, [invented.measured("ma")]))
        await asyncio.sleep(0.5)
    assert await coming == [None]


async def test_a_result_that_has_waited_long_enough_is_told_what_for(
    tmp_path: Path, kept_by_others: FileLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_store, "PATIENCE_S", 0.2)
    with kept_by_others, pytest.raises(StoreBusyError, match="in use by another enginebench process"):
        await keeper(Home(tmp_path))(invented.measured("ma"), ())
