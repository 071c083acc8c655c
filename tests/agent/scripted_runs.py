"""Runs without a server and without an engine: the agent's execution, and children that do what a script says."""

import asyncio
import sys
from pathlib import Path

from enginebench_agent.files.cache import FileCache
from enginebench_agent.runs.attempt import SPEC_FILE
from enginebench_agent.runs.calibrations import PeakFile
from enginebench_agent.runs.execution import Execution, Terms
from enginebench_agent.runs.limits import NO_LIMITS, ChildLimits
from enginebench_agent.runs.queue import Lease
from enginebench_agent.runs.reservations import Claim, Reservations
from enginebench_agent.runs.run import Run
from enginebench_agent.runs.spool import MAX_RESULT_BYTES, Spool
from enginebench_proto.v1 import configuration_pb2, model_pb2, run_pb2

MODEL_SHA256 = "0" * 64
RESOURCES = ("fake:0",)

PRELUDE = """
import os, signal, sys, time
from enginebench_agent.worker.pipe import write_frame
from enginebench_proto.v1 import measurement_pb2, run_pb2, worker_pb2

pipe = os.fdopen(os.dup(1), "wb")
def argument(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None
def send(**message):
    write_frame(pipe, worker_pb2.WorkerMessage(**message))
def phase(name):
    send(phase=run_pb2.PhaseStarted(name=name))
ends_ns = [time.perf_counter_ns()]
def block(index, samples=10):
    ends_ns.append(time.perf_counter_ns())  # as the agent clocks blocks, too
    times = dict(begin_ns=ends_ns[-2] - ends_ns[0], duration_ns=ends_ns[-1] - ends_ns[-2])
    part = run_pb2.ResultPart(block=measurement_pb2.Block(index=index, iterations=samples, **times))
    send(part=part, ended_ns=ends_ns[-1], sent_ns=time.perf_counter_ns())  # a machine may be busy in between
    values = measurement_pb2.Samples(latency_ns=[1000 * index + 1] * samples, block=index)
    send(part=run_pb2.ResultPart(samples=values))
def result(blocks=0, iterations=0, outcome=run_pb2.OUTCOME_OK, phases=()):
    measurement = measurement_pb2.Measurement(blocks=blocks, iterations=iterations, phases=phases)
    send(part=run_pb2.ResultPart(result=run_pb2.RunResult(outcome=outcome, measurement=measurement)))
def turn(unfinished):
    send(turn_wanted=worker_pb2.TurnWanted(unfinished=unfinished))
    return os.read(int(argument("--turns")), 1)
"""


class Bench:
    """Real cache, lease, spool and execution below `folder`."""

    def __init__(self, folder: Path, max_result_bytes: int = MAX_RESULT_BYTES) -> None:
        self.folder = folder
        self.spool_folder = _made(folder / "spool")
        self.files = _made(folder / "files")
        self._runs = _made(folder / "runs")
        (self.files / MODEL_SHA256).touch()
        self.spool = Spool(self.spool_folder, max_result_bytes)
        self.reservations = Reservations(folder / "reservation.json", 3_600)
        lease, peaks = Lease(self.reservations), PeakFile(folder / "peaks.json")
        self._execution = Execution(FileCache(self.files), lease, self.spool, peaks)

    def start(
        self,
        script: str,
        run_id: str = "run-1",
        *,
        interleaving: run_pb2.Interleaving | None = None,
        items: tuple[configuration_pb2.InputItem, ...] = (),
        limit_seconds: float = 20,
        limits: ChildLimits = NO_LIMITS,
        caller: str | None = None,
    ) -> Run:
        """Begin a run whose child carries out `script`."""
        file = model_pb2.ModelFile(name="m.onnx", sha256=MODEL_SHA256)
        spec = run_pb2.RunSpec(run_id=run_id, model=model_pb2.ModelVersion(files=[file]), interleaving=interleaving)
        spec.configuration.input_set.items.extend(items)
        folder = _made(self._runs / run_id)
        (folder / SPEC_FILE).write_bytes(spec.SerializeToString())
        run = Run(spec)
        python = scripted_interpreter(self.folder / f"{run_id}-child", script)
        terms = Terms(python, RESOURCES, folder, limit_seconds, limits, claim=Claim(caller, limit_seconds))
        self._execution.check(spec, terms)
        self._execution.begin(run, terms)
        return run

    async def run(self, script: str, run_id: str = "run-1", **options: object) -> run_pb2.RunResult:
        """Carry out a run to its end; its result as it stands in the spool."""
        run = self.start(script, run_id, **options)  # type: ignore[arg-type]
        await finished(run)
        return (await self.parts(run_id))[0].result

    async def parts(self, run_id: str = "run-1") -> list[run_pb2.ResultPart]:
        """What the spool tells of a run."""
        return [part async for part in self.spool.read(run_id)]

    def spooled_files(self) -> set[str]:
        """The names of all files in the spool."""
        return {path.name for path in self.spool_folder.iterdir()}


async def finished(*runs: Run) -> None:
    """Wait until the outcomes of runs are told."""
    async with asyncio.timeout(30):
        for run in runs:
            async for _ in run.log.watch(0):
                pass


def scripted_interpreter(path: Path, script: str) -> Path:
    """Write an interpreter to `path` whose runs carry out `script`, and that is otherwise this very Python."""
    child = path.with_suffix(".py")
    child.write_text(PRELUDE + script)
    path.write_text(
        f'#!/bin/sh\ncase "$*" in *.worker\\ *run\\ *) set -- "{child}" "$@";; esac\nexec "{sys.executable}" "$@"\n'
    )
    path.chmod(0o700)
    return path


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
