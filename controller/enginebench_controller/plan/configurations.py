"""The engines that a plan means on a target, the configurations there, and why some of them cannot be."""

import difflib
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from enginebench_controller.errors import InputError
from enginebench_controller.models.formats.signature import ModelDescription
from enginebench_controller.models.inputs.binding import Binding
from enginebench_controller.models.inputs.values import given_values
from enginebench_controller.plan.plan import ALL_CORES, Plan
from enginebench_controller.records import (
    Arrivals,
    AvailableEngine,
    Configuration,
    Device,
    Engine,
    Hint,
    InputSet,
    InputTensor,
    InputValues,
    Load,
    ModelVersion,
    TargetSnapshot,
    UnavailableEngine,
)
from enginebench_proto.agreed.tensors import tensor_bytes
from enginebench_proto.agreed.words import DEFAULT_DEVICE, DEFAULT_ENVIRONMENT, Precision

_NEAR = 0.8
"""How like a name must be to be meant: at less, "ort" means torch, and so does "nosuch"."""

FOR_SEVERAL_REQUESTS = (Hint.THROUGHPUT, Hint.CUMULATIVE_THROUGHPUT)
"""Hints under which an engine makes streams for as many requests as it is told of: for one, it does nothing else."""


def select_engines(
    names: Sequence[str], engines: Sequence[Engine], target: str
) -> tuple[list[AvailableEngine], list[str]]:
    """The engines a selection means on one target, and a sentence for each name that means none.

    `name` prefers the environment "default", `name@environment` is exact, `name@*` takes every environment and `all`
    every available engine that is not hidden.
    """
    chosen: dict[tuple[str, str], AvailableEngine] = {}
    problems = []
    for name in names:
        found = _matching(name, engines)
        usable = _available(found)
        if not usable:
            problems.append(_why_not(name, found, engines, target))
        chosen |= {(engine.name, engine.environment): engine for engine in usable}
    return list(chosen.values()), problems


def names_in(selections: Collection[str]) -> frozenset[str]:
    """The engines that selections name, in whatever environment; empty where they mean all there are."""
    return frozenset() if "all" in selections else frozenset(one.partition("@")[0] for one in selections)


def names_of(plan: Plan) -> frozenset[str]:
    """The engines that a plan names, those of its options among them; empty where it means all there are."""
    named = names_in([selection for grid in plan.grids() for selection in grid.engines])
    return named and named | {owner_of(key, named) for key in plan.options}


def owner_of(key: str, engines: Iterable[str]) -> str:
    """The engine that an option ENGINE.OPTION is of, either of which may have points in its name.

    Of these engines it is the one with the longest name that fits; where none does, what stands before the first point.
    """
    fitting = (one for one in engines if key.startswith(f"{one}."))
    return max(fitting, key=len, default=key.partition(".")[0])


def options_of(engines: Collection[str], options: Mapping[str, str]) -> dict[str, str]:
    """Those of the options of a plan that are of these engines."""
    return {key: value for key, value in options.items() if owner_of(key, engines) in engines}


def _matching(selection: str, engines: Sequence[Engine]) -> Sequence[Engine]:
    if selection == "all":
        return _one_environment_each([one for one in _available(engines) if not one.hidden])
    name, _, environment = selection.partition("@")
    named = [engine for engine in engines if engine.name == name]
    if environment == "*":
        return named
    if environment:
        return [engine for engine in named if engine.environment == environment]
    return sorted(_available(named) or named, key=_default_first)[:1]


def _available(engines: Iterable[Engine]) -> list[AvailableEngine]:
    return [one for one in engines if isinstance(one, AvailableEngine)]


def _one_environment_each(engines: list[AvailableEngine]) -> list[AvailableEngine]:
    """One of each name and version: the same engine in two environments would only measure itself twice."""
    chosen: dict[tuple[str, str], AvailableEngine] = {}
    for engine in sorted(engines, key=_default_first):
        chosen.setdefault((engine.name, engine.version), engine)
    return sorted(chosen.values(), key=lambda engine: (engine.name, engine.environment))


def _default_first(engine: Engine) -> tuple[bool, str]:
    return engine.environment != DEFAULT_ENVIRONMENT, engine.environment


def _why_not(selection: str, found: Sequence[Engine], engines: Sequence[Engine], target: str) -> str:
    if reasons := [one.reason for one in found if isinstance(one, UnavailableEngine)]:
        return f"engine {selection!r} is unavailable on target {target!r}: {reasons[0]}"
    # An environment that could not be asked stands in the list by its own name.
    unasked = [one.reason for one in engines if isinstance(one, UnavailableEngine) and one.name == one.environment]
    if unasked and len(unasked) == len(engines):
        return f"engines of target {target!r} are not known: {unasked[0]}"
    if selection == "all":
        return f"target {target!r} has no available engine; see `enginebench devices --target {target}`"
    known = sorted({engine.name for engine in engines if not engine.hidden and engine.name != DEFAULT_ENVIRONMENT})
    near = difflib.get_close_matches(selection.partition("@")[0], known, n=1, cutoff=_NEAR)
    environments = sorted({one.environment for one in engines if one.name == selection.partition("@")[0]})
    if environments:
        return f"target {target!r} has engine {selection.partition('@')[0]!r} only in: {', '.join(environments)}"
    hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known) or 'none'}"
    return f"target {target!r} has no engine {selection!r}; {hint}"


T = TypeVar("T")


@dataclass(frozen=True)
class BoundModel:
    """A model version fit for one batch: itself or a derived copy, with its inputs and the assumptions made.

    `input_set` is None for random inputs; `input_paths` says where the files of a given one lie, by sha256;
    `output_batch_axes` is as in `Configuration`.
    """

    version: ModelVersion
    inputs: tuple[InputTensor, ...]
    assumptions: tuple[str, ...] = ()
    output_batch_axes: Mapping[str, int] = field(default_factory=dict)
    input_set: InputSet | None = None
    input_paths: Mapping[str, Path] = field(default_factory=dict)


def meant_for(own: ModelDescription, others: Iterable[ModelDescription], said: Mapping[str, T]) -> Mapping[str, T]:
    """What was said of inputs, but for those that only another model of the plan has."""
    foreign = said.keys() - {one.name for one in own.inputs} if own.inputs_known else set()
    theirs = {one.name for other in others for one in other.inputs} if foreign else set()
    return {name: one for name, one in said.items() if name not in foreign & theirs}


_OF_SINGLE_INPUTS = ("shapes", "batch_axis", "input_values")


def said_of(inputs: Iterable[InputTensor], fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields of a plan say of these inputs alone: that of another model is refused where only these run."""
    names = {one.name for one in inputs}
    return {
        field: {name: one for name, one in fields[field].items() if name in names}
        for field in _OF_SINGLE_INPUTS
        if field in fields
    }


def input_set(plan: Plan, bound: Binding, inputs: Sequence[InputTensor], said: Mapping[str, str]) -> InputSet:
    """The random inputs of a plan for a bound model, with what was said of single ones. Raises `InputError`.

    Lengths of which nobody says anything are those of the whole inputs, unless files bring them.
    """
    values = given_values(inputs, said) if plan.input_folder else bound.values(said)
    return with_values(InputSet(plan.seed, plan.inputs), values)


def length_assumptions(inputs: InputSet, said: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences on the inputs whose values nobody said."""
    taken = (one for one in inputs.values if one.input not in said)
    return tuple(f"input {one.input!r} is a length and was set to {one.lowest}; --input changes it" for one in taken)


def fed_by_files(plan: Plan, inputs: Sequence[InputTensor], chosen: InputSet) -> tuple[InputTensor, ...]:
    """The inputs that the folder of a plan is to feed. Raises `InputError` where none is left to it."""
    filled = {one.input for one in chosen.values}
    files = tuple(one for one in inputs if one.name not in filled)
    if filled and not files:
        raise InputError(
            f"every input has its --input, so nothing is taken from {plan.input_folder}: leave one of them out"
        )
    return files


def with_values(inputs: InputSet, values: tuple[InputValues, ...]) -> InputSet:
    """An input set in which some inputs are filled as said, which its name tells."""
    if not values:
        return inputs
    return replace(inputs, name=f"{inputs.name} with {', '.join(map(str, values))}", values=values)


def configurations(
    plan: Plan,
    snapshot: TargetSnapshot,
    engine: AvailableEngine,
    device: str,
    batch: int,
    model: BoundModel,
    options: Mapping[str, str],
) -> Iterator[Configuration]:
    """Every combination of a plan's axes on one device, possible or not.

    Without cores said these are all of the target's fastest kind, as far as the engine can use them.
    """
    axes = itertools.product(plan.cores or (None,), plan.streams, plan.precision, plan.hint)
    stop = plan.stop_rule()
    for wish, streams, precision, hint in axes:
        most, _ = cores_meant(wish, snapshot)
        for load, requests, arrivals in _loads(plan, most, streams, hint):
            cores, cluster = cores_meant(wish or default_cores(engine, snapshot, requests), snapshot)
            yield Configuration(
                device=device,
                batch=batch,
                cores=cores,
                streams=streams,
                precision=precision,
                hint=hint,
                load=load,
                requests=requests,
                arrivals=arrivals,
                inputs=model.inputs,
                # The seed stays that of the plan: an open loop draws its arrivals with it.
                input_set=replace(model.input_set or InputSet(count=plan.inputs), seed=plan.seed),
                options=options,
                stop=stop,
                output_batch_axes=model.output_batch_axes,
                cluster=cluster,
            )


def cores_in(wish: int | str) -> int | None:
    """The number in what `--cores` takes; None where it leaves that to the target."""
    number = str(wish).rpartition(":")[2]
    return int(number) if number.isdecimal() else None


def cores_meant(wish: int | str | None, snapshot: TargetSnapshot) -> tuple[int, str]:
    """How many cores of which kind; kind "" where all are alike, and for several kinds together."""
    kinds = {one.name: one.physical_cores for one in snapshot.host.clusters}
    usable, fastest = usable_cores(snapshot) or 1, next(iter(kinds), "")
    if wish is None:
        return usable, ""
    kind = str(wish).partition(":")[0] if isinstance(wish, str) and wish != ALL_CORES else ""
    cores = cores_in(wish) or min(usable, kinds.get(kind, usable))
    return cores, kind or (fastest if cores <= kinds.get(fastest, 0) else "")


def default_cores(engine: AvailableEngine, snapshot: TargetSnapshot, requests: int = 1) -> int:
    """All that a target has, of its fastest kind; no more than requests in flight where an inference has one thread."""
    usable = usable_cores(snapshot) or 1
    if kinds := snapshot.host.clusters:
        usable = min(usable, kinds[0].physical_cores)
    return min(usable, requests) if engine.single_threaded else usable


def usable_cores(snapshot: TargetSnapshot) -> int | None:
    """The cores of a target that its control group's quota lets be busy all the time, and at least one."""
    cores, quota = snapshot.host.cores, snapshot.host.cpu_quota_cores
    if quota is None:
        return cores
    granted = max(1, math.floor(quota))
    return granted if cores is None else min(cores, granted)


def assumed_cores(wishes: Sequence[int | str], snapshot: TargetSnapshot) -> str | None:
    """A sentence where a plan takes all cores of a target that does not tell its physical ones; None elsewhere."""
    host = snapshot.host
    if host.physical_cores or not host.logical_cores or (wishes and ALL_CORES not in wishes):
        return None
    return (
        f"{snapshot.target} does not tell how many cores it has: each of its {host.logical_cores} processors counts as "
        "one, though two may share a core; --cores says how many to take"
    )


def idle_devices(engine: AvailableEngine, taken: Collection[str], target: str) -> str | None:
    """A sentence on devices beside the processor, which is taken by default; None where there are none.

    What uses the processor as well, as OpenVINO's AUTO may, is none beside it.
    """
    busy = {resource for one in engine.devices if one.name == DEFAULT_DEVICE for resource in one.resources}
    idle = [one.name for one in engine.devices if one.resources and busy.isdisjoint(one.resources)]
    if DEFAULT_DEVICE not in taken or not idle:
        return None
    which = f"{', '.join(idle[:-1])} and {idle[-1]}" if len(idle) > 1 else idle[0]
    return f"{engine.name} on {target} has {which}, too, where nothing is measured unless --device asks for it"


def _loads(plan: Plan, cores: int, streams: int, hint: Hint) -> Iterator[tuple[Load, int, Arrivals | None]]:
    """Every load with its requests in flight and its arrivals."""
    for load in plan.load:
        rates = [Arrivals(rate, plan.arrivals) for rate in plan.rate] if load is Load.OPEN_LOOP else [None]
        for requests, arrivals in itertools.product(_requests(plan, load, cores, streams, hint), rates):
            yield load, requests, arrivals


def _requests(plan: Plan, load: Load, cores: int, streams: int, hint: Hint) -> tuple[int, ...]:
    if load is Load.SYNC:
        return (1,)
    # Told of too few, the engine would be held back.
    wanted = cores if hint in FOR_SEVERAL_REQUESTS else 2
    return plan.requests or (max(2, streams, wanted),)


def contradiction(configuration: Configuration, snapshot: TargetSnapshot) -> str | None:
    """Why a configuration cannot be on a target, whatever the engine, or None."""
    usable, kinds = usable_cores(snapshot), {one.name: one.physical_cores for one in snapshot.host.clusters}
    if (kind := configuration.cluster) and configuration.cores > kinds.get(kind, 0):
        there_are = " and ".join(f"{count} {name}" for name, count in kinds.items()) + " ones" if kinds else "all alike"
        wanted = configuration.cores_in_words if kind in kinds else f"{kind} cores"
        verb = "is" if kind in kinds and configuration.cores == 1 else "are"
        return f"{wanted} {verb} asked for, and the target's cores are {there_are}"
    if usable is not None and configuration.cores > usable:
        return f"{configuration.cores} cores are asked for, and the target has {_cores_in_words(snapshot, usable)}"
    return None


def does_not_fit(configuration: Configuration, version: ModelVersion, snapshot: TargetSnapshot) -> str | None:
    """Why a target cannot hold what a run holds at least, its whole input set and the model's files; or None."""
    memory_bytes = snapshot.host.memory_bytes
    count = len(configuration.input_set.items) or configuration.input_set.count
    inputs_bytes = count * sum(tensor_bytes(one.dtype, one.shape) for one in configuration.inputs)
    if memory_bytes is None or inputs_bytes + version.size_bytes <= memory_bytes:
        return None
    least_mb = (inputs_bytes + version.size_bytes) / 1e6
    return (
        f"{version.name} at batch {configuration.batch} holds at least {least_mb:,.0f} "
        f"MB ({version.size_bytes / 1e6:,.0f} of the model and {inputs_bytes / 1e6:,.0f} for {count} inputs), and the "
        f"target has {memory_bytes / 1e6:,.0f}: take a smaller batch or fewer --inputs"
    )


def impossible(configuration: Configuration, engine: AvailableEngine, device: Device) -> str | None:
    """Why an engine cannot do what a configuration asks for, or None."""
    if configuration.precision not in (Precision.DEFAULT, *device.precisions):
        return f"it cannot execute in {configuration.precision}; it has {', '.join(device.precisions)}"
    if (number := _impossible_number(configuration, engine)) is not None:
        return number
    if _load_of_the_engine(configuration.load) not in engine.loads:
        return f"it cannot carry the load {configuration.load}; it has {', '.join(engine.loads)}"
    if configuration.hint is not Hint.NONE and configuration.hint not in engine.hints:
        return f"it does not know the hint {configuration.hint}; it has {', '.join(engine.hints)}"
    return None


def _impossible_number(configuration: Configuration, engine: AvailableEngine) -> str | None:
    if configuration.streams > 1 and not engine.multiple_streams:
        return f"it runs one stream, and {configuration.streams} are asked for"
    if engine.single_threaded and configuration.cores > configuration.requests:
        asked, in_flight = configuration.cores, configuration.requests
        return f"it runs an inference on one thread, and {asked} cores are asked for {in_flight} in flight"
    if engine.batches and configuration.batch not in engine.batches:
        return f"it runs batches of {_in_runs(engine.batches)}, and one of {configuration.batch} is asked for"
    return None


def _in_runs(numbers: Iterable[int]) -> str:
    """ "1 to 64, 128": three or more in a row are told by their ends."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(told)


def _cores_in_words(snapshot: TargetSnapshot, usable: int) -> str:
    cores, quota = snapshot.host.cores, snapshot.host.cpu_quota_cores
    return f"{cores}" if cores == usable else f"a quota of {quota:g} (its control group's)"


def _load_of_the_engine(load: Load) -> Load:
    """What an engine must be able to carry: to it an open loop is just requests that overlap."""
    return Load.ASYNC if load is Load.OPEN_LOOP else load
