"""The command that would tell what a benchmark cannot: only those that are not told apart, in more processes."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.planning.command import run_command
from enginebench_controller.planning.plan import PROCESSES, Plan, make_plan, parse_duration_ns
from enginebench_controller.records import Load, Measurement, ModelVersion

_KEPT = frozenset(Plan.model_fields) - {"name", "order_seed", "interleave", "max_duration", "ladder", "rungs"}


def again(
    document: Mapping[str, Any],
    members: Sequence[Measurement],
    processes: int | None,
    models: Collection[ModelVersion] = (),
) -> str | None:
    """The command for these members of a benchmark with this plan, each in so many processes.

    `models` tell of which versions copies for other batches are. None for a ladder, without a plan, and where it is of
    another version.
    """
    if not document or document.get("rungs"):
        return None
    original = {model.digest: model.original_digest for model in models}
    wanted = {original.get(one.model_digest, one.model_digest) for one in members}
    digests = document.get("digests")
    names = [name for name, digest in digests.items() if digest in wanted] if isinstance(digests, Mapping) else []
    try:
        plan = make_plan({key: value for key, value in document.items() if key in _KEPT}, "the plan")
        fields = plan.document() | _work(plan, members, names) | _timing(plan, processes)
        return run_command(make_plan({key: value for key, value in fields.items() if key in _KEPT}, "the plan"))
    except InputError:
        return None


def _work(plan: Plan, members: Sequence[Measurement], names: Sequence[str]) -> dict[str, Any]:
    """What these members have done, and nothing else of the plan."""
    asked = [one.configuration for one in members]
    engines = {
        one.engine.name if one.engine.environment in ("", "default") else f"{one.engine.name}@{one.engine.environment}"
        for one in members
    }
    overlaps = asked[0].load is not Load.SYNC
    owners = {one.engine.name for one in members}
    return {
        "models": names or list(plan.models),
        "engines": sorted(engines),
        "targets": [members[0].target] if plan.targets else [],
        "devices": [asked[0].device] if plan.devices else [],
        "batch": [asked[0].batch],
        "cores": [asked[0].cores],
        "load": [str(asked[0].load)],
        "rate": [asked[0].arrivals.rate_per_s] if asked[0].arrivals else [],
        "streams": _each(members, lambda one: one.configuration.streams),
        "precision": _each(members, lambda one: one.configuration.precision),
        "hint": _each(members, lambda one: str(one.configuration.hint)),
        "requests": _each(members, lambda one: one.configuration.requests) if overlaps and plan.requests else [],
        "options": {key: value for key, value in plan.options.items() if key.partition(".")[0] in owners},
    }


def _timing(plan: Plan, processes: int | None) -> dict[str, Any]:
    """As long a steady state in each process as before, and at least half a second."""
    before = plan.processes or PROCESSES[True]
    count = max(processes or PROCESSES[True], before)
    each_s = max(0.5, parse_duration_ns(plan.duration) / 1e9 / before)
    return {"processes": count, "duration": f"{math.ceil(count * each_s)}s", "interval": None}


def _each(members: Iterable[Measurement], value_of: Callable[[Measurement], Any]) -> list[Any]:
    return sorted({value_of(one) for one in members})
