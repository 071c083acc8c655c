"""From a plan to cases: every configuration, the reasons why some of them cannot be, and how long the others take."""

import itertools
import math
import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from enginebench_controller.errors import ModelError, PlanError
from enginebench_controller.models.inputs.arrays import ImageOptions
from enginebench_controller.plan.configurations import (
    FOR_SEVERAL_REQUESTS,
    BoundModel,
    assumed_cores,
    configurations,
    contradiction,
    does_not_fit,
    idle_devices,
    impossible,
    owner_of,
    select_engines,
)
from enginebench_controller.plan.plan import Plan, parse_duration_ns
from enginebench_controller.records import (
    ArrivalProcess,
    AvailableEngine,
    Configuration,
    Device,
    EngineRef,
    Hint,
    Load,
    ModelVersion,
    StopRule,
    TargetSnapshot,
)
from enginebench_proto.agreed.words import DEFAULT_DEVICE

T = TypeVar("T")

MAX_INTERLEAVED = 64
"""So many runs an agent lets take turns."""

MAX_CONFIGURATIONS = 10_000
"""So many take a day at the least, and seconds to plan."""


Bind = Callable[[str, int], BoundModel]
"""Fits the model a user named to a batch. Raises `ModelError`."""


@dataclass(frozen=True)
class Case:
    """One configuration of one model version on one engine of one target; `resources` are what computes there.

    Those whose `turns` have the same name take turns; "" for none. `outcome_id` is what the measurement or profile will
    be called that comes of it: each case has its own, and equal ones differ in it only.
    """

    target: str
    engine: EngineRef
    model: ModelVersion
    configuration: Configuration
    resources: tuple[str, ...]
    input_paths: Mapping[str, Path] = field(default_factory=dict)
    turns: str = ""
    outcome_id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)

    @property
    def title(self) -> str:
        """A line for progress displays: what is always said, and the axes that are not at their defaults."""
        chosen = self.configuration
        axes = [chosen.size]
        axes += [f"{chosen.streams} streams"] if chosen.streams > 1 else []
        axes += [chosen.precision] if chosen.precision != "f32" else []
        axes += [chosen.load_in_words] if chosen.load is not Load.SYNC else []
        axes += [f"hint {chosen.hint}"] if chosen.hint is not Hint.NONE else []
        imposed = chosen.imposed_sparsity
        axes += [] if imposed is None else [f"{100 * imposed:g} % zeros imposed"]
        return f"{self.model.name} · {self.engine.name} {self.engine.version} · {chosen.device} · {', '.join(axes)}"


@dataclass(frozen=True)
class Expansion:
    """All cases of a plan, and what a person should know about them.

    `left_out` are those of the notes that tell of models which nothing can be made of: the others run, and the command
    counts as failed in part.
    """

    cases: tuple[Case, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Interleave:
    """That cases are to be alive together and to take turns, in an order drawn with this seed: all those of a device,
    or else those whose turns have the same name.
    """

    seed: int
    of_device: bool = True


def in_random_order(cases: Sequence[T], seed: int) -> tuple[T, ...]:
    """The cases in the order to carry them out in.

    A grid that runs in its own order confounds its axes with everything that drifts meanwhile.
    """
    shuffled = list(cases)
    random.Random(seed).shuffle(shuffled)  # noqa: S311  # an order, not a secret
    return tuple(shuffled)


def expand(plan: Plan, snapshots: Sequence[TargetSnapshot], bind: Bind) -> Expansion:
    """Multiply the plan out over what the targets offer, or each of its rungs.

    Raises `PlanError` with every reason when any configuration is impossible, so that nothing runs by halves: all but
    what one of "all" engines cannot do, or a model of several that nothing can be made of, which are left out.
    """
    _refuse_too_many(plan, snapshots)
    told = _Told()
    cases = [case for grid in plan.grids() for case in _grid(grid, snapshots, bind, told)]
    if plan.device_takes_turns:
        told.refusals.update(dict.fromkeys(_crowds(cases)))
    if told.refusals:
        raise PlanError("nothing was run, because:\n" + _listed([*told.refusals, *told.unable]))
    if not cases and told.unable:
        raise PlanError("nothing was run, because no engine here can do it; ask for less:\n" + _listed(told.unable))
    missing = [f"{rung.name} is not available: {rung.unavailable}" for rung in plan.rungs if rung.unavailable]
    idle = idle_options(plan.options, {case.engine.name for case in cases}, _names(snapshots))
    notes = (*told.left_out, *told.not_read(), *told.notes, *told.unable, *idle, *missing)
    return Expansion(tuple(cases), notes, tuple(told.left_out))


@dataclass(frozen=True)
class _Told:
    """Sentences in the order they came up, each once: why nothing runs at all, what is to be known, what engines of
    "all" cannot do, and which models are left out."""

    refusals: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    unable: dict[str, None] = field(default_factory=dict)
    left_out: dict[str, None] = field(default_factory=dict)
    unread: dict[str, tuple[dict[str, None], dict[str, None]]] = field(default_factory=dict)
    """By format: which of all engines do not read it, and of which models."""

    def not_read(self) -> Iterator[str]:
        """A sentence a format: with many engines nearly each lacks some."""
        for form, (engines, models) in self.unread.items():
            verb = "does" if len(engines) == 1 else "do"
            yield f"left out: {_in_words(engines)} {verb} not read {form} ({', '.join(models)})"

    def cannot(self, plan: Plan, reason: str) -> None:
        """An engine cannot do what it is asked: refused where it was named, left out where all were meant."""
        (self.unable if plan.engines == ("all",) else self.refusals)[reason] = None


def _in_words(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _listed(reasons: Iterable[str]) -> str:
    return "\n".join(f"  - {reason}" for reason in reasons)


def _refuse_too_many(plan: Plan, snapshots: Sequence[TargetSnapshot]) -> None:
    """Raise `PlanError` for a plan that comes to more than anybody waits for, before any of it is made."""
    most = sum(_size(grid, snapshot) for grid in plan.grids() for snapshot in snapshots)
    if most > MAX_CONFIGURATIONS:
        raise PlanError(
            f"the plan multiplies out to {most:,} configurations, and at most {MAX_CONFIGURATIONS:,} are run at once: "
            "give fewer values, or make several plans of it"
        )


def _size(plan: Plan, snapshot: TargetSnapshot) -> int:
    """How many configurations a plan has on a target if none is impossible."""
    engines = select_engines(plan.engines, snapshot.engines, snapshot.target)[0]
    all_devices = plan.devices == ("all",)
    places = sum(len(one.devices) if all_devices else max(1, len(plan.devices)) for one in engines)
    requests, rates = len(plan.requests) or 1, len(plan.rate) or 1
    each = {Load.SYNC: 1, Load.ASYNC: requests, Load.OPEN_LOOP: requests * rates}
    loads = sum(each[load] for load in plan.load)
    axes = (plan.models, plan.batch, plan.cores or (1,), plan.streams, plan.precision, plan.hint)
    return places * loads * math.prod(map(len, axes))


def _grid(plan: Plan, snapshots: Sequence[TargetSnapshot], bind: Bind, told: _Told) -> Iterator[Case]:
    told.refusals.update(dict.fromkeys([*contradictions(plan), *_ownerless_options(plan, snapshots)]))
    bound, owned = _bound_models(plan, bind, told), owned_options(plan.options, _names(snapshots))
    told.notes.update(dict.fromkeys(filter(None, (assumed_cores(plan.cores, snapshot) for snapshot in snapshots))))
    for snapshot, (name, batch) in itertools.product(snapshots, bound):
        model = bound[name, batch]
        for engine in _engines(plan, snapshot, model.version, told):
            yield from _cases(plan, snapshot, engine, owned.get(engine.name, {}), model, batch, told)


def _bound_models(plan: Plan, bind: Bind, told: _Told) -> dict[tuple[str, int], BoundModel]:
    """The models fit for each batch; one of several that is fit for none is left out."""
    bound = {}
    failed: dict[str, dict[int, ModelError]] = defaultdict(dict)
    for name, batch in itertools.product(dict.fromkeys(plan.models), plan.batch):
        try:
            bound[name, batch] = bind(name, batch)
        except ModelError as error:
            failed[name][batch] = error
        else:
            told.notes.update(dict.fromkeys(f"{name}: {text}" for text in bound[name, batch].assumptions))
    for name, errors in failed.items():
        if len(plan.models) * len(plan.batch) == 1:
            raise errors[plan.batch[0]]
        if bound and len(errors) == len(plan.batch):
            told.left_out[f"{name} is left out: {next(iter(errors.values()))}"] = None
        else:
            told.refusals.update({f"{name}, batch {batch}: {error}": None for batch, error in errors.items()})
    return bound


def _engines(plan: Plan, snapshot: TargetSnapshot, version: ModelVersion, told: _Told) -> Iterator[AvailableEngine]:
    engines, problems = select_engines(plan.engines, snapshot.engines, snapshot.target)
    told.refusals.update(dict.fromkeys(problems))
    for engine in engines:
        if version.format in engine.formats:
            yield engine
        elif plan.engines == ("all",):
            told.unread.setdefault(version.format, ({}, {}))[0][engine.name] = None
            told.unread[version.format][1][version.name] = None
        else:
            formats = ", ".join(engine.formats)
            sentence = f"{engine.name} does not read {version.format} ({version.name}); it reads {formats}"
            told.refusals[sentence] = None


def _cases(
    plan: Plan,
    snapshot: TargetSnapshot,
    engine: AvailableEngine,
    options: Mapping[str, str],
    model: BoundModel,
    batch: int,
    told: _Told,
) -> Iterator[Case]:
    ref = EngineRef(engine.name, engine.environment, engine.version)
    told.refusals.update(dict.fromkeys(refused_options(options, engine)))
    for device in _devices(plan, engine, snapshot.target, told):
        for configuration in configurations(plan, snapshot, engine, device.name, batch, model, options):
            where = f"{engine.name} on {snapshot.target} {device.name}"
            problem = contradiction(configuration, snapshot) or does_not_fit(configuration, model.version, snapshot)
            if problem:
                told.refusals[f"{where}: {problem}"] = None
                continue
            if problem := impossible(configuration, engine, device):
                told.cannot(plan, f"{where}: {problem}")
                continue
            resources = device.resources
            yield Case(snapshot.target, ref, model.version, configuration, resources, model.input_paths)


def _devices(plan: Plan, engine: AvailableEngine, target: str, told: _Told) -> Sequence[Device]:
    devices = engine.devices
    if not devices:
        told.cannot(plan, f"{engine.name} found no device on target {target!r}")
    if not plan.devices:
        taken = next(([device] for device in devices if device.name == DEFAULT_DEVICE), list(devices[:1]))
        if (idle := idle_devices(engine, [one.name for one in taken], target)) is not None:
            told.notes[idle] = None
        return taken
    if plan.devices == ("all",):
        return devices
    by_name = {device.name.lower(): device for device in devices}
    for name in plan.devices:
        if name.lower() not in by_name:
            known = ", ".join(device.name for device in devices)
            told.cannot(plan, f"{engine.name} on target {target!r} has no device {name!r}; it has {known or 'none'}")
    return [by_name[name.lower()] for name in plan.devices if name.lower() in by_name]


def _crowds(cases: Sequence[Case]) -> Iterator[str]:
    """Why cases cannot all be alive together."""
    for (target, _), count in Counter((case.target, case.resources) for case in cases).items():
        if count > MAX_INTERLEAVED:
            yield f"{count} configurations of one device of {target} cannot be interleaved, only {MAX_INTERLEAVED}"


def contradictions(plan: Plan) -> Iterator[str]:
    """What is wrong with a plan whatever the targets offer."""
    if Load.OPEN_LOOP in plan.load and not plan.rate:
        yield "the load open-loop needs a rate: write --rate 50 for 50 inferences a second"
    if plan.rate and Load.OPEN_LOOP not in plan.load:
        yield "a rate is for the load open-loop only; the others send as fast as the engine completes"
    if plan.arrivals is not ArrivalProcess.POISSON and Load.OPEN_LOOP not in plan.load:
        yield f"arrivals that are {plan.arrivals} are for the load open-loop only, so leave them out"
    if plan.image != ImageOptions() and plan.input_folder is None:
        yield "how images become tensors is for a folder of them only: name it with --inputs, or leave it out"
    if plan.requests and set(plan.load) == {Load.SYNC}:
        yield "requests in flight are for the loads async and open-loop: sync sends one at a time, so leave them out"
    if Load.SYNC in plan.load and (streams := max(plan.streams)) > 1:
        yield f"{streams} streams need `--load async`: one request at a time uses only one"
    if Load.SYNC in plan.load and (hints := [hint for hint in plan.hint if hint in FOR_SEVERAL_REQUESTS]):
        yield f"the hint {hints[0]} needs `--load async`: it is for several requests at a time, not for one"
    if plan.device_takes_turns and Load.OPEN_LOOP in plan.load:
        yield "an open loop cannot be interleaved: its arrivals wait for nobody's turn"


def _ownerless_options(plan: Plan, snapshots: Sequence[TargetSnapshot]) -> list[str]:
    known = _names(snapshots)
    strangers = [key for key in plan.options if "." not in key or owner_of(key, known) not in known]
    return [f"option {key!r} belongs to no engine; write ENGINE.OPTION=VALUE" for key in strangers]


def _names(snapshots: Iterable[TargetSnapshot]) -> set[str]:
    return {engine.name for snapshot in snapshots for engine in snapshot.engines}


def owned_options(options: Mapping[str, str], known: Collection[str]) -> dict[str, dict[str, str]]:
    """The options of a plan by the engine, of all that are known, that they are of, without its name."""
    owned: dict[str, dict[str, str]] = defaultdict(dict)
    for key, value in options.items():
        owner = owner_of(key, known)
        owned[owner][key.removeprefix(f"{owner}.")] = value
    return owned


def refused_options(options: Mapping[str, str], engine: AvailableEngine) -> Iterator[str]:
    """Why an engine does not take options of its own, a sentence for each."""
    return filter(None, (refused_option(engine, *one) for one in options.items()))


def idle_options(options: Iterable[str], engines: Collection[str], known: Collection[str]) -> Iterator[str]:
    """A sentence for each of a plan's options that is of none of the engines that run: it may be misspelt, too."""
    for key in options:
        owner = owner_of(key, known)
        if owner not in engines:
            yield f"option {key!r} is of {owner}, which takes no part: it changes nothing"


def refused_option(engine: AvailableEngine, name: str, value: str) -> str | None:
    """Why an engine takes no such option, or not this value of it; None where it does."""
    allowed = {option.name: option for option in engine.options}
    if name not in allowed:
        return f"{engine.name} has no option {name!r}; it has: {', '.join(sorted(allowed)) or 'none'}{_meant(name)}"
    if not _is_of_type(value, kind := allowed[name].type):
        takes = "true or false" if kind == "bool" else f"a value of type {kind}"
        return f"{engine.name}.{name} cannot be {value!r}: it takes {takes}"
    if (choices := allowed[name].choices) and value not in choices:
        return f"{engine.name}.{name} cannot be {value!r}; choose from {', '.join(choices)}"
    return None


def _meant(name: str) -> str:
    """What no engine has under a name of its own, because all take it alike: "num_threads" is --cores."""
    words = set(name.lower().split("_"))
    found = [option for option, said in _TAKEN_BY_ALL.items() if words & set(said)]
    return f"; {' and '.join(found)} say{'s' * (len(found) == 1)} it to every engine" if found else ""


_TAKEN_BY_ALL: Mapping[str, Sequence[str]] = {
    "--cores": ("threads", "thread", "nthreads", "cores"),
    "--streams": ("streams", "nstreams"),
    "--hint": ("performance",),
    "--precision": ("precision",),
    "--requests": ("requests", "nireq"),
    "--batch": ("batch", "batchsize"),
}
"""Words in the names of engines' settings, by the option of a plan that stands for them."""


def _is_of_type(text: str, kind: str) -> bool:
    if kind == "bool":
        return text.lower() in {"true", "false"}
    try:
        {"int": int, "float": float}.get(kind, str)(text)
    except ValueError:
        return False
    return True


OVERHEAD_NS = 2_000_000_000
"""A guess at reading, compiling and teardown of one process, which differ from model to model."""


def expected_ns(rule: StopRule) -> int:
    """The estimate for one measurement of all its processes, where nothing keeps it from ending as soon as it may."""
    return rule.min_duration_ns + rule.processes * (rule.warmup_ns + OVERHEAD_NS)


def longest_ns(rule: StopRule) -> int:
    """The estimate for one measurement that goes on for as long as it may."""
    return rule.max_duration_ns + rule.processes * (rule.warmup_ns + OVERHEAD_NS)


USUAL_TIME_LIMIT_NS = 1_800_000_000_000
"""Of a process, where it is not to measure for longer: some engines compile for minutes, and one may hang."""


def time_limit_ns(plan: Plan, cases: Iterable[Case]) -> int:
    """After how long a process of these cases is killed: as the plan says, or else in twice the time of the longest.

    Raises `PlanError` where the plan says less than any process takes.
    """
    rules = dict.fromkeys(case.configuration.stop for case in cases)
    if plan.timeout is None:
        return max([USUAL_TIME_LIMIT_NS, *(2 * longest_ns(rule) // rule.processes for rule in rules)])
    limit_ns = parse_duration_ns(plan.timeout)
    for rule in rules:
        if (least_ns := rule.warmup_ns + rule.min_duration_ns // rule.processes) >= limit_ns:
            least = f"{least_ns / 1e9:g} s, its warm-up and its share of --duration"
            raise PlanError(
                f"--timeout {plan.timeout} is too short: a process takes {least}, at the least; raise it, shorten "
                "--duration, or give more --processes"
            )
    return limit_ns


def expected_range_ns(cases: Iterable[Case]) -> tuple[int, int]:
    """The estimate for all cases: the time of the busiest target when all end as soon, and as late, as they may."""
    soonest: defaultdict[str, int] = defaultdict(int)
    latest: defaultdict[str, int] = defaultdict(int)
    for case in cases:
        soonest[case.target] += expected_ns(case.configuration.stop)
        latest[case.target] += longest_ns(case.configuration.stop)
    return max(soonest.values(), default=0), max(latest.values(), default=0)
