"""Blocking work beside the event loop that may not be left behind half-done."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def run_to_end(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` in a thread and return its result; a cancellation meanwhile takes effect once it has returned.

    `asyncio.to_thread` alone abandons the thread, which then writes to a file its caller has already closed. Keep
    the work short: nothing can be cancelled during it.
    """
    job = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        while not job.done():
            with contextlib.suppress(asyncio.CancelledError):  # a second cancellation changes nothing
                await asyncio.wait([job])
        if not job.cancelled():
            job.exception()  # marks it as seen
        raise
