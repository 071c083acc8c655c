"""Measurements on their way into the store: judged first, and those that come together stored together."""

import asyncio
import logging
import time
from collections.abc import Iterable
from functools import partial

from enginebench_controller.home import Home
from enginebench_controller.records import BlockSamples, Measurement
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.grounds import Judging
from enginebench_controller.runs.undertaking import Keep
from enginebench_controller.store.store import Store
from enginebench_proto.agreed import logs

_log = logging.getLogger(__name__)

_MOST_AT_ONCE = 64
"""So many measurements go into one transaction at most: others who write wait no longer than that takes."""

_LONGEST_PAUSE_S = 1.0

_Waiting = tuple[Measurement, Iterable[BlockSamples], asyncio.Future[None]]


def keeper(home: Home) -> Keep:
    """What puts measurements into the store of a home."""

    judging, storing = Judging(home), Storing(home.store)

    async def keep(measurement: Measurement, samples: Iterable[BlockSamples]) -> None:
        measurement = await patiently(partial(judging.with_grounds, measurement), is_outcome=True)
        await storing.add(measurement, samples)
        failure = measurement.failure.kind if measurement.failure else "none"
        words = logs.told(id=measurement.id, target=measurement.target, status=measurement.status, failure=failure)
        _log.info("measurement stored", extra=words)

    return keep


class Storing:
    """Puts what comes while a transaction goes on into the next one, together: a thousand targets are no thousand."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None

    async def add(self, measurement: Measurement, samples: Iterable[BlockSamples]) -> None:
        """Return once it is stored. Raises `StoreError`."""
        stored = asyncio.get_running_loop().create_future()
        self._waiting.append((measurement, samples, stored))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await stored

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
                began_s = time.monotonic()
                if not await self._all(batch):  # one that cannot be stored is not to fail the others
                    for one in batch:
                        await self._one(*one)
                # For as long as it was ours, others may have the store; and what comes meanwhile goes together.
                await asyncio.sleep(min(time.monotonic() - began_s, _LONGEST_PAUSE_S))
        finally:
            self._writer = None

    async def _all(self, batch: list[_Waiting]) -> bool:
        try:
            together = [(one, samples) for one, samples, _ in batch]
            await patiently(partial(self._store.add_measurements, together), is_outcome=True)
        except Exception:  # whose fault it is, each learns for itself
            return False
        for _, _, stored in batch:
            _settle(stored, None)
        return True

    async def _one(
        self, measurement: Measurement, samples: Iterable[BlockSamples], stored: asyncio.Future[None]
    ) -> None:
        try:
            await asyncio.to_thread(self._store.add_measurement, measurement, samples)
        except Exception as error:  # whoever waits for it is told
            _settle(stored, error)
        else:
            _settle(stored, None)


def _settle(stored: asyncio.Future[None], error: Exception | None) -> None:
    if stored.done():  # nobody waits any more
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)
