"""`python -m benchmarks.fleet`: one controller and a thousand agents, over real sockets and mutual TLS.

Some are real agents with children that measure the fake engine, the others players of benchmarks.fleet_players. What is
measured is the controller alone: its processor time a configuration, and its memory at the peak. Nothing that is stored
here says how fast anything is.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.fleet_players import HOST, READY, Recording
from benchmarks.storm_players import tiny_model
from enginebench_controller.errors import ExitCode
from enginebench_controller.home import Home
from enginebench_controller.records import Target
from enginebench_controller.targets.client import AgentClient
from enginebench_proto.agreed import meeting
from enginebench_proto.agreed.home import HOME_VARIABLE
from enginebench_proto.v1 import agent_pb2

_ONLY_FAKE = '[environments.default]\nengines = ["fake"]\n'
_STARTED_AT_ONCE = 4
_TRIES = 3
_RUN = (
    *("--processes", "1", "--interval", "0%", "--duration", "50ms", "--warmup", "20ms", "--max-duration", "1m"),
    *("--iterations", "5", "--keep-noisy", "--wait-quiet", "0s", "--no-interleave"),
)


@dataclass(frozen=True)
class Cost:
    """What a fleet cost its controller. `own` is processor time in user and kernel mode; `kinds` where it went."""

    real: int
    simulated: int
    configurations: int
    in_children: int
    wall_s: float
    own_cpu_s: float
    peak_rss_bytes: int
    measurements: dict[str, int]
    left_pending: int
    shares: dict[str, float]

    @property
    def own_ms_each(self) -> float:
        """Processor time of the controller for a configuration, storing included, in milliseconds."""
        return 1e3 * self.own_cpu_s / self.configurations

    @property
    def is_whole(self) -> bool:
        """Whether each configuration was measured and stored once."""
        return self.measurements == {"ok": self.configurations} and not self.left_pending


def fleet(folder: Path, real: int, simulated: int, batches: int) -> Cost:
    """Set a fleet up in a folder, have one command measure all of it, and look at what it took and stored."""
    home, model = Home(folder / "home"), tiny_model(folder / "tiny.onnx")
    tls = _certified(home, folder)
    with contextlib.ExitStack() as stack:
        begun = time.monotonic()
        ports = _real_agents(stack, folder, tls, real)
        addresses = [f"tls://{HOST}:{port}" for port in ports]
        asyncio.run(_asked(home, addresses))
        told = asyncio.run(_recorded(home, model, addresses[0]))
        ports += _players(stack, folder, tls, told, simulated)
        for number, port in enumerate(ports):
            kind = "real" if number < real else "simulated"
            target = Target(
                f"board-{number:04}", f"tls://{HOST}:{port}", number, {"fleet": kind, "site": f"lab{number % 7}"}
            )
            home.store.add_target(target)
        print(f"{len(ports)} targets after {time.monotonic() - begun:.0f} s", flush=True)
        return _measured(home, folder, model, real, simulated, batches)


def _certified(home: Home, folder: Path) -> Path:
    tls = folder / "tls"
    _enginebench(home, "ca", "create")
    _enginebench(home, "ca", "issue", "agent", "fleet", "--host", HOST, "--out", tls)
    _enginebench(home, "ca", "issue", "client", "desk", "--install")
    return tls


def _enginebench(home: Home, *words: object) -> None:
    subprocess.run(_command(*words), env=_variables(home), check=True, capture_output=True)


def _command(*words: object) -> list[str]:
    return [sys.executable, "-m", "enginebench_controller", *map(str, words)]


def _variables(home: Home) -> dict[str, str]:
    return os.environ | {HOME_VARIABLE: str(home.path), "COLUMNS": "200"}


def _real_agents(stack: contextlib.ExitStack, folder: Path, tls: Path, count: int) -> list[int]:
    def start(number: int) -> int:
        data = folder / f"agent-{number}"
        data.mkdir(mode=0o700)
        (data / "agent.toml").write_text(_ONLY_FAKE)
        words = ("serve", "--port", "0", "--exit-with-stdin", "--data-dir", str(data), "--tls", str(tls))
        agent = _started(stack, "-m", "enginebench_agent", *words)
        return int(_line(agent).removeprefix(meeting.READY).rpartition(":")[2])

    with ThreadPoolExecutor(_STARTED_AT_ONCE) as threads:
        return list(threads.map(start, range(count)))


def _players(stack: contextlib.ExitStack, folder: Path, tls: Path, told: Recording, count: int) -> list[int]:
    if not count:
        return []
    told.write(folder / "recording")
    (folder / "recording" / "tls").symlink_to(tls)
    players = _started(stack, "-m", "benchmarks.fleet_players", str(folder / "recording"), str(count))
    return list(map(int, _line(players).removeprefix(READY).split()))


def _started(stack: contextlib.ExitStack, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"a player ended with {process.wait()} before it was ready")
    return line


async def _asked(home: Home, addresses: Sequence[str]) -> None:
    """Have real agents look for their engines a few at a time: here, and not elsewhere, they share the processors."""
    at_once = asyncio.Semaphore(_STARTED_AT_ONCE)

    async def ask(address: str) -> None:
        async with at_once, AgentClient(address, address, home.tls) as client:
            await client.host()
            await client.engines()

    await asyncio.gather(*map(ask, addresses))


async def _recorded(home: Home, model: Path, address: str) -> Recording:
    """What a real agent tells of itself, and of one run."""
    bench = Home(home.path.parent / "recorder")
    (bench.path).mkdir(mode=0o700)
    (bench.path / "tls").symlink_to(home.tls)
    async with AgentClient("first", address, home.tls) as client:
        host = agent_pb2.GetHostResponse(host=await client.host())
        engines, peaks = await client.engines()
        listed = agent_pb2.ListEnginesResponse(engines=engines, peaks=peaks)
        command = _command("run", model, "--engine", "fake", "--target", address, *_RUN)
        for _ in range(_TRIES):
            running = await asyncio.create_subprocess_exec(
                *command, env=_variables(bench), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            told = await _overheard(client, host, listed, running)
            failure = told.parts[0].result.failure.message
            if not failure:
                return told
            print(f"the run to be recorded failed: {failure}", file=sys.stderr)
    raise RuntimeError(f"the run to be recorded failed {_TRIES} times")


async def _overheard(
    client: AgentClient,
    host: agent_pb2.GetHostResponse,
    engines: agent_pb2.ListEnginesResponse,
    running: asyncio.subprocess.Process,
) -> Recording:
    """The run that another controller has there: a result stays until it is acknowledged, which takes it a moment."""
    while running.returncode is None:
        for one in await client.runs():
            events = tuple([event async for event in client.watch(one.run_id, 0)])
            parts = tuple([part async for part in client.result(one.run_id)])
            await running.wait()
            return Recording(host, engines, events, parts)
        await asyncio.sleep(0.005)
    raise RuntimeError("the run to be recorded was over before it was seen")


def _measured(home: Home, folder: Path, model: Path, real: int, simulated: int, batches: int) -> Cost:
    chosen = "label:fleet=real,label:fleet=simulated" if simulated else "label:fleet=real"
    sizes = ",".join(map(str, range(1, batches + 1)))
    words = ("run", model, "--engine", "fake", "--target", chosen, "--batch", sizes, *_RUN)
    sampled = folder / "samples.json"
    command = [sys.executable, "-m", "benchmarks.fleet_sampler", str(sampled), *map(str, words)]
    begun = time.monotonic()
    with (folder / "out.txt").open("wb") as out, (folder / "err.txt").open("wb") as errors:
        process = subprocess.Popen(command, env=_variables(home), stdout=out, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.monotonic() - begun
    if process.returncode not in (ExitCode.OK, ExitCode.SOME_FAILED):
        tail = (folder / "err.txt").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"the command ended with {process.returncode}: {tail}")
    (entry,) = home.store.benchmarks()
    for measurement in home.store.measurements(entry.benchmark.id, with_blocks=False):
        if measurement.failure:
            print(f"{measurement.target}: {measurement.failure.message}", file=sys.stderr)
    return Cost(
        real=real,
        simulated=simulated,
        configurations=(real + simulated) * batches,
        in_children=real * batches,
        wall_s=wall_s,
        own_cpu_s=used.ru_utime + used.ru_stime,
        peak_rss_bytes=used.ru_maxrss * 1024,
        measurements={str(status): count for status, count in entry.counts.items() if count},
        left_pending=len(list((home.path / "pending").glob("*"))) if (home.path / "pending").exists() else 0,
        shares=json.loads(sampled.read_text()),
    )


def main() -> None:
    """Set up, measure, print. Exits with 1 where a configuration is missing in the store, or there twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=int, default=100)
    parser.add_argument("--simulated", type=int, default=900)
    parser.add_argument("--batches", type=int, default=10, help="Configurations of each target.")
    parser.add_argument("--quick", action="store_true", help="5 real and 45 simulated targets.")
    parser.add_argument("--keep", type=Path, help="A folder to leave everything in.")
    arguments = parser.parse_args()
    real, simulated = (5, 45) if arguments.quick else (arguments.real, arguments.simulated)
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        folder.mkdir(parents=True, exist_ok=True)
        cost = fleet(folder, real, simulated, arguments.batches)
    print(json.dumps(asdict(cost) | {"own_ms_each": cost.own_ms_each}, indent=2))
    if not cost.is_whole:
        sys.exit("not every configuration was measured and stored once")


if __name__ == "__main__":
    main()
