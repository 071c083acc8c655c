"""The gates of a bisect led back from the store, and the answer as it is kept: all that is printed of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite

from pydantic import BaseModel, ConfigDict, ValidationError

from enginebench_controller.home import Home
from enginebench_controller.plan.bisect import BisectKind, BisectOrder
from enginebench_controller.plan.plan import BASE, HEAD, GateMetric
from enginebench_controller.records import Benchmark, MachineUse, Search
from enginebench_controller.stats.paired import RatioInterval
from enginebench_controller.typed_values import unknown_word
from enginebench_controller.verdicts.bisect.decision import (
    BisectFinding,
    Decided,
    GatePurpose,
    GateSeen,
    Question,
    decide,
)
from enginebench_controller.verdicts.disturbances import WORTH_A_WORD, meanwhile, others_used, remedy
from enginebench_controller.verdicts.gate.results import GateResult, LayerShare
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.stored import gate_of
from enginebench_controller.verdicts.gate.words import budget_that_tells
from enginebench_controller.verdicts.host_words import memory_of


@dataclass(frozen=True)
class Asked:
    """One gate of a bisect: what it was to tell, what it said, and its result; none of what could not be installed."""

    question: Question
    look: GateSeen
    result: GateResult | None = None


@dataclass(frozen=True)
class Replay:
    """How far a bisect has come: the gates so far, and what follows from them.

    `broken` are the environments in which a version did not run that may do so in another one, each with the reason:
    those gates count for nothing.
    """

    asked: tuple[Asked, ...]
    following: Question | Decided
    broken: Mapping[str, str]


def replay(home: Home, search: Search, order: BisectOrder, known: dict[str, GateResult | None]) -> Replay:
    """Go through the steps that are stored. `known` keeps results by benchmark, for the next time."""
    stored: dict[int, GateResult] = {}
    broken: dict[str, str] = {}
    curable = _curable(search, order)
    for step in home.store.steps_of(search.id):
        if step.id not in known or known[step.id] is None:
            known[step.id] = gate_of(home, step)
        if (found := known[step.id]) is None:
            continue
        failures = [(one.engine.environment, one.failure) for one in found.measurements.values() if one.failure]
        if any(failure.kind.tells_nothing for _, failure in failures):
            continue
        failed = {environment: failure.message for environment, failure in failures}
        broken |= {name: message for name, message in failed.items() if name in curable}
        if not broken.keys() & failed.keys():
            stored[step.plan["search"]["step"]] = found
    asked: list[Asked] = []
    while True:
        following = decide(len(order.candidates), order.worse_share, [one.look for one in asked])
        if isinstance(following, Decided):
            return Replay(tuple(asked), following, broken)
        head, base = (search.skipped.get(order.candidates[one], "") for one in (following.head, following.base))
        if (result := stored.get(len(asked))) is not None:
            asked.append(Asked(following, look_of(result), result))
        elif head or base:
            asked.append(Asked(following, GateSeen(GateOutcome.CANNOT_TELL, reason=head, base_reason=base)))
        else:
            return Replay(tuple(asked), following, broken)


def look_of(result: GateResult) -> GateSeen:
    """What a gate says for a bisect."""
    failed = {role: one.failure.message for role, one in result.measurements.items() if one.failure is not None}
    base = next((message for role, message in failed.items() if role != HEAD), "")
    if failed:
        return GateSeen(GateOutcome.CANNOT_TELL, reason=failed.get(HEAD, ""), base_reason=base)
    judged = result.judged  # other outputs, which are no pass of a gate, do not say which version is slower
    return GateSeen(judged.outcome, judged.is_better, judged.decisive.ratio)


def _curable(search: Search, order: BisectOrder) -> frozenset[str]:
    """The environments of versions that may run in another one."""
    names = (tuple(order.environments(search.id, place)) for place in range(len(order.candidates)))
    return frozenset(name for each in names for name in each[:-1])


class Ratio(BaseModel):
    """A ratio of the metric with its 95 % interval; an end that is no number is null."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    ratio: float
    low: float | None
    high: float | None


class BisectGate(BaseModel):
    """A gate on the way. `outcome` is null where head came to nothing, for a `reason`, or base, for a `base_reason`.

    `difference` is D, as a share: what passes is less than so much worse. `base_figure` and `head_figure` are medians
    over processes, in ns, of memory in bytes; `would_tell` is the budget with which what is in doubt could be told.
    These are null where they are not known, as in older answers.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    purpose: GatePurpose
    base: str
    head: str
    outcome: GateOutcome | None
    better: bool
    ratio: Ratio | None
    benchmark: str | None
    patience: int
    reason: str = ""
    base_reason: str = ""
    difference: float | None = None
    base_figure: float | None = None
    head_figure: float | None = None
    would_tell: str | None = None


class BisectAnswer(BaseModel):
    """What a bisect ends with, and all that is told of it.

    `culprit` is null unless it was found worse than the candidate `before` it; one of `suspects` is the one. `step` is
    the culprit ÷ the one before, `whole` bad ÷ good, and `share` what the one explains of the other.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    finding: BisectFinding
    bisected: BisectKind
    subject: str
    model: str | None
    engine: str
    option: str | None
    metric: GateMetric
    worse: float
    budget: str
    candidates: tuple[str, ...]
    good: str
    bad: str
    culprit: str | None
    before: str | None
    suspects: tuple[str, ...]
    step: Ratio | None
    whole: Ratio | None
    share: float | None
    further_steps: bool
    reason: str
    gates: tuple[BisectGate, ...]
    skipped: Mapping[str, str]
    layers: tuple[LayerShare, ...]
    layers_note: str
    target: str | None
    machine: Mapping[str, str]
    measured: str
    command: str
    remarks: tuple[str, ...]


def stored_answer(search: Search) -> BisectAnswer | None:
    """The answer of a bisect; None while there is none. Raises `StoreError` for words of a newer enginebench."""
    try:
        return None if search.answer is None else BisectAnswer.model_validate(search.answer)
    except ValidationError as error:
        raise unknown_word(error, f"the answer of {search.id}") from error


def answer_of(home: Home, search: Search, order: BisectOrder, done: Replay) -> BisectAnswer:
    """What is told of a bisect that has its answer."""
    found = done.following
    assert isinstance(found, Decided)  # noqa: S101  # asked for by who calls
    names = order.labels
    results = [one.result for one in done.asked if one.result is not None]
    last = results[-1] if results else None
    explanation = last.explanation if last is not None and found.finding.names else None
    return BisectAnswer(
        finding=found.finding,
        bisected=order.kind,
        subject=order.package or order.engine,
        model=order.model,
        engine=order.engine,
        option=order.option,
        metric=order.metric,
        worse=order.worse_share,
        budget=order.budget,
        candidates=names,
        good=names[0],
        bad=names[-1],
        culprit=names[found.suspects[0]] if found.finding is BisectFinding.CULPRIT else None,
        before=None if found.before is None else names[found.before],
        suspects=tuple(names[one] for one in found.suspects),
        step=_ratio(found.step),
        whole=_ratio(found.whole),
        share=found.share,
        further_steps=found.has_further_steps and len(names) > 1 + len(found.suspects),
        reason=found.reason,
        gates=gates_of(order, done),
        skipped=_skipped(order, done.asked),
        layers=explanation.layers if explanation else (),
        layers_note=explanation.note if explanation else "",
        target=last.measurements[BASE].target if last else None,
        machine=_machine(home, last.benchmark) if last else {},
        measured=_measured(order, done.asked),
        command=order.command,
        remarks=_remarks(search, order, done.asked),
    )


def gates_of(order: BisectOrder, done: Replay) -> tuple[BisectGate, ...]:
    """The gates so far, as they are told; there need not be an answer."""
    return tuple(told_gate(order, one) for one in done.asked)


def told_gate(order: BisectOrder, asked: Asked) -> BisectGate:
    """A gate as it is told."""
    question, look = asked.question, asked.look
    one = asked.result.judged.decisive if asked.result else None
    return BisectGate(
        purpose=question.purpose,
        base=order.labels[question.base],
        head=order.labels[question.head],
        outcome=None if look.reason or look.base_reason else look.outcome,
        better=look.is_better,
        ratio=_ratio(look.ratio),
        benchmark=asked.result.benchmark.id if asked.result else None,
        patience=question.patience,
        reason=look.reason,
        base_reason=look.base_reason,
        difference=question.difference,
        base_figure=one.base if one else None,
        head_figure=one.head if one else None,
        would_tell=budget_that_tells(asked.result) if asked.result and look.is_doubtful else None,
    )


def _skipped(order: BisectOrder, asked: Sequence[Asked]) -> dict[str, str]:
    told = [one for one in asked if one.look.reason and one.question.purpose is GatePurpose.STEP]
    return {order.labels[one.question.head]: one.look.reason for one in told}


def _remarks(search: Search, order: BisectOrder, asked: Sequence[Asked]) -> tuple[str, ...]:
    """What is wrong with outputs, what ran with older packages than the others, and who else used the machine."""
    told = [
        f"{order.title(one.question.head)} against {order.title(one.question.base)}: {problem}"
        for one in asked
        for problem in (one.result.problems if one.result else ())
    ]
    ran_in = {one.engine.environment for each in asked if each.result for one in each.result.measurements.values()}
    for place in range(len(order.candidates)):
        others = list(order.environments(search.id, place).items())[1:]
        told += [f"{order.title(place)} ran with {' '.join(more)} only" for name, more in others if name in ran_in]
    return tuple(dict.fromkeys((*told, *_disturbed(asked))))


def _disturbed(asked: Sequence[Asked]) -> Iterator[str]:
    """Who else used the machine while the gates measured, where that is worth a word."""
    measured = [one for each in asked if each.result for one in each.result.measurements.values()]
    use = MachineUse.together(use for one in measured if (use := meanwhile(one)) is not None)
    if use is not None and use.share >= WORTH_A_WORD:
        yield f"meanwhile {others_used(use)}: {remedy(use)}"


def _ratio(found: RatioInterval | None) -> Ratio | None:
    if found is None:
        return None
    middle, low, high = found.ratios
    return Ratio(ratio=middle if isfinite(middle) else exp(700.0), low=low, high=high if isfinite(high) else None)


def _machine(home: Home, benchmark: Benchmark) -> dict[str, str]:
    """What a maintainer asks first: processor, cores, memory, system, Python, and our version."""
    snapshots = home.store.benchmark_snapshots(benchmark.id)
    if not snapshots:
        return {}
    host = snapshots[0].host
    cores = f"{host.physical_cores} cores" if host.physical_cores else ""
    told = {
        "processor": ", ".join(filter(None, (host.cpu_model, cores))),
        "instruction sets": " ".join(host.isa),
        "memory": memory_of(host),
        "system": " ".join(filter(None, (host.os, host.kernel, host.architecture))),
        "Python": host.python_version,
        "enginebench": host.agent_version,
    }
    return {name: value for name, value in told.items() if value}


def _measured(order: BisectOrder, asked: Sequence[Asked]) -> str:
    """Models, as they were given, and versions of the engine on both sides of the last gate, and what they have in
    common.
    """
    last = next((one for one in reversed(asked) if one.result is not None), None)
    if last is None or last.result is None:
        return ""
    base, head = last.result.measurements[BASE], last.result.measurements[HEAD]
    places = (last.question.base, last.question.head)
    models = [order.labels[place] for place in places] if order.model is None else [order.model.rpartition("/")[2]]
    asked_of = base.configuration
    engine = " ".join(filter(None, (base.engine.name, _both(base.engine.version, head.engine.version))))
    told = (_both(*models), engine, asked_of.device, asked_of.size, str(asked_of.precision), asked_of.load_in_words)
    return ", ".join(told)


def _both(*told: str | None) -> str:
    return " and ".join(dict.fromkeys(filter(None, told)))
