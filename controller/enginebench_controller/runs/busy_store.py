"""How long a run waits for the results while others have them."""

import logging
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from enginebench_controller.errors import StoreBusyError
from enginebench_controller.models.bounded import in_thread

_log = logging.getLogger(__name__)

PATIENCE_S = 600.0
"""A backup of a large file on a slow disk takes minutes; what waits for that is safe on its target."""

_WAY_OUT = ", where a second Ctrl-C leaves the rest to `enginebench resume`"

T = TypeVar("T")


async def patiently(use: Callable[[], T], *, is_outcome: bool = False) -> T:
    """What a use of the store comes to, tried again for as long as others have it: `PATIENCE_S`, which is told once.

    `use` runs in a thread, and may have been carried out in part before. Where it `is_outcome` of what is in a plan,
    which is stored although somebody interrupts, it is told how to leave that, too.
    """
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await in_thread(use)
        except StoreBusyError as error:
            if time.monotonic() >= until_s:
                raise
            _tell_waiting(_WAY_OUT if is_outcome else "", str(error))


@cache
def _tell_waiting(way_out: str, why: str) -> None:
    _log.warning("waiting up to %g minutes for the results%s: %s", PATIENCE_S / 60, way_out, why)
