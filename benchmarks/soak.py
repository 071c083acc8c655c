"""A long life of one agent: thousands of short runs and hundreds of aborted ones, and what they leave in it.

`python -m benchmarks.soak` runs the whole of it on the fake engine and fills its table in the documents.
"""

import argparse
import asyncio
import contextlib
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import onnx
from grpc_health.v1 import health_pb2, health_pb2_grpc
from onnx import TensorProto, helper

from benchmarks.markdown import fill, markdown_table
from enginebench_controller.records import ModelFile
from enginebench_controller.targets.client import AgentClient
from enginebench_proto.v1 import configuration_pb2, model_pb2, run_pb2

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "reliability.md"
RUNS, ABORTED = 2_000, 200
ROUNDS = 20
"""How often the agent is looked at; each round has as many runs, and as many aborted ones, as the others."""
DEVICES = ("FAKE:0", "FAKE:1")
READY = "enginebench-agent listening on "
CONFIG = '[environments.default]\nengines = ["fake"]\n'
HEALTH_EVERY_S = 0.05
MILLISECOND = 1_000_000


@dataclass(frozen=True)
class Reading:
    """What an agent holds after so many runs, as /proc tells it, and the machine's load in the minute before."""

    runs: int
    descriptors: int
    threads: int
    rss_bytes: int
    children: int
    spooled: int
    load: float


@dataclass(frozen=True)
class Soak:
    """What was seen: readings from before the first run on, how long health took each time, and the whole duration."""

    readings: tuple[Reading, ...]
    health_s: tuple[float, ...]
    wall_s: float


async def soak(agent: "Agent", runs: int, aborted: int, rounds: int) -> Soak:
    """Carry out the runs in rounds, two at a time, and look at the agent before, between and after."""
    began = time.monotonic()
    async with AgentClient("soak", agent.address) as client, _health(agent.address) as health_s:
        file = await _upload(client, agent.folder)
        await _round(client, file, "warming", 2 * len(DEVICES), 2 * len(DEVICES))  # caches and pools grow to their size
        readings = [agent.reading(0)]
        for number in range(rounds):
            await _round(client, file, str(number), runs // rounds, aborted // rounds)
            readings.append(agent.reading((number + 1) * (runs + aborted) // rounds))
            print(f"  {readings[-1]}", flush=True)
    return Soak(tuple(readings), tuple(health_s), time.monotonic() - began)


@dataclass(frozen=True)
class Agent:
    """A running agent: its process, where it answers, and its data folder."""

    pid: int
    address: str
    folder: Path

    def reading(self, runs: int) -> Reading:
        """What it holds now."""
        process = Path(f"/proc/{self.pid}")
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return Reading(
            runs=runs,
            descriptors=len(list((process / "fd").iterdir())),
            threads=int(status["Threads"]),
            rss_bytes=int(status["VmRSS"].split()[0]) * 1024,
            children=len((process / "task" / str(self.pid) / "children").read_text().split()),
            spooled=len(list((self.folder / "spool").iterdir())),
            load=os.getloadavg()[0],
        )


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Agent]:
    """An agent of its own, with the fake engine only, on a free port."""
    (folder / "agent.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "enginebench_agent", "serve", "--port", "0", "--data-dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        try:
            yield Agent(process.pid, line.removeprefix(READY), folder)
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def _health(address: str) -> AsyncIterator[list[float]]:
    """Ask for health all the time, on a connection of its own; the seconds of each answer gather in the list."""
    seconds: list[float] = []

    async def ask_forever(stub: health_pb2_grpc.HealthStub) -> None:
        while True:
            began = time.monotonic()
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=30)
            seconds.append(time.monotonic() - began)
            await asyncio.sleep(HEALTH_EVERY_S)

    async with grpc.aio.insecure_channel(address) as channel:
        asking = asyncio.create_task(ask_forever(health_pb2_grpc.HealthStub(channel)))
        try:
            yield seconds
        finally:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking


async def _round(client: AgentClient, file: ModelFile, name: str, runs: int, aborted: int) -> None:
    orders = [("run", number) for number in range(runs)] + [("aborted", number) for number in range(aborted)]
    for begin in range(0, len(orders), len(DEVICES)):
        tasks = [
            _carry_out(client, _spec(file, f"{kind}-{name}-{number}", device, endless=kind == "aborted"))
            for (kind, number), device in zip(orders[begin:], DEVICES, strict=False)
        ]
        await asyncio.gather(*tasks)


async def _carry_out(client: AgentClient, spec: run_pb2.RunSpec) -> None:
    """Start, watch, fetch and acknowledge one run; an endless one is cancelled once its engine is at work."""
    endless = spec.configuration.stop.min_duration_ns > 1_000 * MILLISECOND
    await client.start(spec)
    async for event in client.watch(spec.run_id, 0):
        if endless and event.HasField("phase"):
            await client.cancel(spec.run_id)
    parts = [part async for part in client.result(spec.run_id)]
    result = parts[0].result
    expected = run_pb2.OUTCOME_CANCELLED if endless else run_pb2.OUTCOME_OK
    assert result.outcome == expected, result.failure
    await client.acknowledge(spec.run_id)


def _spec(file: ModelFile, run_id: str, device: str, *, endless: bool) -> run_pb2.RunSpec:
    duration_ns = (1_800_000 if endless else 5) * MILLISECOND
    model = model_pb2.ModelFile(name="tiny.onnx", sha256=file.sha256, size_bytes=file.size_bytes)
    return run_pb2.RunSpec(
        run_id=run_id,
        kind=run_pb2.RUN_KIND_MEASURE,
        engine="fake",
        environment="default",
        model=model_pb2.ModelVersion(digest=file.sha256, format="onnx", files=[model]),
        configuration=configuration_pb2.Configuration(
            device=device,
            batch=1,
            cores=1,
            streams=1,
            precision="f32",
            hint=configuration_pb2.HINT_NONE,
            load=configuration_pb2.LOAD_SYNC,
            requests=1,
            inputs=[configuration_pb2.InputTensor(name="x", dtype="float32", shape=[1, 4])],
            input_set=configuration_pb2.InputSet(seed=1, count=1),
            options={"latency_us": "1000", "wait": "sleep"},
            stop=configuration_pb2.StopRule(
                min_duration_ns=duration_ns,
                min_iterations=3,
                max_duration_ns=duration_ns + 60_000 * MILLISECOND,  # for a busy machine
                warmup_ns=MILLISECOND,
            ),
        ),
    )


async def _upload(client: AgentClient, folder: Path) -> ModelFile:
    path = tiny_model(folder / "tiny.onnx")
    file = ModelFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
    await client.upload(file, path, 0, lambda *_: None)
    return file


def tiny_model(path: Path) -> Path:
    """A network of one node, for an engine that does not look at it."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "tiny", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def table(seen: Soak) -> str:
    """The agent before the first run, half-way and at the end, and how long it took to say that it is healthy."""
    columns = ("after", "open files", "threads", "resident", "children", "results left")
    shown = [seen.readings[place] for place in (0, len(seen.readings) // 4, len(seen.readings) // 2, -1)]
    ordered = sorted(seen.health_s)
    health = (
        f"Health was asked {len(ordered):,} times meanwhile and answered within {1e3 * statistics.median(ordered):.1f} "
        f"ms (median), {1e3 * ordered[int(0.99 * len(ordered))]:.1f} ms (99 %), {1e3 * ordered[-1]:.0f} ms (slowest); "
        f"the whole took {seen.wall_s / 60:.0f} minutes on {os.cpu_count()} processors with a load of up to "
        f"{max(reading.load for reading in seen.readings):.0f}."
    )
    return f"{markdown_table(columns, map(_cells, shown))}\n\n{health}"


def _cells(reading: Reading) -> Sequence[str]:
    counts = (reading.descriptors, reading.threads, f"{reading.rss_bytes / 1e6:.1f} MB", reading.children)
    return (f"{reading.runs:,} runs", *map(str, counts), str(reading.spooled))


def main() -> None:
    """Soak an agent and fill the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="short runs (%(default)s)")
    parser.add_argument("--aborted", type=int, default=ABORTED, help="runs that are cancelled at work (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="write no page")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as agent:
        seen = asyncio.run(soak(agent, arguments.runs, arguments.aborted, ROUNDS))
    print(table(seen), flush=True)
    if not arguments.quick:
        fill(PAGE, "soak", table(seen))


if __name__ == "__main__":
    main()
