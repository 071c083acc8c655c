"""The configurations a plan multiplies out to on one device, and why some of them cannot be."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from enginebench_controller.planning.plan import Plan
from enginebench_controller.planning.selection import Engine
from enginebench_controller.records import (
    Arrivals,
    Configuration,
    Hint,
    InputSet,
    InputTensor,
    Load,
    TargetSnapshot,
)


def describe_load(configuration: Configuration) -> str:
    """How requests reach the engine, in words: "sync", "async 4" or "open-loop 50/s poisson"."""
    if configuration.arrivals is not None:
        return f"{configuration.load} {configuration.arrivals.rate_per_s:g}/s {configuration.arrivals.process}"
    return str(configuration.load) if configuration.load is Load.SYNC else f"async {configuration.requests}"


def configurations(
    plan: Plan,
    snapshot: TargetSnapshot,
    device: str,
    batch: int,
    inputs: tuple[InputTensor, ...],
    options: Mapping[str, str],
) -> Iterator[Configuration]:
    """Every combination of a plan's axes on one device, possible or not."""
    axes = itertools.product(plan.cores or (usable_cores(snapshot) or 1,), plan.streams, plan.precision, plan.hint)
    for core_count, streams, precision, hint in axes:
        for load, requests, arrivals in _loads(plan, core_count, streams, hint):
            yield Configuration(
                device=device,
                batch=batch,
                cores=core_count,
                streams=streams,
                precision=precision,
                hint=hint,
                load=load,
                requests=requests,
                arrivals=arrivals,
                inputs=inputs,
                input_set=InputSet(plan.seed, plan.inputs),
                options=options,
                stop=plan.stop_rule(),
            )


def usable_cores(snapshot: TargetSnapshot) -> int | None:
    """The physical cores of a target that its control group's quota lets be busy all the time, and at least one."""
    cores: int | None = snapshot.host.get("physical_cores")
    quota: float | None = snapshot.host.get("cpu_quota_cores")
    if quota is None:
        return cores
    granted = max(1, math.floor(quota))
    return granted if cores is None else min(cores, granted)


def _loads(plan: Plan, cores: int, streams: int, hint: Hint) -> Iterator[tuple[Load, int, Arrivals | None]]:
    """Every load with its requests in flight and its arrivals."""
    for load in plan.load:
        rates = [Arrivals(rate, plan.arrivals) for rate in plan.rate] if load is Load.OPEN_LOOP else [None]
        for requests, arrivals in itertools.product(_requests(plan, load, cores, streams, hint), rates):
            yield load, requests, arrivals


def _requests(plan: Plan, load: Load, cores: int, streams: int, hint: Hint) -> tuple[int, ...]:
    if load is Load.SYNC:
        return (1,)
    # Under these hints the engine makes streams for as many requests as it is told of: too few would hold it back.
    wanted = cores if hint in (Hint.THROUGHPUT, Hint.CUMULATIVE_THROUGHPUT) else 2
    return plan.requests or (max(2, streams, wanted),)


def impossible(  # noqa: PLR0911  # one reason a line
    configuration: Configuration, snapshot: TargetSnapshot, engine: Engine, device: Mapping[str, Any]
) -> str | None:
    """Why a configuration cannot be, or None."""
    available = engine["available"]
    usable = usable_cores(snapshot)
    if usable is not None and configuration.cores > usable:
        return f"{configuration.cores} cores are asked for, and the target has {_cores_in_words(snapshot, usable)}"
    if configuration.precision not in ("default", *device["precisions"]):
        return f"it cannot execute in {configuration.precision}; it has {', '.join(device['precisions'])}"
    if configuration.streams > 1 and not available["multiple_streams"]:
        return f"it runs one stream, and {configuration.streams} are asked for"
    if configuration.streams > 1 and configuration.load is Load.SYNC:
        return f"{configuration.streams} streams need `--load async`: one request at a time uses only one"
    if _load_of_the_engine(configuration.load) not in available["loads"]:
        return f"it cannot carry the load {configuration.load}; it has {', '.join(available['loads'])}"
    if configuration.hint is not Hint.NONE and configuration.hint not in available["hints"]:
        return f"it does not know the hint {configuration.hint}; it has {', '.join(available['hints'])}"
    return None


def _cores_in_words(snapshot: TargetSnapshot, usable: int) -> str:
    cores, quota = snapshot.host.get("physical_cores"), snapshot.host.get("cpu_quota_cores")
    return f"{cores}" if cores == usable else f"a quota of {quota:g} (its control group's)"


def _load_of_the_engine(load: Load) -> Load:
    """What an engine must be able to carry: to it an open loop is just requests that overlap."""
    return Load.ASYNC if load is Load.OPEN_LOOP else load
