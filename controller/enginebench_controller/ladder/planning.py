"""From a wish to a plan with rungs, each tried against what the target offers; one that cannot be has its reason."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginebench_controller.errors import EnginebenchError, InputError, PlanError
from enginebench_controller.home import Home
from enginebench_controller.ladder.networks import Networks
from enginebench_controller.ladder.steps import Kind, Place, Step, steps
from enginebench_controller.model.shapes import parse_shapes
from enginebench_controller.planning.binder import Binder
from enginebench_controller.planning.expand import Job, expand
from enginebench_controller.planning.plan import Plan, Rung, make_plan
from enginebench_controller.planning.selection import select_engines
from enginebench_controller.records import Load, ModelVersion, TargetSnapshot

FEWEST_REQUESTS = 4
"""In flight, under an asynchronous load, on a target with few cores; a device of its own may want more than the CPU."""


@dataclass(frozen=True)
class Wish:
    """What a person asked for. `fields` are those of the plan that all rungs share; `images` the fewest a rung infers.

    `cores` and `requests` None take all cores of the target, and twice as many requests as cores.
    """

    kind: Kind
    images: int
    batches: tuple[int, ...] = (4,)
    skipped: tuple[str, ...] = ()
    cores: int | None = None
    requests: int | None = None
    trusted: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)


def base_plan(wish: Wish, source: ModelVersion) -> Plan:
    """What the rungs have in common. Raises `InputError` for what no plan can have, or a rung that does not exist."""
    steps(wish.kind, wish.batches, wish.skipped)
    name = f"{wish.kind} ladder of {source.name}"
    plan = make_plan({"name": name, "models": [source.digest], "ladder": wish.kind, **wish.fields}, "ladder")
    plan.stop_rule()
    return plan


def plan_ladder(home: Home, snapshot: TargetSnapshot, binder: Binder, source: ModelVersion, wish: Wish) -> Plan:
    """The plan of a ladder on one target; converts the model where a rung needs it.

    Raises `InputError` with all reasons where not one rung can be run.
    """
    plan = base_plan(wish, source)
    networks = Networks(home.library, source, binder, parse_shapes(plan.shapes, plan.batch_axis), trusted=wish.trusted)
    planner = _Planner(plan, snapshot, binder, networks, wish)
    rungs = tuple(planner.rung(step) for step in steps(wish.kind, wish.batches, wish.skipped))
    reasons = [f"{rung.title}: {rung.unavailable}" for rung in rungs if rung.unavailable]
    if len(reasons) == len(rungs):
        raise InputError("no rung of the ladder can be run:\n" + "\n".join(f"  - {reason}" for reason in reasons))
    return plan.model_copy(update={"rungs": rungs})


class _Planner:
    """Goes up the ladder and remembers how many cores the rungs have by now."""

    def __init__(self, plan: Plan, snapshot: TargetSnapshot, binder: Binder, networks: Networks, wish: Wish) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._binder = binder
        self._networks = networks
        self._wish = wish
        self._cores = wish.cores

    def rung(self, step: Step) -> Rung:
        """The step with the fields to run it, or with the reason why it cannot be run."""
        try:
            return Rung(name=step.name, title=step.title, fields=self._fields(step))
        except EnginebenchError as error:
            return Rung(name=step.name, title=step.title, unavailable=_in_one_line(error))

    def _fields(self, step: Step) -> dict[str, Any]:
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
        cores = self._job(fields | {"cores": asked}).configuration.cores
        if step.all_cores:
            self._refuse_unless_more(cores)
        fields["cores"] = [cores]
        if step.load is Load.ASYNC:
            fields["requests"] = [self._wish.requests or max(FEWEST_REQUESTS, 2 * cores)]
        self._job(fields)
        self._cores = cores
        return fields

    def _job(self, fields: Mapping[str, Any]) -> Job:
        """The one configuration these fields stand for. Raises `PlanError` where it is impossible."""
        trial = make_plan(self._plan.document() | dict(fields), "ladder")
        (job,) = expand(trial, [self._snapshot], self._binder).jobs
        return job

    def _device(self, step: Step) -> str:
        """The device's name on this target. The expansion refuses one that is not there, with what there is."""
        if step.place is not Place.GPU:
            return str(step.place)
        engines, _ = select_engines([step.engine], self._snapshot.engines, self._snapshot.target)
        names = [device["name"] for engine in engines for device in engine["available"]["devices"]]
        return next((name for name in names if name.startswith(str(Place.GPU))), str(Place.GPU))

    def _refuse_unless_more(self, cores: int) -> None:
        if self._cores is None or self._cores >= cores:
            raise PlanError(f"all {cores} cores of the target are at work already; --cores starts with fewer")


def _options(step: Step) -> dict[str, str]:
    return {} if step.shared_memory is None else {f"{step.engine}.shared_memory": str(step.shared_memory).lower()}


def _in_one_line(error: EnginebenchError) -> str:
    """The sentence of an error without what stands before its list of reasons."""
    lines: Sequence[str] = str(error).splitlines()
    reasons = [line.strip().removeprefix("- ") for line in lines if line.startswith("  - ")]
    return "; ".join(reasons or [line.strip() for line in lines])
