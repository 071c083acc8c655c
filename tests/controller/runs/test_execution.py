"""What a cancellation may not interrupt."""

import asyncio

import pytest

from enginebench_controller.runs.execution import uninterrupted


async def test_what_was_measured_is_stored_however_often_somebody_cancels_meanwhile() -> None:
    stored, may_store = [], asyncio.Event()

    async def store() -> None:
        await may_store.wait()
        await asyncio.sleep(0)
        stored.append("measured")

    async def carry_out() -> None:
        try:
            await uninterrupted(store())
        except asyncio.CancelledError:
            stored.append("then cancelled")
            raise

    work = asyncio.create_task(carry_out())
    for _ in range(3):
        await asyncio.sleep(0.01)
        work.cancel()
    await asyncio.sleep(0.01)
    assert not work.done() and stored == []
    may_store.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert stored == ["measured", "then cancelled"]


async def test_an_error_of_work_that_was_cancelled_is_told_all_the_same() -> None:
    async def store() -> None:
        await asyncio.sleep(0.02)
        raise OSError("disk full")

    work = asyncio.create_task(uninterrupted(store()))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(OSError, match="disk full"):
        await work
