"""What every load has in common: it runs a block of inferences and hands over their times."""

import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

CAPACITY = 1 << 18
"""Most samples of a block, so that memory stays flat: a block of inferences below a microsecond ends early."""

clock = time.perf_counter_ns
"""The clock of all samples, in nanoseconds."""


def no_samples() -> "array[int]":
    """An empty series."""
    return array("q")


@dataclass(frozen=True)
class TimedBlock:
    """The inferences of a block in the order of completion, in nanoseconds.

    `begin_ns` and `end_ns` are readings of the clock: first start and last completion, or, where inferences stay in
    flight from block to block, the last completions of the block before and of this one. The last three series are
    readings too, and empty but under an open loop; a latency then counts from the scheduled instant.
    """

    begin_ns: int
    end_ns: int
    latency_ns: "array[int]"
    scheduled_ns: "array[int]" = field(default_factory=no_samples)
    sent_ns: "array[int]" = field(default_factory=no_samples)
    completed_ns: "array[int]" = field(default_factory=no_samples)

    @property
    def duration_ns(self) -> int:
        """Wall clock of the block."""
        return self.end_ns - self.begin_ns


class TimedLoad(ABC):
    """A load on one engine, for one thread to use; `close` ends it."""

    goes_on = False
    """Whether inferences stay in flight between blocks, so that blocks follow each other without gaps."""

    @abstractmethod
    def block(self, length_ns: int, fewest: int = 1, *, in_turn: bool = False) -> TimedBlock:
        """Run for `length_ns` and until `fewest` inferences are complete, but for at most `CAPACITY` of them.

        In a turn, what is scheduled for the block is complete in it, and no schedule goes on beyond it.
        Raises the first error of an inference, once nothing is in flight any more.
        """

    def drain(self) -> None:  # noqa: B027  # nothing is in flight between the blocks of most
        """Wait until nothing is in flight; what was belongs to no block. Raises the first error of an inference."""

    def align(self) -> None:  # noqa: B027  # nothing to do for most
        """Let the next block begin now: what was inferred since the last one, or is for this, belongs to none."""

    def remainder(self, length_ns: int, until_ns: int | None) -> Iterator[TimedBlock]:
        """Schedule nothing more, and carry out what was scheduled in blocks until the clock reads `until_ns`.

        Raises the first error of an inference.
        """
        return iter(())

    @abstractmethod
    def close(self) -> None:
        """Wait until nothing is in flight. Harmless when repeated."""
