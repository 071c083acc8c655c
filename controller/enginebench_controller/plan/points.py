"""The points that a recommendation chooses from, as a target can do them, and the benchmarks that measure some."""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from enginebench_controller.errors import InputError, ModelError, PlanError
from enginebench_controller.models.inputs.input_set import folder_name
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.configurations import (
    cores_meant,
    default_cores,
    idle_devices,
    options_of,
    said_of,
    select_engines,
    usable_cores,
)
from enginebench_controller.plan.expand import Case, expand, owned_options, refused_options
from enginebench_controller.plan.grouping import COPIES_OF_A_MODEL, ENGINE_BYTES, MEMORY_SHARE
from enginebench_controller.plan.plan import Plan, SearchStep, make_plan
from enginebench_controller.plan.recommend import Goal, LatencyLimit, RecommendOrder, common_plan
from enginebench_controller.records import AvailableEngine, Configuration, Hint, Load, ModelVersion, TargetSnapshot
from enginebench_controller.records.fields import CONFIGURATION
from enginebench_controller.records.model import lineage
from enginebench_controller.stats.response import ENGINE, Axes, spread_out
from enginebench_controller.typed_paths import typed_path
from enginebench_proto.agreed.words import DEFAULT_DEVICE, ModelFormat, Precision

MOST_POINTS = 64
"""More are thinned out: nobody waits for them, and their likes tell of them."""
MOST_TOGETHER = 12
"""Of a round that ends with the budget nothing is left."""
BATCHES = (1, 2, 4, 8, 16)
"""On a processor: its cores are at work from a few items on."""
DEVICE_BATCHES = (1, 4, 8, 16, 32, 64, 128)
"""On a device beside the processor, fed by all cores: an H100 computes ResNet-50 1.2 times as fast by 64 as by 16."""
DEVICE_STREAMS = 2
"""There, too: while one inference computes, the inputs of another are on their way."""
_OVERLAPPING = (Goal.THROUGHPUT, Goal.RATE)
"""Goals for which it is good to have several requests in flight."""
LOOK_ITERATIONS = 3
_MODE = ("load", "hint", "streams", "requests")


@dataclass(frozen=True)
class Point:
    """A configuration that may be recommended: its case, the fields of a plan that make it, and its axes.

    `is_default` of what `enginebench run` measures where nobody says anything else. `family` is the model version that
    its own was made from in the end; `is_given` of the model as a person gave it, in f32, with whose outputs those of
    its family are compared.
    """

    case: Case
    fields: Mapping[str, Any]
    axes: Axes
    is_default: bool = False
    family: str = ""
    is_given: bool = True

    @property
    def variant(self) -> tuple[str, ...]:
        """What decides its outputs but for rounding: engine, environment, model version, precision and device."""
        engine, wanted = self.case.engine, self.case.configuration
        return engine.name, engine.environment, self.case.model.original_digest, wanted.precision, wanted.device


@dataclass(frozen=True)
class Space:
    """The points, and how many are not among them: by the reason why they cannot be, and for there were too many.

    `notes` say what had to be assumed of the models, such as sizes that they leave open.
    """

    points: tuple[Point, ...]
    impossible: Mapping[str, int]
    thinned: int = 0
    notes: tuple[str, ...] = ()


def space(
    order: RecommendOrder,
    snapshot: TargetSnapshot,
    binder: Binder,
    models: Sequence[str],
    known: Iterable[ModelVersion] = (),
) -> Space:
    """All points of an order on a target, for `models` that the binder knows. Raises `InputError` for none at all.

    Of all `known` versions it is told what those that take part were made from. An engine that is named and of which
    there is none is refused, too, and so is an option that its engine does not take, as where it is measured.
    """
    engines = _engines(order, snapshot)
    common = common_plan(order).model_copy(update={"interleave": False}).document()
    found = _Found()
    if not order.fields.get("devices"):
        idle = (idle_devices(engine, _devices(order, engine), snapshot.target) for engine in engines)
        found.notes |= dict.fromkeys(filter(None, idle))
    on_devices = [(engine, device) for engine in engines for device in _devices(order, engine)]
    found.without = {_named(order, engine, device): "" for engine, device in on_devices}
    for model, (engine, device) in product(models, on_devices):
        for fields in _grid(order, engine, device, snapshot):
            chosen = {**fields, "models": [model], "engines": [f"{engine.name}@{engine.environment}"]}
            try:
                cases = _cases(order, {**common, **chosen, "devices": [device]}, engine, snapshot, binder)
            except (PlanError, ModelError) as error:
                found.is_impossible(_named(order, engine, device), _reason(error))
                continue
            if cases:
                found.without.pop(_named(order, engine, device), None)
            for case in cases:
                said = {"devices": [case.configuration.device]} if "devices" in order.fields else {}
                axes = _axes(case, engines, models, has_kinds=bool(snapshot.host.clusters))
                found.points.append(Point(case, chosen | said, axes, _is_default(case, engine, snapshot)))
                for text in binder(model, case.configuration.batch).assumptions:
                    found.assumed.setdefault(text, {})[case.model.name] = None
    found.notes |= {f"{_enumerated(list(names))}: {text}": None for text, names in found.assumed.items()}
    points = _with_families(found.checked(), known)
    _check_outputs_can_be_compared(order, points)
    if order.versions and set(models) <= set(order.models) and (note := _no_version(order, points)) is not None:
        found.notes[note] = None
    found.notes |= dict.fromkeys(_calibrated_elsewhere(common.get("input_folder"), points))
    kept = _kept(points)
    return Space(tuple(kept), dict(found.reasons), len(points) - len(kept), tuple(found.notes))


def _calibrated_elsewhere(folder: str | None, points: Sequence[Point]) -> Iterator[str]:
    """Of each INT8 version on whose calibration inputs the search does not measure, which may make it look wrong."""
    here = "" if folder is None else folder_name(typed_path(folder))
    for digest, one in {one.case.model.original_digest: one.case.model for one in points}.items():
        made = one.derivation.calibration if one.derivation else None
        if made is not None and made.folder != here:
            on, measured_on = (name or "random inputs" for name in (made.folder, here))
            way = f"--inputs {made.folder}" if made.folder else "an INT8 version made with `models quantize --inputs`"
            yield (
                f"{one.name} ({digest[:8]}) was calibrated on {on} and is measured on {measured_on}, where its outputs "
                f"may be farther off: {way} tells how far they are where it is used"
            )


def _enumerated(names: Sequence[str]) -> str:
    """Names of models: "net", "net and net-int8", "net and 3 more"."""
    first, *others = names
    return " and ".join([first, *(others if len(others) < 2 else [f"{len(others)} more"])])


def _no_version(order: RecommendOrder, points: Sequence[Point]) -> str | None:
    """A sentence where every model takes part as it was given, and how a version could be made; else None."""
    taking_part = {one.case.model.original_digest: one for one in points}
    if not points or len(taking_part) > len({one.family for one in points}):
        return None
    told = f"--versions: no version made of {', '.join(dict.fromkeys(order.models))} is here, so none takes part"
    if all(one.case.model.format != ModelFormat.ONNX for one in taking_part.values()):
        return told
    return f"{told}; `enginebench models quantize {shlex.quote(order.models[0])}` makes one in INT8"


def _engines(order: RecommendOrder, snapshot: TargetSnapshot) -> Sequence[AvailableEngine]:
    """Those that take part. Raises `InputError` for one that is not there, or does not take its options."""
    engines, problems = select_engines(order.engines, snapshot.engines, snapshot.target)
    owned = owned_options(common_plan(order).options, {engine.name for engine in snapshot.engines})
    problems += [reason for engine in engines for reason in refused_options(owned.get(engine.name, {}), engine)]
    if problems:
        raise InputError("\n".join(dict.fromkeys(problems)))
    return engines


def _cases(
    order: RecommendOrder,
    fields: Mapping[str, Any],
    engine: AvailableEngine,
    snapshot: TargetSnapshot,
    binder: Binder,
) -> Sequence[Case]:
    """What these fields of a plan come to. Raises `PlanError` or `ModelError` where they cannot be."""
    _check_load(order, engine)
    cases = expand(make_plan(fields, "recommend"), (snapshot,), binder).cases
    _check_cores(order, cases, snapshot)
    return cases


@dataclass
class _Found:
    """What was found so far: points, reasons why others cannot be, and what was asked for by name and has none."""

    points: list[Point] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    without: dict[str, str] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    assumed: dict[str, dict[str, None]] = field(default_factory=dict)

    def is_impossible(self, named: str, reason: str) -> None:
        """One of the points cannot be, of what was asked for by this name."""
        self.reasons[reason] += 1
        if self.without.get(named) == "":
            self.without[named] = reason

    def checked(self) -> list[Point]:
        """The points, each once. Raises `InputError` where there are none of what was asked for."""
        points = list({identity(one.case): one for one in reversed(self.points)}.values())[::-1]
        if not points:
            told = "\n".join(f"  - {reason}" for reason in self.reasons)
            raise InputError("there is nothing to choose from" + (f", because:\n{told}" if told else ""))
        for named, reason in self.without.items():
            raise InputError(f"{named} takes no part: {reason}")
        return points


def _kept(points: Sequence[Point]) -> Sequence[Point]:
    """As many as a search can look at, spread out over the axes, with those that the best is to be held against."""
    if len(points) <= MOST_POINTS:
        return points
    defaults = (place for place, one in enumerate(points) if one.is_default)
    given = tuple(dict.fromkeys([*compared(points), *defaults]))
    return [points[place] for place in sorted(spread_out([one.axes for one in points], MOST_POINTS, given))]


def _named(order: RecommendOrder, engine: AvailableEngine, device: str) -> str:
    """What was asked for by name of an engine and a device: "torch", "torch on CUDA:0", "CUDA:0"; "" for nothing."""
    has_engine, has_device = order.engines != ("all",), "all" not in order.fields.get("devices", ("all",))
    return " on ".join([engine.name] * has_engine + [device] * has_device)


def _check_load(order: RecommendOrder, engine: AvailableEngine) -> None:
    if order.goal is Goal.RATE and Load.ASYNC not in engine.loads:
        raise PlanError(f"{engine.name} takes one request at a time, so that none can arrive meanwhile")


def _check_cores(order: RecommendOrder, cases: Iterable[Case], snapshot: TargetSnapshot) -> None:
    """Cores that are fixed or chosen among leave to others what they are to have, too."""
    for asked in (case.configuration for case in cases if order.leave_cores):
        if asked.cores > (most := _most_cores(order, snapshot)):
            cores, left = asked.cores_in_words, order.leave_cores
            raise PlanError(f"{cores} are asked for, and --leave-cores {left} leaves {most}")


def compared(points: Sequence[Point]) -> tuple[int, ...]:
    """The places of those that tell how far outputs are from those of the model as given: one of each variant, the
    model as given first; none of a family in which all are that.
    """
    mixed = {one.family for one in points if one.is_given} & {one.family for one in points if not one.is_given}
    plainest: dict[tuple[str, ...], int] = {}
    for place in sorted(range(len(points)), key=lambda one: _plainness(points[one])):
        if points[place].family in mixed:
            plainest.setdefault(points[place].variant, place)
    return tuple(sorted(plainest.values(), key=lambda one: (not points[one].is_given, one)))


def _plainness(point: Point) -> tuple[object, ...]:
    """What sorts first has the batch that all others have, too, where any has, and takes the least to start."""
    asked = point.case.configuration
    return asked.batch, asked.load is not Load.SYNC, asked.hint is not Hint.NONE, asked.streams, -asked.cores


def _with_families(points: Sequence[Point], known: Iterable[ModelVersion]) -> list[Point]:
    """The points with what their versions were made from; given are the versions of which the others were made."""
    models = {one.digest: one for one in (*known, *(point.case.model for point in points))}
    origins = {one.case.model.original_digest for one in points}
    ways = {digest: list(lineage(digest, models)) for digest in origins}
    shortest: dict[str, int] = {}
    for way in ways.values():
        shortest[way[-1]] = min(len(way), shortest.get(way[-1], len(way)))
    found = []
    for point in points:
        way = ways[point.case.model.original_digest]
        is_given = len(way) == shortest[way[-1]] and point.case.configuration.precision == Precision.F32
        found.append(replace(point, family=way[-1], is_given=is_given, is_default=point.is_default and is_given))
    return found


def _check_outputs_can_be_compared(order: RecommendOrder, points: Sequence[Point]) -> None:
    given = {one.family for one in points if one.is_given}
    if order.output_limit is not None and (alone := [one for one in points if one.family not in given]):
        raise InputError(
            f"--max-output-difference needs {alone[0].case.model.name} as given in f32 to compare with: let precision "
            "f32 take part, or leave the limit out"
        )


def identity(case: Case) -> tuple[object, ...]:
    """What makes a case this point, however long it is measured."""
    return identity_of(case.engine.name, case.engine.environment, case.model.digest, case.configuration)


def identity_of(engine: str, environment: str, digest: str, configuration: Configuration) -> tuple[object, ...]:
    """As `identity`, of a measurement's own fields."""
    data = CONFIGURATION.to_data(configuration)
    data.pop("stop", None)
    return engine, environment, digest, repr(sorted(data.items()))


def together(order_points: Sequence[Point], memory_bytes: int | None) -> int:
    """How many points can be alive at the same time."""
    largest = max(one.case.model.size_bytes for one in order_points)
    if not memory_bytes:
        return MOST_TOGETHER
    fit = int(MEMORY_SHARE * memory_bytes / (ENGINE_BYTES + COPIES_OF_A_MODEL * largest))
    return max(2, min(MOST_TOGETHER, fit))


TURNS = 3
"""Of a process. Whoever is slow has as many turns as whoever is quick, and one inference may take seconds: of blocks as
short as a gate's, eight points of ResNet-50 took a minute for half a second each."""


def samples_of_limit(limit: LatencyLimit | None) -> int:
    """So many inferences a process needs for a percentile that is no guess."""
    return LOOK_ITERATIONS if limit is None else max(LOOK_ITERATIONS, math.ceil(100 / (100 - limit.percent)))


def step_plan(
    order: RecommendOrder, points: Sequence[Point], rounds: int, process_s: float, iterations: int, step: SearchStep
) -> Plan:
    """The benchmark that measures points in so many rounds, one process of each in a round."""
    rungs = [
        {"name": f"point {place}", "title": one.case.title, "fields": one.fields} for place, one in enumerate(points)
    ]
    milliseconds = round(process_s * 1000 * rounds)
    common = common_plan(order)
    return make_plan(
        common.document()
        | {
            "name": f"{step.title} ({', '.join(order.models)})",
            "processes": rounds,
            "duration": f"{milliseconds}ms",
            "max_duration": f"{4 * milliseconds}ms",
            "iterations": rounds * iterations,
            "block": common.block or f"{round(process_s * 1000 / TURNS)}ms",
            "rungs": rungs,
            "search": step.model_dump(),
        },
        "recommend",
    )


def rate_plan(
    order: RecommendOrder, point: Point, rate_per_s: float, rounds: int, process_s: float, step: SearchStep
) -> Plan:
    """The benchmark that measures a point in so many fresh processes while inferences arrive at a rate."""
    rung = {"name": "point 0", "title": point.case.title, "fields": at_rate(point, rate_per_s)}
    milliseconds = round(process_s * 1000 * rounds)
    return make_plan(
        common_plan(order).document()
        | {
            "name": f"{step.title} ({', '.join(order.models)})",
            "interleave": False,
            "processes": rounds,
            "duration": f"{milliseconds}ms",
            "max_duration": f"{2 * milliseconds}ms",
            "iterations": rounds * LOOK_ITERATIONS,
            "rungs": [rung],
            "search": step.model_dump(),
        },
        "recommend",
    )


def at_rate(point: Point, rate_per_s: float) -> dict[str, Any]:
    """The fields of a plan that make a point in an open loop, with as many requests in flight at most."""
    requests = point.case.configuration.requests
    return {**point.fields, "load": [Load.OPEN_LOOP], "rate": [rate_per_s], "requests": [requests]}


def plan_of(order: RecommendOrder, point: Point, rate_per_s: float | None = None) -> Plan:
    """The plan that measures one point as `enginebench run` does, at a rate if one is given."""
    own = point.fields if rate_per_s is None else at_rate(point, rate_per_s)
    said = said_of(point.case.configuration.inputs, order.fields)
    said["options"] = options_of({point.case.engine.name}, order.fields.get("options", {}))
    targets = [] if order.target is None else [order.target]
    return make_plan({**order.fields, **said, **own, "targets": targets}, "recommend")


def _most_cores(order: RecommendOrder, snapshot: TargetSnapshot) -> int:
    """All, without those to be left. Raises `InputError` where that is none."""
    usable = usable_cores(snapshot) or 1
    most = usable - order.leave_cores
    if most < 1:
        raise InputError(
            f"--leave-cores {order.leave_cores} leaves none to measure on: target {snapshot.target!r} has {usable}"
        )
    return most


def _core_counts(snapshot: TargetSnapshot, most: int) -> tuple[int | str, ...]:
    """Powers of two and so many as there may be; of each kind where there are several, and all together."""
    if kinds := snapshot.host.clusters:
        of_kinds = (f"{kind.name}:{one}" for kind in kinds for one in _powers(min(most, kind.physical_cores)))
        return (*of_kinds, *([most] if most > kinds[0].physical_cores else []))
    return _powers(most)


def _powers(most: int) -> tuple[int, ...]:
    return tuple(sorted({most, *(2**power for power in range(most.bit_length()) if 2**power < most)}))


def _devices(order: RecommendOrder, engine: AvailableEngine) -> Sequence[str]:
    """By name, as in a plan; what the engine does not have is refused where the plan is expanded."""
    asked = order.fields.get("devices", ())
    names = [device.name for device in engine.devices]
    if "all" in asked:
        return names
    return asked or (DEFAULT_DEVICE if DEFAULT_DEVICE in names else (names or [DEFAULT_DEVICE])[0],)


def _grid(
    order: RecommendOrder, engine: AvailableEngine, device: str, snapshot: TargetSnapshot
) -> Iterator[dict[str, Any]]:
    """The fields of all points of an engine on a device, possible or not, each once."""
    said = order.axes
    is_processor = device.upper() == DEFAULT_DEVICE
    own_batches = (BATCHES if is_processor else DEVICE_BATCHES) if order.goal is Goal.THROUGHPUT else (1,)
    batches: Sequence[str | int] = said.get("batch") or own_batches
    most = _most_cores(order, snapshot)
    cores = said.get("cores") or (_core_counts(snapshot, most) if is_processor else (most,))
    core_counts = [int(one) if str(one).isdecimal() else one for one in cores]
    seen = set()
    for batch, core_count, precision in product(batches, core_counts, said.get("precision") or ("f32",)):
        for mode in _modes(order, engine, cores_meant(core_count, snapshot)[0] if is_processor else DEVICE_STREAMS):
            fields = {"batch": [batch], "cores": [core_count], "precision": [precision], **mode}
            if (key := repr(fields)) not in seen:
                seen.add(key)
                yield fields


def _modes(order: RecommendOrder, engine: AvailableEngine, streams: int) -> Iterator[dict[str, Any]]:
    """How requests may reach the engine: as it says that it can, and as was asked for."""
    modes: list[dict[str, Any]] = [{"load": Load.SYNC}]
    if order.goal in _OVERLAPPING and Load.ASYNC in engine.loads:
        modes += [{"load": Load.ASYNC}]
        modes += [{"load": Load.ASYNC, "hint": Hint.THROUGHPUT}] if Hint.THROUGHPUT in engine.hints else []
        modes += [{"load": Load.ASYNC, "streams": streams}] if engine.multiple_streams and streams > 1 else []
    elif Hint.LATENCY in engine.hints:
        modes += [{"load": Load.SYNC, "hint": Hint.LATENCY}]
    said = [(axis, order.axes[axis]) for axis in _MODE if axis in order.axes]
    for mode, values in product(modes, product(*(values for _, values in said))):
        chosen = mode | dict(zip((axis for axis, _ in said), values, strict=True))
        yield {axis: [value] for axis, value in chosen.items()}


def _axes(case: Case, engines: Sequence[AvailableEngine], models: Sequence[str], *, has_kinds: bool) -> Axes:
    """The point's place on every axis."""
    asked = case.configuration
    several = len({one.environment for one in engines if one.name == case.engine.name}) > 1
    engine = f"{case.engine.name}@{case.engine.environment}" if several else case.engine.name
    return {
        ENGINE: engine,
        **({"model": case.model.original_digest} if len(models) > 1 else {}),
        "device": asked.device,
        "batch": float(asked.batch),
        "cores": float(asked.cores),
        **({"cluster": asked.cluster} if has_kinds else {}),
        "streams": float(asked.streams),
        "requests": float(asked.requests),
        "load": str(asked.load),
        "hint": str(asked.hint),
        "precision": asked.precision,
    }


def _is_default(case: Case, engine: AvailableEngine, snapshot: TargetSnapshot) -> bool:
    asked = case.configuration
    plain = asked.load is Load.SYNC and asked.hint is Hint.NONE and asked.precision == "f32"
    cores = asked.cores == default_cores(engine, snapshot) and snapshot.host.has_as_fastest(asked.cluster)
    return plain and asked.batch == 1 and cores


def _reason(error: Exception) -> str:
    """The first reason of several, without what stands before it."""
    lines = [line.strip().removeprefix("- ") for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith("nothing was run, because")]
    return (reasons or lines or ["it cannot be planned"])[0]
