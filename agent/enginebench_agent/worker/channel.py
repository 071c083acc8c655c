"""The child's side of the pipe to its agent."""

import os
import sys
import time
from collections.abc import Iterable
from typing import BinaryIO

from enginebench_agent.framing import write_frame
from enginebench_proto.v1.engine_pb2 import Engine
from enginebench_proto.v1.measurement_pb2 import Block, Samples
from enginebench_proto.v1.run_pb2 import PhaseStarted, Progress, ResultPart, RunResult
from enginebench_proto.v1.worker_pb2 import TurnWanted, WorkerMessage

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

    def process(self) -> None:
        """Tell which process the engine lives in."""
        write_frame(self._stream, WorkerMessage(pid=os.getpid()))

    def engine(self, engine: Engine) -> None:
        """Send one engine of a listing."""
        write_frame(self._stream, WorkerMessage(engine=engine))

    def notice(self, text: str) -> None:
        """Tell the agent's log something."""
        write_frame(self._stream, WorkerMessage(notice=text))

    def phase(self, name: str) -> None:
        """Tell that a phase begins."""
        write_frame(self._stream, WorkerMessage(phase=PhaseStarted(name=name), sent_ns=time.perf_counter_ns()))

    def progress(self, elapsed_ns: int, expected_ns: int, iterations: int) -> None:
        """Tell how far the phase has come."""
        progress = Progress(elapsed_ns=elapsed_ns, expected_ns=expected_ns, iterations=iterations)
        write_frame(self._stream, WorkerMessage(progress=progress))

    def turn_wanted(self, unfinished: bool) -> None:
        """Ask for the next turn."""
        write_frame(self._stream, WorkerMessage(turn_wanted=TurnWanted(unfinished=unfinished)))

    def block(self, block: Block, samples: Iterable[Samples]) -> None:
        """Send a block and then its samples, at most `SAMPLES_PER_PART` in each part."""
        write_frame(self._stream, WorkerMessage(part=ResultPart(block=block), sent_ns=time.perf_counter_ns()))
        for part in samples:
            write_frame(self._stream, WorkerMessage(part=ResultPart(samples=part)))

    def result(self, result: RunResult) -> None:
        """Send the outcome, when all blocks are sent."""
        write_frame(self._stream, WorkerMessage(part=ResultPart(result=result), sent_ns=time.perf_counter_ns()))
