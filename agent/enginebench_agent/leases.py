"""Who may use which part of the machine: two runs that share a resource never overlap."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable


class Leases:
    """One lock a resource, such as "cpu" or "cuda:0", granted in the order of asking."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @contextlib.asynccontextmanager
    async def hold(self, resources: Iterable[str]) -> AsyncIterator[None]:
        """Wait for all the resources and keep them for the block.

        They are taken in sorted order, so that two runs can never wait for each other.
        """
        async with contextlib.AsyncExitStack() as stack:
            for resource in sorted(set(resources)):
                await stack.enter_async_context(self._locks[resource])
            yield
