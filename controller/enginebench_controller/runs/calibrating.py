"""Calibrations: each engine of a target on each number of cores, as runs like any other, and their peaks kept."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from enginebench_controller import wire
from enginebench_controller.errors import AgentError, InputError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.plan.configurations import default_cores, names_in, select_engines
from enginebench_controller.records import AvailableEngine, EngineRef, Failure, Peak, TargetSnapshot
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.remote_run import drop
from enginebench_controller.targets.client import AgentClient
from enginebench_controller.targets.session import open_session, refuse_emulated
from enginebench_proto.agreed.words import DEFAULT_DEVICE, Precision
from enginebench_proto.v1 import configuration_pb2, model_pb2, run_pb2

CANCEL_SECONDS = 5.0

Running = Callable[[int, int, str, int, float], None]
"""Told how far a calibration is: its number, from 0, how many there are, engine, cores, and the share that is done."""
LeftOut = Callable[[str], None]
"""Told, in a sentence, which of all engines is not calibrated, and why."""
_OnShare = Callable[[float], None]


@dataclass(frozen=True)
class CalibrationOrder:
    """What to calibrate: a target by name, or None for an agent on this machine.

    `engines` are named as for a benchmark. Where nothing else is said: all engines, each on its processor, on 1, 2, 4 …
    cores up to all of them.
    """

    target: str | None = None
    engines: tuple[str, ...] = ("all",)
    device: str | None = None
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class EngineCalibration:
    """One engine on so many cores: its peaks, or why there are none."""

    engine: EngineRef
    device: str
    cores: int
    peaks: tuple[Peak, ...] = ()
    failure: Failure | None = None


async def calibrate(
    home: Home, order: CalibrationOrder, running: Running, left_out: LeftOut
) -> tuple[EngineCalibration, ...]:
    """Calibrate and keep the peaks.

    Raises `InputError` for an unknown target, engine or device, `UnreachableError`, and `AgentError` for what the
    target refuses.
    """
    targets = [order.target] if order.target else []
    async with open_session(home, targets, engines=names_in(order.engines)) as session:
        snapshot = session.snapshots[0]
        refuse_emulated(
            snapshot, "what it can do at most says nothing of a processor, so there is nothing to calibrate"
        )
        client = session.clients[snapshot.target]
        specs = list(_specs(order, snapshot, left_out))
        done = []
        for number, (spec, version) in enumerate(specs):
            on_share = partial(running, number, len(specs), spec.engine, spec.configuration.cores)
            outcome = await _carry_out(client, spec, version, snapshot.host.cpu_model, on_share)
            await patiently(partial(home.store.add_peaks, outcome.peaks))
            await client.acknowledge(spec.run_id)
            done.append(outcome)
        return tuple(done)


def core_counts(available: int) -> tuple[int, ...]:
    """1, 2, 4 and so on, and all that are available."""
    powers = [1 << exponent for exponent in range(available.bit_length())]
    return tuple(dict.fromkeys([*powers, available]))


def _specs(
    order: CalibrationOrder, snapshot: TargetSnapshot, left_out: LeftOut
) -> Iterator[tuple[run_pb2.RunSpec, str]]:
    """Each calibration as a run, with the version of its engine."""
    for engine, device in places(order, snapshot, left_out):
        for cores in order.cores or core_counts(default_cores(engine, snapshot)):
            yield _spec(engine, device, cores), engine.version


def places(
    order: CalibrationOrder, snapshot: TargetSnapshot, left_out: LeftOut
) -> tuple[tuple[AvailableEngine, str], ...]:
    """The engines to calibrate, each with its device; of "all" those without it are left out.

    Raises `InputError` where none has it, or not each that was named.
    """
    engines, problems = select_engines(order.engines, snapshot.engines, snapshot.target)
    devices = [(engine, _device(order, engine)) for engine in engines]
    found = tuple((engine, device) for engine, device in devices if device is not None)
    unable = [_why_not(order, engine, snapshot.target) for engine, device in devices if device is None]
    if problems or (unable and not (found and order.engines == ("all",))):
        raise InputError("\n".join([*problems, *unable]))
    for sentence in unable:
        left_out(sentence)
    return found


def _device(order: CalibrationOrder, engine: AvailableEngine) -> str | None:
    names = {device.name.lower(): device.name for device in engine.devices}  # as a plan takes them
    default = DEFAULT_DEVICE if DEFAULT_DEVICE in names.values() else next(iter(names.values()), "")
    return names.get((order.device or default).lower())


def _why_not(order: CalibrationOrder, engine: AvailableEngine, target: str) -> str:
    if not engine.devices:
        return f"engine {engine.name!r} found no device on target {target!r}"
    has = ", ".join(device.name for device in engine.devices)
    return f"engine {engine.name!r} has no device {order.device!r} on target {target!r}; it has: {has}"


def _spec(engine: AvailableEngine, device: str, cores: int) -> run_pb2.RunSpec:
    configuration = configuration_pb2.Configuration(
        device=device,
        batch=1,
        cores=cores,
        streams=1,
        requests=1,
        precision=Precision.DEFAULT,
        hint=configuration_pb2.HINT_NONE,
        load=configuration_pb2.LOAD_SYNC,
    )
    return run_pb2.RunSpec(
        run_id=uuid.uuid4().hex,
        kind=run_pb2.RUN_KIND_PEAKS,
        engine=engine.name,
        environment=engine.environment,
        model=model_pb2.ModelVersion(format="onnx"),
        configuration=configuration,
    )


async def _carry_out(
    client: AgentClient, spec: run_pb2.RunSpec, version: str, cpu_model: str | None, on_share: _OnShare
) -> EngineCalibration:
    result = await _run(client, spec, on_share)
    return EngineCalibration(
        engine=EngineRef(spec.engine, spec.environment, wire.short(result.engine_version) or version),
        device=spec.configuration.device,
        cores=spec.configuration.cores,
        peaks=_peaks(result.peaks, client.name, cpu_model),
        failure=wire.from_failure(result.failure) if result.HasField("failure") else None,
    )


async def _run(client: AgentClient, spec: run_pb2.RunSpec, on_share: _OnShare) -> run_pb2.RunResult:
    await client.start(spec)
    try:
        async for event in client.watch(spec.run_id, 0):
            if event.progress.expected_ns:
                on_share(min(1.0, event.progress.elapsed_ns / event.progress.expected_ns))
        parts = [part async for part in client.result(spec.run_id)]
    except asyncio.CancelledError:
        with contextlib.suppress(AgentError, UnreachableError, TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await drop(client, spec.run_id)
        raise
    return parts[0].result


def _peaks(messages: Sequence[Any], target: str, cpu_model: str | None) -> tuple[Peak, ...]:
    found = (wire.from_peak(message, target, cpu_model) for message in messages)
    return tuple(peak for peak in found if peak is not None)
