"""The child's side of the pipe to its agent."""

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from enginebench_agent.framing import write_frame
from enginebench_proto.v1.engine_pb2 import Engine
from enginebench_proto.v1.measurement_pb2 import Samples
from enginebench_proto.v1.run_pb2 import PhaseStarted, Progress, ResultPart, RunResult
from enginebench_proto.v1.worker_pb2 import WorkerMessage

SAMPLES_PER_PART = 65_536


class Channel:
    """Writes worker messages to one stream. For one thread at a time."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @classmethod
    def claim_stdout(cls) -> "Channel":
        """Take over this process's standard output; what anybody prints from now on goes to standard error."""
        sys.stdout.flush()
        private = os.dup(1)  # not inherited by children of an engine
        os.dup2(2, 1)
        return cls(os.fdopen(private, "wb"))

    def engine(self, engine: Engine) -> None:
        """Send one engine of a listing."""
        write_frame(self._stream, WorkerMessage(engine=engine))

    def phase(self, name: str) -> None:
        """Tell that a phase begins."""
        write_frame(self._stream, WorkerMessage(phase=PhaseStarted(name=name)))

    def progress(self, elapsed_ns: int, expected_ns: int, iterations: int) -> None:
        """Tell how far the phase has come."""
        progress = Progress(elapsed_ns=elapsed_ns, expected_ns=expected_ns, iterations=iterations)
        write_frame(self._stream, WorkerMessage(progress=progress))

    def result(self, result: RunResult, samples_ns: Sequence[int]) -> None:
        """Send the outcome and then its samples, in parts."""
        write_frame(self._stream, WorkerMessage(part=ResultPart(result=result)))
        for begin in range(0, len(samples_ns), SAMPLES_PER_PART):
            part = Samples(latency_ns=samples_ns[begin : begin + SAMPLES_PER_PART])
            write_frame(self._stream, WorkerMessage(part=ResultPart(samples=part)))
