"""Loads and requests whose truth is known: what they take is scripted, and no time passes where none is needed."""

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from enginebench_agent.worker.loads.block import TimedBlock, TimedLoad
from enginebench_plugins.spec import InferRequest, OnDone, Outputs, Tensors

MILLISECOND = 1_000_000
INPUTS = [{"x": index} for index in range(3)]

Latencies = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""Gives so many latencies in nanoseconds."""


def constant(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    """One millisecond, but for the clock's last digits."""
    return MILLISECOND + generator.integers(0, 100, count).astype(np.float64)


def noisy(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    """One millisecond, give or take 5 %."""
    return generator.normal(MILLISECOND, 0.05 * MILLISECOND, count)


def bimodal(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    """One or two milliseconds, the one in 60 of 100."""
    mode = np.where(generator.random(count) < 0.6, MILLISECOND, 2 * MILLISECOND)
    return mode * generator.normal(1, 0.02, count)


def heavy_tailed(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    """One millisecond plus a tail so long that it has no variance."""
    return MILLISECOND * (1 + 0.1 * generator.pareto(1.5, count))


def stalling(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    """One millisecond, but twenty of them in 2 of 100."""
    stalled = generator.random(count) < 0.02
    return np.where(stalled, 20, 1) * generator.normal(MILLISECOND, 0.02 * MILLISECOND, count)


STATIONARY = [constant, noisy, bimodal, heavy_tailed, stalling]


def to_series(values: NDArray[np.float64]) -> "array[int]":
    """As loads hand them over."""
    return array("q", values.astype(np.int64).tobytes())


class ScriptedLoad(TimedLoad):
    """Hands over scripted latencies at once, as if the inferences had followed one another."""

    def __init__(self, latencies: Iterator[int]) -> None:
        self._latencies = latencies
        self.now_ns = 0

    def block(self, length_ns: int, fewest: int = 1, *, in_turn: bool = False) -> TimedBlock:
        begin, taken = self.now_ns, array("q")
        while self.now_ns - begin < length_ns or len(taken) < fewest:
            taken.append(next(self._latencies))
            self.now_ns += taken[-1]
        return TimedBlock(begin, self.now_ns, taken)

    def close(self) -> None:
        pass


def drawn(latencies: Latencies, seed: int) -> Iterator[int]:
    """An endless stationary series."""
    generator = np.random.default_rng(seed)
    while True:
        yield from latencies(generator, 1000).astype(np.int64).tolist()


def cooling(start: float, end: float, count: int, seed: int = 0) -> Iterator[int]:
    """A latency that falls (or rises) steadily from `start` to `end` milliseconds, and then stays."""
    generator = np.random.default_rng(seed)
    levels = [start + (end - start) * index / count for index in range(count)]
    for level in levels:
        yield int(MILLISECOND * level * generator.normal(1, 0.02))
    for index in cycle([0]):
        yield int(MILLISECOND * end * generator.normal(1, 0.02)) + index


class Sleeper(InferRequest):
    """Sleeps and remembers what it was given; fails at a given call."""

    def __init__(self, milliseconds: float = 1, fail_at: int | None = None) -> None:
        self.seen: list[int] = []
        self.active = False
        self._seconds = milliseconds / 1000
        self._fail_at = fail_at

    def infer(self, inputs: Tensors) -> Outputs:
        assert not self.active, "one request served two inferences at once"
        self.active = True
        self.seen.append(inputs["x"])
        time.sleep(self._seconds)
        self.active = False
        if self._fail_at == len(self.seen):
            raise RuntimeError(f"call {self._fail_at} failed")
        return {"y": inputs["x"]}


class Inline(Sleeper):
    """Completes within `start`, on the caller's thread, as an engine without threads may."""

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        on_done(self.infer(inputs), None)


class Instant(InferRequest):
    """Takes no time at all, within `start` too."""

    def infer(self, inputs: Tensors) -> Outputs:
        return inputs

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        on_done(inputs, None)


class Refusing(Sleeper):
    """Raises from `start` itself once it has been called a few times."""

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        if len(self.seen) == 3:
            raise RuntimeError("no more starts")
        super().start(inputs, on_done)


def seen_by(requests: Sequence[Sleeper]) -> list[int]:
    """The inputs that all of them were given."""
    return [index for request in requests for index in request.seen]
