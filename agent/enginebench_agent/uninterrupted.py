"""Work that a cancellation may delay but not interrupt."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def to_end(work: Coroutine[Any, Any, R]) -> R:
    """Await `work`; a cancellation meanwhile takes effect once it is done."""
    job = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        while not job.done():
            with contextlib.suppress(asyncio.CancelledError):  # a second cancellation changes nothing
                await asyncio.wait([job])
        if not job.cancelled():
            job.exception()  # marks it as seen
        raise


async def run_to_end(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run blocking `work` in a thread; a cancellation meanwhile takes effect once it has returned.

    `asyncio.to_thread` alone abandons the thread, which then writes to a file its caller has already closed. Keep
    the work short: nothing can be cancelled during it.
    """
    return await to_end(asyncio.to_thread(work, *args, **kwargs))
