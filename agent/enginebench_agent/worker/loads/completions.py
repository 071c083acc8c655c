"""What completing inferences leave behind on any thread, for one thread to collect block by block."""

import threading
from array import array

import numpy as np
from numpy.typing import NDArray

from enginebench_agent.worker.loads.block import CAPACITY, clock


class Completions:
    """Rows of `width` numbers, one a completed inference; the last number of a row is the reading of its end."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._capacity = CAPACITY * width
        self._values: list[int] = []  # an array takes three times as long to extend, on the engine's thread
        self._wanted = self._capacity
        self._wake = threading.Event()
        self.error: BaseException | None = None
        self.over = False
        """Whether no further completion is to be expected."""

    def add(self, row: tuple[int, ...]) -> None:
        """Note a completion. Rows come whole: with the interpreter's lock, one `extend` cannot be interrupted."""
        values = self._values
        values.extend(row)
        if len(values) >= self._wanted:
            self._wake.set()

    def fail(self, error: BaseException) -> None:
        """Keep the first error and wake who waits."""
        self.error = self.error or error
        self._wake.set()

    def finish(self) -> None:
        """Nothing more will come."""
        self.over = True
        self._wake.set()

    def reopen(self) -> None:
        """More will come."""
        self.over = False
        self._wake.clear()

    def wait(self, deadline_ns: int, fewest: int) -> None:
        """Sleep until the clock reads `deadline_ns` and `fewest` rows are there; or the buffer is full, an inference
        failed, or nothing more will come."""
        self._sleep_until_there(self._capacity, deadline_ns)
        self._sleep_until_there(min(fewest * self._width, self._capacity), None)
        self._wanted = self._capacity

    def count(self) -> int:
        """Rows that were not taken yet."""
        return len(self._values) // self._width

    def take(self) -> NDArray[np.int64]:
        """The rows so far in the order of completion, shape (rows, width); they are forgotten here."""
        length = len(self._values)
        rows = np.fromiter(self._values, np.int64, length).reshape(-1, self._width)
        del self._values[:length]  # what was added meanwhile stands behind and stays
        return rows[np.argsort(rows[:, -1], kind="stable")]

    def _sleep_until_there(self, wanted: int, deadline_ns: int | None) -> None:
        self._wanted = wanted
        while not self._is_there(wanted):
            remaining_ns = None if deadline_ns is None else deadline_ns - clock()
            if remaining_ns is not None and remaining_ns <= 0:
                break
            self._wake.clear()
            if not self._is_there(wanted):  # it may have come between the test and the clearing
                self._wake.wait(None if remaining_ns is None else remaining_ns / 1e9)

    def _is_there(self, wanted: int) -> bool:
        return len(self._values) >= wanted or self.over or self.error is not None


def column(rows: NDArray[np.int64], index: int) -> "array[int]":
    """One number of each row."""
    return array("q", np.ascontiguousarray(rows[:, index]).tobytes())
