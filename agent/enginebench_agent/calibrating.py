"""Calibrations on this machine without a server: each engine on each number of cores is a run like any other."""

import asyncio
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from enginebench_agent.cache import FileCache
from enginebench_agent.cgroup import cpu_quota_cores
from enginebench_agent.config import DEFAULT_ENVIRONMENT, load_config
from enginebench_agent.cores import physical_cores, usable_cores
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.discovery import Discovery
from enginebench_agent.errors import AgentError, SetupError
from enginebench_agent.leases import Leases
from enginebench_agent.peak_file import PeakFile
from enginebench_agent.supervisor import Supervisor
from enginebench_proto.v1.configuration_pb2 import HINT_NONE, LOAD_SYNC, Configuration
from enginebench_proto.v1.engine_pb2 import Engine
from enginebench_proto.v1.model_pb2 import ModelVersion
from enginebench_proto.v1.peaks_pb2 import Peak
from enginebench_proto.v1.run_pb2 import RUN_KIND_PEAKS, RunResult, RunSpec

CPU = "CPU"


@dataclass(frozen=True)
class Wish:
    """What to calibrate; what is empty is every usable engine, its processor, and 1, 2, 4 … cores up to all."""

    engines: tuple[str, ...] = ()
    device: str | None = None
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What one engine brought on so many cores: its peaks, or the sentence why there are none."""

    engine: str
    environment: str
    device: str
    cores: int
    peaks: tuple[Peak, ...] = ()
    failure: str | None = None


class Report(Protocol):
    """Who wants to know how it is coming along."""

    def running(self, spec: RunSpec, share: float) -> None:
        """This much of the run is done, from 0 to 1."""


def calibrate_here(wish: Wish, folder: DataFolder, report: Report) -> tuple[Outcome, ...]:
    """Calibrate, keep what was found in the data folder, and tell it.

    Raises `SetupError` for an engine or device that is not here, and while an agent uses the folder: both would
    measure at once.
    """
    folder.prepare()
    with folder.locked("calibrate with it (`enginebench targets calibrate HOST:PORT`)"):
        return asyncio.run(_calibrate(wish, folder, report))


def core_counts(available: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, and all that are available."""
    powers = [1 << exponent for exponent in range(available.bit_length())]
    return tuple(dict.fromkeys([*powers, available]))


async def _calibrate(wish: Wish, folder: DataFolder, report: Report) -> tuple[Outcome, ...]:
    async with _supervisor(folder) as (discovery, supervisor):
        engines = _chosen(wish, await discovery.engines())
        return tuple([await _outcome(spec, supervisor, report) for spec in _specs(wish, engines)])


@asynccontextmanager
async def _supervisor(folder: DataFolder) -> AsyncIterator[tuple[Discovery, Supervisor]]:
    for leftover in folder.runs.iterdir():  # of an agent that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    leases = Leases()
    discovery = Discovery(load_config(folder), lambda: load_config(folder), folder.runs, leases)
    supervisor = Supervisor(folder, FileCache(folder.files), discovery, leases, PeakFile(folder.peaks_file))
    try:
        yield discovery, supervisor
    finally:
        await supervisor.close()
        await discovery.close()


def _chosen(wish: Wish, engines: Sequence[Engine]) -> list[Engine]:
    if not wish.engines:
        if usable := [engine for engine in engines if engine.HasField("available") and not engine.hidden]:
            return usable
        raise SetupError("no engine can be used here; `enginebench-agent environment add` brings one")
    return [_named(name, engines) for name in dict.fromkeys(wish.engines)]


def _named(wanted: str, engines: Sequence[Engine]) -> Engine:
    """The engine of this name, in its environment "default" if it is there and none is named."""
    name, _, environment = wanted.partition("@")
    found = [each for each in engines if each.name == name and environment in ("", each.environment.name)]
    found.sort(key=lambda each: (not each.HasField("available"), each.environment.name != DEFAULT_ENVIRONMENT))
    if not found:
        known = ", ".join(sorted({each.name for each in engines if not each.hidden})) or "none"
        raise SetupError(f"there is no engine {wanted!r} here; there are: {known}")
    if not found[0].HasField("available"):
        raise SetupError(f"the engine {wanted!r} cannot be used here: {found[0].unavailable.reason}")
    return found[0]


def _specs(wish: Wish, engines: Sequence[Engine]) -> Iterator[RunSpec]:
    counts = wish.cores or core_counts(_available_cores())
    for engine in engines:
        device = wish.device or _default_device(engine)
        for cores in counts:
            yield _spec(engine, device, cores)


def _spec(engine: Engine, device: str, cores: int) -> RunSpec:
    """A calibration as a run; nothing but device and cores is to be chosen."""
    configuration = Configuration(
        device=device,
        batch=1,
        cores=cores,
        streams=1,
        requests=1,
        precision="default",
        hint=HINT_NONE,
        load=LOAD_SYNC,
    )
    return RunSpec(
        run_id=f"peaks-{uuid.uuid4().hex}",
        kind=RUN_KIND_PEAKS,
        engine=engine.name,
        environment=engine.environment.name,
        model=ModelVersion(format="onnx"),
        configuration=configuration,
    )


def _default_device(engine: Engine) -> str:
    names = [device.name for device in engine.available.devices]
    if not names:
        raise SetupError(f"the engine {engine.name!r} has no device here")
    return CPU if CPU in names else names[0]


def _available_cores() -> int:
    return usable_cores(len(physical_cores(os.sched_getaffinity(0))), cpu_quota_cores(Path("/")))


async def _outcome(spec: RunSpec, supervisor: Supervisor, report: Report) -> Outcome:
    result = await _run(spec, supervisor, report)
    failure = result.failure.message if result.HasField("failure") else None
    where = (spec.engine, spec.environment, spec.configuration.device, spec.configuration.cores)
    return Outcome(*where, tuple(result.peaks), failure)


async def _run(spec: RunSpec, supervisor: Supervisor, report: Report) -> RunResult:
    try:
        await supervisor.start(spec)
    except AgentError as error:
        raise SetupError(str(error).rstrip(".")) from error
    async for event in supervisor.watch(spec.run_id, 0):
        if event.progress.expected_ns:
            report.running(spec, min(1.0, event.progress.elapsed_ns / event.progress.expected_ns))
    parts = [part async for part in supervisor.result(spec.run_id)]
    supervisor.acknowledge(spec.run_id)
    return parts[0].result
