"""The command that would tell what an answer cannot: the plan of its benchmark, for those that are in doubt."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.plan.configurations import names_in, options_of, said_of
from enginebench_controller.plan.plan import PROCESSES, Plan, make_plan, parse_duration_ns, run_command
from enginebench_controller.records import ArrivalProcess, Load, Measurement, ModelVersion
from enginebench_controller.records.target import in_environment

_KEPT = frozenset(Plan.model_fields) - {"name", "order_seed", "interleave", "max_duration", "ladder", "rungs"}

_AXES: Mapping[str, Callable[[Measurement], Any]] = {
    "models": lambda one: one.model_digest,
    "streams": lambda one: one.configuration.streams,
    "precision": lambda one: one.configuration.precision,
    "hint": lambda one: str(one.configuration.hint),
    "requests": lambda one: one.configuration.requests,
}
"""By field of a plan, what members of one answer differ in, beside their engines and the options of these."""


@dataclass(frozen=True)
class TellingCommand:
    """A command as it is typed, and what of its answer it measures again, in doubt or not: lists multiply out."""

    text: str
    measured: tuple[Measurement, ...]


def command_that_would_tell(
    document: Mapping[str, Any],
    members: Sequence[Measurement],
    fellows: Sequence[Measurement],
    processes: int | None,
    models: Collection[ModelVersion] = (),
) -> TellingCommand | None:
    """The command for these members of a benchmark with this plan, each in so many processes.

    `fellows` are all of their answer, which tell what each engine can do. `models` tell of which versions copies for
    other batches are. None for a ladder, without a plan, and where it is of another version.
    """
    if not document or document.get("rungs"):
        return None
    original = {model.digest: model.original_digest for model in models}
    wanted = {original.get(one.model_digest, one.model_digest) for one in members}
    digests = document.get("digests")
    names = [name for name, digest in digests.items() if digest in wanted] if isinstance(digests, Mapping) else []
    try:
        plan = make_plan({key: value for key, value in document.items() if key in _KEPT}, "the plan")
        fields = plan.document() | _work(plan, members, fellows, names) | _timing(plan, processes)
        text = run_command(make_plan({key: value for key, value in fields.items() if key in _KEPT}, "the plan"))
    except InputError:
        return None
    return TellingCommand(text, tuple(_measured(fields["engines"], members, fellows)))


def _work(
    plan: Plan, members: Sequence[Measurement], fellows: Sequence[Measurement], names: Sequence[str]
) -> dict[str, Any]:
    """What these members have done, and nothing else of the plan."""
    asked = members[0].configuration
    engines = _engines(plan, members, fellows)
    owners = names_in(engines)
    inputs = [tensor for one in members for tensor in one.configuration.inputs]
    return {
        "models": names or list(plan.models),
        "engines": engines,
        "targets": list(dict.fromkeys(one.target for one in members)) if plan.targets else [],
        "devices": [asked.device] if plan.devices else [],
        "batch": [asked.batch],
        "cores": [asked.place],
        "load": [str(asked.load)],
        "rate": [asked.arrivals.rate_per_s] if asked.arrivals else [],
        "arrivals": str(asked.arrivals.process if asked.arrivals else ArrivalProcess.POISSON),
        **{axis: _each(members, _AXES[axis]) for axis in ("streams", "precision", "hint")},
        "requests": _each(members, _AXES["requests"]) if asked.load is not Load.SYNC and plan.requests else [],
        "options": options_of(owners, plan.options) if owners else plan.options,
        **said_of(inputs, plan.document()),
    }


def _engines(plan: Plan, members: Sequence[Measurement], fellows: Sequence[Measurement]) -> list[str]:
    """The engines of these members by name; "all" again, where one of them has not done all that others have.

    Lists multiply out, and what an engine cannot do is refused where it is named, but left out where all are meant.
    """
    named = sorted({_typed(one) for one in members})
    done = [[one for one in fellows if _typed(one) == name] for name in named]
    able = all(set(_each(own, axis)) >= set(_each(members, axis)) for own in done for axis in _AXES.values())
    return named if able or plan.engines != ("all",) else ["all"]


def _measured(
    engines: Sequence[str], members: Sequence[Measurement], fellows: Sequence[Measurement]
) -> Iterator[Measurement]:
    """Those of the fellows that these engines measure along the axes of the members."""
    axes = [(value_of, _each(members, value_of)) for value_of in _AXES.values()]
    for one in fellows:
        if (engines == ["all"] or _typed(one) in engines) and all(value_of(one) in known for value_of, known in axes):
            yield one


def _typed(one: Measurement) -> str:
    return in_environment(one.engine.name, one.engine.environment)


def _timing(plan: Plan, processes: int | None) -> dict[str, Any]:
    """As long a steady state in each process as before, and at least half a second; and in quiet, however it was."""
    before = plan.processes or PROCESSES[True]
    count = max(processes or PROCESSES[True], before)
    each_s = max(0.5, parse_duration_ns(plan.duration) / 1e9 / before)
    quiet = {name: Plan.model_fields[name].default for name in ("wait_quiet", "retry_noisy")}
    return {"processes": count, "duration": f"{math.ceil(count * each_s)}s", "interval": None} | quiet


def _each(members: Iterable[Measurement], value_of: Callable[[Measurement], Any]) -> list[Any]:
    return sorted({value_of(one) for one in members})
