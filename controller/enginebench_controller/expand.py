"""From a plan to jobs: every configuration, and the reasons why some of them cannot be."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enginebench_controller.errors import ModelError, PlanError
from enginebench_controller.plan import Plan
from enginebench_controller.records import (
    Configuration,
    EngineRef,
    Hint,
    InputTensor,
    Load,
    ModelVersion,
    TargetSnapshot,
)
from enginebench_controller.selection import Engine, select_engines


@dataclass(frozen=True)
class BoundModel:
    """A model version fit for one batch: itself or a derived copy, with its inputs and the assumptions made."""

    version: ModelVersion
    inputs: tuple[InputTensor, ...]
    assumptions: tuple[str, ...] = ()


Bind = Callable[[str, int], BoundModel]
"""Fits the model a user named to a batch. Raises `ModelError`."""


@dataclass(frozen=True)
class Job:
    """One configuration of one model version on one engine of one target; `resources` are what it occupies there."""

    target: str
    engine: EngineRef
    model: ModelVersion
    configuration: Configuration
    resources: tuple[str, ...]

    @property
    def title(self) -> str:
        """A line for progress displays."""
        chosen = self.configuration
        axes = f"batch {chosen.batch}, {chosen.cores} cores"
        return f"{self.model.name} · {self.engine.name} {self.engine.version} · {chosen.device} · {axes}"


@dataclass(frozen=True)
class Expansion:
    """All jobs of a plan, and what a person should know about them."""

    jobs: tuple[Job, ...]
    notes: tuple[str, ...]


def expand(plan: Plan, snapshots: Sequence[TargetSnapshot], bind: Bind) -> Expansion:
    """Multiply the plan out over what the targets offer.

    Raises `PlanError` with every reason when any configuration is impossible, so that nothing runs by halves.
    """
    refusals: dict[str, None] = {}
    notes: dict[str, None] = {}
    jobs = []
    refusals |= dict.fromkeys(_ownerless_options(plan, snapshots))
    bound = _bound_models(plan, bind, refusals, notes)
    for snapshot, (name, batch) in itertools.product(snapshots, bound):
        model = bound[name, batch]
        for engine in _engines(plan, snapshot, model.version, refusals, notes):
            jobs += list(_jobs(plan, snapshot, engine, model, batch, refusals))
    if refusals:
        raise PlanError("nothing was run, because:\n" + "\n".join(f"  - {reason}" for reason in refusals))
    return Expansion(tuple(jobs), tuple(notes))


def _bound_models(
    plan: Plan, bind: Bind, refusals: dict[str, None], notes: dict[str, None]
) -> dict[tuple[str, int], BoundModel]:
    bound = {}
    for name, batch in itertools.product(plan.models, plan.batch):
        try:
            bound[name, batch] = bind(name, batch)
        except ModelError as error:
            if len(plan.models) * len(plan.batch) == 1:
                raise
            refusals[f"{name}, batch {batch}: {error}"] = None
        else:
            notes |= dict.fromkeys(f"{name}: {text}" for text in bound[name, batch].assumptions)
    return bound


def _engines(
    plan: Plan, snapshot: TargetSnapshot, version: ModelVersion, refusals: dict[str, None], notes: dict[str, None]
) -> Iterator[Engine]:
    engines, problems = select_engines(plan.engines, snapshot.engines, snapshot.target)
    refusals |= dict.fromkeys(problems)
    for engine in engines:
        if version.format in engine["available"]["formats"]:
            yield engine
        elif plan.engines == ("all",):
            notes[f"{engine['name']} is left out: it does not read {version.format} ({version.name})"] = None
        else:
            formats = ", ".join(engine["available"]["formats"])
            refusals[f"{engine['name']} does not read {version.format} ({version.name}); it reads {formats}"] = None


def _jobs(
    plan: Plan,
    snapshot: TargetSnapshot,
    engine: Engine,
    model: BoundModel,
    batch: int,
    refusals: dict[str, None],
) -> Iterator[Job]:
    ref = EngineRef(engine["name"], engine["environment"], engine["available"]["version"])
    options = _options(plan, engine, refusals)
    for device in _devices(plan, engine, snapshot.target, refusals):
        for configuration in _configurations(plan, snapshot, device["name"], model, batch, options):
            problem = _impossible(configuration, snapshot, engine, device)
            if problem:
                refusals[f"{engine['name']} on {snapshot.target} {device['name']}: {problem}"] = None
                continue
            yield Job(snapshot.target, ref, model.version, configuration, tuple(device["resources"]))


def _devices(plan: Plan, engine: Engine, target: str, refusals: dict[str, None]) -> list[Mapping[str, Any]]:
    devices = engine["available"]["devices"]
    if not devices:
        refusals[f"{engine['name']} found no device on target {target!r}"] = None
    if not plan.devices:
        return next(([device] for device in devices if device["name"] == "CPU"), devices[:1])
    if plan.devices == ("all",):
        return list(devices)
    by_name = {device["name"].lower(): device for device in devices}
    for name in plan.devices:
        if name.lower() not in by_name:
            known = ", ".join(device["name"] for device in devices)
            refusals[f"{engine['name']} on target {target!r} has no device {name!r}; it has {known}"] = None
    return [by_name[name.lower()] for name in plan.devices if name.lower() in by_name]


def _ownerless_options(plan: Plan, snapshots: Sequence[TargetSnapshot]) -> list[str]:
    known = {engine["name"] for snapshot in snapshots for engine in snapshot.engines}
    strangers = [key for key in plan.options if "." not in key or key.partition(".")[0] not in known]
    return [f"option {key!r} belongs to no engine; write ENGINE.OPTION=VALUE" for key in strangers]


def _options(plan: Plan, engine: Engine, refusals: dict[str, None]) -> dict[str, str]:
    allowed = {option["name"]: option for option in engine["available"]["options"]}
    chosen = {}
    for key, value in plan.options.items():
        owner, _, name = key.partition(".")
        if owner != engine["name"]:
            continue
        if name not in allowed:
            refusals[f"{owner} has no option {name!r}; it has: {', '.join(sorted(allowed)) or 'none'}"] = None
            continue
        choices = allowed[name]["choices"]
        if not _is_of_type(value, allowed[name]["type"]):
            refusals[f"{owner}.{name} cannot be {value!r}: it takes a value of type {allowed[name]['type']}"] = None
        elif choices and value not in choices:
            refusals[f"{owner}.{name} cannot be {value!r}; choose from {', '.join(choices)}"] = None
        chosen[name] = value
    return chosen


def _is_of_type(text: str, kind: str) -> bool:
    if kind == "bool":
        return text.lower() in {"true", "false"}
    try:
        {"int": int, "float": float}.get(kind, str)(text)
    except ValueError:
        return False
    return True


def _configurations(
    plan: Plan,
    snapshot: TargetSnapshot,
    device: str,
    model: BoundModel,
    batch: int,
    options: Mapping[str, str],
) -> Iterator[Configuration]:
    cores = plan.cores or (snapshot.host.get("physical_cores") or 1,)
    axes = itertools.product(cores, plan.streams, plan.precision, plan.load, plan.hint)
    for core_count, streams, precision, load, hint in axes:
        for requests in _requests(plan, load, streams):
            yield Configuration(
                device=device,
                batch=batch,
                cores=core_count,
                streams=streams,
                precision=precision,
                hint=hint,
                load=load,
                requests=requests,
                inputs=model.inputs,
                input_seed=plan.seed,
                input_count=plan.inputs,
                options=options,
                stop=plan.stop_rule(),
            )


def _requests(plan: Plan, load: Load, streams: int) -> tuple[int, ...]:
    if load is Load.SYNC:
        return (1,)
    return plan.requests or (max(2, streams),)


def _impossible(  # noqa: PLR0911  # one reason a line
    configuration: Configuration, snapshot: TargetSnapshot, engine: Engine, device: Mapping[str, Any]
) -> str | None:
    """Why a configuration cannot be, or None."""
    available = engine["available"]
    cores = snapshot.host.get("physical_cores")
    if cores is not None and configuration.cores > cores:
        return f"{configuration.cores} cores are asked for, and the target has {cores}"
    if configuration.precision not in ("default", *device["precisions"]):
        return f"it cannot execute in {configuration.precision}; it has {', '.join(device['precisions'])}"
    if configuration.streams > 1 and not available["multiple_streams"]:
        return f"it runs one stream, and {configuration.streams} are asked for"
    if configuration.streams > 1 and configuration.load is Load.SYNC:
        return f"{configuration.streams} streams need `--load async`: one request at a time uses only one"
    if configuration.load not in available["loads"]:
        return f"it cannot carry the load {configuration.load}; it has {', '.join(available['loads'])}"
    if configuration.hint is not Hint.NONE and configuration.hint not in available["hints"]:
        return f"it does not know the hint {configuration.hint}; it has {', '.join(available['hints'])}"
    return None
