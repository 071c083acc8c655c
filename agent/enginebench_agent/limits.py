"""What one child may take of the machine, imposed from outside on the running process.

From outside, because code between fork and exec (`preexec_fn`) is not safe in a process that serves gRPC, and because
an engine cannot leave out what it does not do itself. The interpreter is still starting when the limits take effect.
"""

import contextlib
import os
import resource
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from enginebench_agent.sandbox import Sandbox
from enginebench_agent.sizes import shown_size

CPU_GRACE_SECONDS = 5
"""After SIGXCPU, which a process may ignore, so much processor time is left until SIGKILL."""

RESERVED_BYTES = 1024**3
"""Private memory that a process may reserve beyond what it may hold: stacks of threads and pools that it never fills.
Whoever does fill them is found by `resident`; this bound is for the one allocation that would take all at once."""

FIRST_TO_GO = "1000"
"""The highest score: where memory runs out all the same, the kernel takes the child and not the agent."""


@dataclass(frozen=True)
class ChildLimits:
    """Bounds of one child; None is no bound.

    `memory_bytes` bounds what it holds and not its address space, of which engines and GPU drivers reserve far more.
    `network`: whether it may stay in the machine's network. `sandbox`: what it is shut in with.
    The sentences are ends of one, and "" without a bound.
    """

    memory_bytes: int | None = None
    file_bytes: int | None = None
    cpu_seconds: int | None = None
    network: bool = False
    sandbox: Sandbox | None = None

    def within(self, seconds: float) -> "ChildLimits":
        """These limits for a child that may live so long: without a bound of its own, all processors all the time."""
        return replace(self, cpu_seconds=self.cpu_seconds or ceil(seconds * (os.cpu_count() or 1)))

    @property
    def memory_sentence(self) -> str:
        """How much memory it may hold, and where to raise that."""
        return "" if self.memory_bytes is None else _allowed(shown_size(self.memory_bytes), "max_memory_bytes")

    @property
    def file_sentence(self) -> str:
        """How large a file of it may be, and where to raise that."""
        return "" if self.file_bytes is None else _allowed(shown_size(self.file_bytes), "max_file_bytes")

    @property
    def cpu_sentence(self) -> str:
        """How much processor time it has, and where to raise that."""
        return "" if self.cpu_seconds is None else _allowed(f"{self.cpu_seconds} s", "max_cpu_seconds")


NO_LIMITS = ChildLimits()


def impose(pid: int, limits: ChildLimits) -> None:
    """Bind a process of ours, and all it will start, to its limits. Harmless when it is gone.

    None can be raised again by it, unless it is root's. None costs time within an inference: the kernel compares a
    number where memory is mapped, a file grows, or a tick of processor time is accounted anyway.
    """
    with contextlib.suppress(ProcessLookupError):
        _limit(pid, resource.RLIMIT_CORE, 0, 0)  # it would hold the model and its inputs
        if limits.memory_bytes is not None:
            data_bytes = limits.memory_bytes + RESERVED_BYTES
            _limit(pid, resource.RLIMIT_DATA, data_bytes, data_bytes)
        if limits.file_bytes is not None:
            _limit(pid, resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes)
        if limits.cpu_seconds is not None:
            _limit(pid, resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + CPU_GRACE_SECONDS)
    with contextlib.suppress(OSError):  # gone, or a kernel without it
        Path(f"/proc/{pid}/oom_score_adj").write_text(FIRST_TO_GO)


def _limit(pid: int, kind: int, soft: int, hard: int) -> None:
    _, highest = resource.prlimit(pid, kind)
    if highest != resource.RLIM_INFINITY:  # nobody but root may raise what the agent itself was given
        soft, hard = min(soft, highest), min(hard, highest)
    resource.prlimit(pid, kind, (soft, hard))


def imposed() -> ChildLimits:
    """The limits of this very process, read back by a child; never the processor's, which end it without a word."""
    data_bytes, _ = resource.getrlimit(resource.RLIMIT_DATA)
    file_bytes, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return ChildLimits(
        memory_bytes=None if data_bytes == resource.RLIM_INFINITY else data_bytes - RESERVED_BYTES,
        file_bytes=None if file_bytes == resource.RLIM_INFINITY else file_bytes,
    )


def _allowed(how_much: str, key: str) -> str:
    return f": the agent allows it {how_much} ({key} in its agent.toml)"
