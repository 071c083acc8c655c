"""What comes while a transaction goes on is stored together with the next; what cannot be stored fails alone."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

import invented
from enginebench_controller.errors import StoreError
from enginebench_controller.records import BlockSamples, Measurement
from enginebench_controller.runs.keeping import Storing
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
