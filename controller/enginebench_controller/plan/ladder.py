"""The two ladders after OpenVINO's notebooks: their rungs, and a plan of those that a target has."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from enginebench_controller.errors import EnginebenchError, InputError, ModelError, PlanError
from enginebench_controller.models.derive.convert import convert_to_ir, refuse_untrusted
from enginebench_controller.models.formats.description import ModelDescription
from enginebench_controller.models.inputs.binding import bind
from enginebench_controller.models.inputs.shapes import NO_BATCH, GivenShape, parse_shapes
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.configurations import cores_in, select_engines
from enginebench_controller.plan.expand import Case, expand
from enginebench_controller.plan.plan import LadderKind, Plan, Rung, make_plan
from enginebench_controller.records import Hint, InputTensor, Load, ModelVersion, TargetSnapshot
from enginebench_proto.agreed.words import DEFAULT_DEVICE, ModelFormat


class NetworkForm(StrEnum):
    """In which form a rung takes the model."""

    GIVEN = "given"
    ONNX = "onnx"
    IR = "ir"


class RungDevice(StrEnum):
    """Where a rung runs; which device that is, is known once a target has been asked."""

    CPU = DEFAULT_DEVICE
    GPU = "GPU"
    AUTO = "AUTO"


@dataclass(frozen=True)
class RungStep:
    """A rung as it is defined, before anybody knows whether a target has it.

    `all_cores` asks for every core of the target where lower rungs have fewer. `shared_memory` None leaves it to the
    engine.
    """

    name: str
    title: str
    engine: str = "openvino"
    network: NetworkForm = NetworkForm.IR
    place: RungDevice = RungDevice.CPU
    batch: int = 1
    load: Load = Load.SYNC
    hint: Hint = Hint.NONE
    all_cores: bool = False
    shared_memory: bool | None = None


def steps(kind: LadderKind, batches: Sequence[int], skipped: Sequence[str]) -> tuple[RungStep, ...]:
    """The rungs of a ladder from the lowest up, without the `skipped`; a rung for each of `batches`.

    Raises `InputError` for a name that is no rung's.
    """
    all_steps = _throughput(batches) if kind is LadderKind.THROUGHPUT else _LATENCY
    names = [step.name for step in all_steps]
    for name in skipped:
        if name not in names and name != _BATCH:
            raise InputError(f"the {kind} ladder has no rung {name!r} to skip; it has {', '.join(names)}")
    left_out = {*skipped, *(name for name in names if _BATCH in skipped and name.startswith(f"{_BATCH}-"))}
    return tuple(step for step in all_steps if step.name not in left_out)


_BATCH = "batch"
"""Stands for all rungs with a bigger batch."""


def _throughput(batches: Sequence[int]) -> tuple[RungStep, ...]:
    in_flight, hint = Load.ASYNC, Hint.THROUGHPUT
    return (
        RungStep("pytorch", "PyTorch", "torch", NetworkForm.GIVEN),
        RungStep("openvino", "OpenVINO, FP16 weights"),
        *(RungStep(f"{_BATCH}-{size}", f"+ batch {size}", batch=size) for size in dict.fromkeys(batches)),
        RungStep("async", "asynchronous, batch 1", load=in_flight),
        RungStep("throughput", "THROUGHPUT hint", load=in_flight, hint=hint),
        RungStep("gpu", "THROUGHPUT on GPU", place=RungDevice.GPU, load=in_flight, hint=hint),
        RungStep("auto", "THROUGHPUT on AUTO", place=RungDevice.AUTO, load=in_flight, hint=hint),
        RungStep(
            "cumulative", "CUMULATIVE on AUTO", place=RungDevice.AUTO, load=in_flight, hint=Hint.CUMULATIVE_THROUGHPUT
        ),
    )


_LATENCY = (
    RungStep("pytorch", "PyTorch", "torch", NetworkForm.GIVEN),
    RungStep("onnx", "OpenVINO, ONNX file", network=NetworkForm.ONNX, shared_memory=False),
    RungStep("openvino", "OpenVINO IR, FP16 weights", shared_memory=False),
    RungStep("gpu", "OpenVINO IR on GPU", place=RungDevice.GPU, shared_memory=False),
    RungStep("threads", "+ more threads", all_cores=True, shared_memory=False),
    RungStep("hint", "LATENCY hint", hint=Hint.LATENCY, shared_memory=False),
    RungStep("shared-memory", "+ shared memory", hint=Hint.LATENCY, shared_memory=True),
)


class Networks:
    """Finds or makes the exact version a rung runs, fit for its batch.

    `trusted` allows loading a saved program, which can run code of its own.
    """

    def __init__(
        self,
        library: ModelLibrary,
        source: ModelVersion,
        binder: Binder,
        shapes: Mapping[str, GivenShape],
        *,
        trusted: bool,
    ) -> None:
        self._library = library
        self._source = source
        self._binder = binder
        self._shapes = shapes
        self._trusted = trusted

    def version(self, network: NetworkForm, batch: int) -> ModelVersion:
        """The version to run. Raises `ModelError` with the reason where the model has no such form."""
        refuse_untrusted(self._source, trusted=self._trusted)
        kind = self._source.format
        if network is NetworkForm.ONNX and kind != ModelFormat.ONNX:
            raise ModelError(f"{self._source.name} is {kind}, and there is no ONNX file of it")
        fit = self._binder(self._source.digest, batch).version
        if network is not NetworkForm.IR or kind == ModelFormat.OPENVINO_IR:
            return fit
        return convert_to_ir(self._library, fit, self._shapes, trusted=self._trusted)


FEWEST_REQUESTS = 4
"""In flight, under an asynchronous load, on a target with few cores; a device of its own may want more than the CPU."""


@dataclass(frozen=True)
class LadderOrder:
    """What a person asked for. `fields` are those of the plan that all rungs share; `images` the fewest a rung infers.

    `cores` and `requests` None take all cores of the target, and twice as many requests as cores.
    """

    kind: LadderKind
    images: int
    batches: tuple[int, ...] = (4,)
    skipped: tuple[str, ...] = ()
    cores: int | None = None
    requests: int | None = None
    trusted: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)


def base_plan(wish: LadderOrder, source: ModelVersion) -> Plan:
    """What the rungs have in common. Raises `InputError` for what no plan can have, or a rung that does not exist."""
    steps(wish.kind, wish.batches, wish.skipped)
    name = f"{wish.kind} ladder of {source.name}"
    plan = make_plan({"name": name, "models": [source.digest], "ladder": wish.kind, **wish.fields}, "ladder")
    if len(plan.targets) > 1:
        raise InputError("a ladder is of one target: give one --target")
    plan.stop_rule()
    return plan


def with_sizes(library: ModelLibrary, source: ModelVersion, wish: LadderOrder) -> tuple[LadderOrder, tuple[str, ...]]:
    """The same with a size for each open dimension of an ONNX model, as every rung is to have them, and what is to be
    told of them: a conversion loses the names that they are taken from.
    """
    if source.format != ModelFormat.ONNX:
        return wish, ()
    plan = base_plan(wish, source)
    own = library.describe(source)
    try:
        bound = bind(own, 1, parse_shapes(plan.shapes, plan.batch_axis))
    except ModelError:  # which each rung tells of itself
        return wish, ()
    open_ones = [one for one in bound.inputs if _is_open(own, one)]
    shapes = {one.name: "x".join(map(str, one.shape)) for one in open_ones}
    axes = {one.name: NO_BATCH if one.items is None else one.batch_axis for one in open_ones}
    said = {"shapes": {**shapes, **plan.shapes}, "batch_axis": {**axes, **plan.batch_axis}}
    return (replace(wish, fields={**wish.fields, **said}) if open_ones else wish), bound.assumptions


def _is_open(model: ModelDescription, bound: InputTensor) -> bool:
    """Whether a dimension of this input is open that is not the batch."""
    dims = next((one.dims or () for one in model.inputs if one.name == bound.name), ())
    return any(not isinstance(dim, int) for axis, dim in enumerate(dims) if axis != bound.batch_axis)


def plan_ladder(
    library: ModelLibrary, snapshot: TargetSnapshot, binder: Binder, source: ModelVersion, wish: LadderOrder
) -> Plan:
    """The plan of a ladder on one target; converts the model where a rung needs it.

    Raises `InputError` with all reasons where not one rung can be run.
    """
    plan = base_plan(wish, source)
    networks = Networks(library, source, binder, parse_shapes(plan.shapes, plan.batch_axis), trusted=wish.trusted)
    planner = _Planner(plan, snapshot, binder, networks, wish)
    rungs = tuple(planner.rung(step) for step in steps(wish.kind, wish.batches, wish.skipped))
    reasons = [f"{rung.title}: {rung.unavailable}" for rung in rungs if rung.unavailable]
    if len(reasons) == len(rungs):
        raise InputError("no rung of the ladder can be run:\n" + "\n".join(f"  - {reason}" for reason in reasons))
    return plan.model_copy(update={"rungs": rungs})


class _Planner:
    """Goes up the ladder and remembers how many cores the rungs have by now."""

    def __init__(
        self, plan: Plan, snapshot: TargetSnapshot, binder: Binder, networks: Networks, wish: LadderOrder
    ) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._binder = binder
        self._networks = networks
        self._wish = wish
        self._cores: int | str | None = wish.cores

    def rung(self, step: RungStep) -> Rung:
        """The step with the fields to run it, or with the reason why it cannot be run."""
        try:
            return Rung(name=step.name, title=step.title, fields=self._fields(step))
        except EnginebenchError as error:
            return Rung(name=step.name, title=step.title, unavailable=_in_one_line(error))

    def _fields(self, step: RungStep) -> dict[str, Any]:
        """Raises `EnginebenchError` where the step cannot be run."""
        device = self._device(step)
        fields: dict[str, Any] = {
            "models": [self._networks.version(step.network, step.batch).digest],
            "engines": [step.engine],
            "devices": [device],
            "batch": [step.batch],
            "load": [str(step.load)],
            "hint": [str(step.hint)],
            "iterations": math.ceil(self._wish.images / step.batch),
            "options": dict(self._plan.options) | _options(step),
        }
        asked = [] if step.all_cores or self._cores is None else [self._cores]
        meant = self._job(fields | {"cores": asked}).configuration
        if step.all_cores:
            self._refuse_unless_more(meant.cores)
        fields["cores"] = [meant.place]
        if step.load is Load.ASYNC:
            fields["requests"] = [self._wish.requests or max(FEWEST_REQUESTS, 2 * meant.cores)]
        self._job(fields)
        self._cores = meant.place
        return fields

    def _job(self, fields: Mapping[str, Any]) -> Case:
        """The one configuration these fields stand for. Raises `PlanError` where it is impossible."""
        trial = make_plan(self._plan.document() | dict(fields), "ladder")
        (case,) = expand(trial, [self._snapshot], self._binder).cases
        return case

    def _device(self, step: RungStep) -> str:
        """The device's name on this target. The expansion refuses one that is not there, with what there is."""
        if step.place is not RungDevice.GPU:
            return str(step.place)
        engines, _ = select_engines([step.engine], self._snapshot.engines, self._snapshot.target)
        names = [device.name for engine in engines for device in engine.devices]
        return next((name for name in names if name.startswith(str(RungDevice.GPU))), str(RungDevice.GPU))

    def _refuse_unless_more(self, cores: int) -> None:
        if self._cores is None or (cores_in(self._cores) or cores) >= cores:
            raise PlanError(f"all {cores} cores of the target are at work already; --cores starts with fewer")


def _options(step: RungStep) -> dict[str, str]:
    return {} if step.shared_memory is None else {f"{step.engine}.shared_memory": str(step.shared_memory).lower()}


def _in_one_line(error: EnginebenchError) -> str:
    """The sentence of an error without what stands before its list of reasons."""
    lines: Sequence[str] = str(error).splitlines()
    reasons = [line.strip().removeprefix("- ") for line in lines if line.startswith("  - ")]
    return "; ".join(reasons or [line.strip() for line in lines])
