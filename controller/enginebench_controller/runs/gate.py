"""A gate from order to result: sides, environments, a promise, process pairs until the verdict stands, and why."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from enginebench_controller.errors import EnginebenchError, InputError, PlanError
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.expand import Case, Expansion, expand
from enginebench_controller.plan.gate import GateSide, chosen_engine, install, needed, parse_sides, rung_fields
from enginebench_controller.plan.plan import (
    GateMetric,
    GateTerms,
    Plan,
    Rung,
    make_plan,
    parse_duration_ns,
    parse_percent,
)
from enginebench_controller.records import Benchmark, Failure, Measurement, Profile, Status, TargetSnapshot
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_in_session
from enginebench_controller.runs.execution import Enough, SoFar
from enginebench_controller.runs.profiling import ProfileOrder, profiles_in_session
from enginebench_controller.runs.remote_run import Reporter
from enginebench_controller.stats.paired import FEWEST_PAIRS
from enginebench_controller.targets.session import TargetSession, completed, open_session
from enginebench_controller.verdicts.gate_results import (
    BASE,
    CONTROL,
    HEAD,
    LONGEST_BUDGET_NS,
    ROLES,
    Arm,
    GateExplanation,
    GateResult,
    Judged,
    LayerShare,
    judge,
    stands,
)
from enginebench_controller.verdicts.gate_rule import GateOutcome, promised_difference
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_controller.verdicts.layers.rows import LayerRow
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.output_difference import Batch, Tolerated, difference
from enginebench_controller.verdicts.stored_gates import History, history, stored_arms, terms_of

PROCESS_MS, WARMUP_MS, BLOCK_MS = 600, 200, 50
"""Of each process: many short ones, since it is from process to process that luck is drawn anew."""
ITERATIONS = 6
MOST_PAIRS = 1000
MOST_PROMISED = 0.1
"""Who can tell no less than this lets nothing pass: a difference of 30 % that passes would be no gate."""
GRACE_SHARE, GRACE_S = 0.1, 15.0
"""A round that has begun may go on for so much of the budget, and so long, after its end: engines start slowly."""
LAYERS_TIMEOUT = "60s"
LAYERS_TOLD = 3


@dataclass(frozen=True)
class GateOrder:
    """What a person asks for. Without `model` the sides are models; `fields` are the plan's own, such as batch.

    `explain` profiles both sides where they differ. A local agent may run the models of a `trusted` order although
    their format can execute code.
    """

    base: str
    head: str
    model: str | None = None
    engine: str | None = None
    budget: str = "2m"
    tolerate: str = "1%"
    metrics: tuple[str, ...] = (GateMetric.LATENCY,)
    fields: Mapping[str, Any] = field(default_factory=dict)
    explain: bool = True
    trusted: bool = False


class GateWatcher(Reporter, Protocol):
    """Who wants to know how a gate is coming along."""

    def said(self, sentence: str) -> None:
        """Something to know before the measuring."""

    def begun(self, benchmark_id: str, terms: GateTerms) -> None:
        """The budget runs from now on."""

    def looked(self, judged: Judged, seconds_left: float) -> None:
        """A process pair is there."""


class Unwatched:
    """Nobody wants to know."""

    def said(self, sentence: str) -> None:
        """See `GateWatcher`."""

    def begun(self, benchmark_id: str, terms: GateTerms) -> None:
        """See `GateWatcher`."""

    def looked(self, judged: Judged, seconds_left: float) -> None:
        """See `GateWatcher`."""

    def uploading(self, job: Case, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""

    def running(self, job: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""

    def finished(self, job: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""


def gate(home: Home, order: GateOrder, watcher: GateWatcher | None = None) -> GateResult:
    """Carry a gate out and store it as a benchmark. See `carry_out`; for callers without a loop of their own."""
    return asyncio.run(carry_out(home, order, watcher or Unwatched()))


async def carry_out(home: Home, order: GateOrder, watcher: GateWatcher) -> GateResult:
    """Say what can be told, measure process pairs until the verdict stands or the budget ends, and explain it.

    Raises `InputError` or `PlanError` before anything is measured, `UnreachableError` when the target does not answer.
    """
    sides = parse_sides(order.model, order.base, order.head, order.engine)
    plan = _common_plan(order, sides)
    binder = Binder(home, plan)
    await in_thread(binder.resolve, list(dict.fromkeys(plan.models)))
    trusted = tuple(binder.digests.values()) if order.trusted else ()
    async with open_session(home, plan.targets, trusted_models=trusted) as opened:
        session = await _with_environments(home, sides, opened, watcher)
        plan = await in_thread(_with_rungs, plan, sides, session.snapshots[0], binder)
        wanted = BenchmarkOrder(plan, trusted=order.trusted)
        return await _measure(home, wanted, session, binder, watcher, explain=order.explain)


async def again(home: Home, order: BenchmarkOrder, watcher: GateWatcher) -> GateResult:
    """Carry out the plan of a gate once more, linked to the one that it repeats; what it promised is promised anew."""
    binder = Binder(home, order.plan, order.digests)
    models = [name for grid in order.plan.grids() for name in grid.models]
    await in_thread(binder.resolve, list(dict.fromkeys(models)))
    trusted = tuple(binder.digests.values()) if order.trusted else ()
    async with open_session(home, order.plan.targets, trusted_models=trusted) as session:
        return await _measure(home, order, session, binder, watcher, explain=True)


def gate_of(home: Home, benchmark: Benchmark) -> GateResult | None:
    """The result of a stored gate; None for another benchmark, or one with nothing measured yet."""
    if (terms := terms_of(benchmark)) is None:
        return None
    stored = stored_arms(home, benchmark)
    if set(stored) != set(ROLES):
        return None
    measurements = {role: one for role, (one, _) in stored.items()}
    failures = _failures(measurements)
    result = GateResult(
        benchmark=benchmark,
        terms=terms,
        judged=judge(terms, {role: arm for role, (_, arm) in stored.items()}),
        measurements=measurements,
        is_self_test=_is_self_test(measurements),
        failures=failures,
    )
    problems, remarks = _outputs(home, measurements)
    result = replace(result, problems=problems, remarks=remarks)
    return replace(result, explanation=_explained(home, result))


def _failures(measurements: Mapping[str, Measurement]) -> tuple[str, ...]:
    """Why there are no numbers, a sentence for each member; once where it is the same for all."""
    told = {role: one.failure.message for role, one in measurements.items() if one.failure is not None}
    if len(told) == len(ROLES) and len(set(told.values())) == 1:
        return tuple(set(told.values()))
    return tuple(f"{role}: {message}" for role, message in told.items())


def enough_of(home: Home, benchmark_id: str) -> Enough | None:
    """What ends the rounds of a gate that is resumed; None for another benchmark."""
    try:
        benchmark = home.store.benchmark(benchmark_id)
    except EnginebenchError:  # a profile, or removed
        return None
    terms = terms_of(benchmark)
    return None if terms is None else _Pairs(terms, benchmark.plan["members"], Unwatched())


def _common_plan(order: GateOrder, sides: tuple[GateSide, GateSide]) -> Plan:
    """The plan without what tells the sides apart. Raises `InputError`."""
    terms = {
        "budget": order.budget,
        "tolerate": order.tolerate,
        "metrics": list(dict.fromkeys(order.metrics)),
        "base": _called(sides[0], order),
        "head": _called(sides[1], order),
    }
    checked = checked_terms(terms)
    name = f"gate of {checked.head} against {checked.base}"
    fields = {
        "name": name,
        "models": [order.model] if order.model else [side.model for side in sides],
        "interleave": "device",
        "interval": "0%",
        # Who shares the machine's mood needs no quiet: what it takes to wait for that is worth more pairs.
        "wait_quiet": "0s",
        "retry_noisy": False,
        "warmup": f"{WARMUP_MS}ms",
        "block": f"{BLOCK_MS}ms",
        "gate": checked.model_dump(mode="json"),
        **order.fields,
        **_length(checked),
    }
    plan = make_plan(fields, "gate")
    axes = {"batch": plan.batch, "cores": plan.cores, "device": plan.devices, "precision": plan.precision}
    several = [name for name, values in axes.items() if len(values) > 1 or "all" in values]
    if several:
        raise InputError(f"a gate is of one configuration: give --{several[0]} one value")
    if len(plan.targets) > 1:
        raise InputError("a gate is of one target: give one --target")
    return plan


def checked_terms(fields: Mapping[str, Any]) -> GateTerms:
    """The terms of a gate. Raises `InputError` for what no gate can have."""
    plan = make_plan({"models": ["any"], "gate": dict(fields)}, "gate")
    assert plan.gate is not None  # noqa: S101  # given above
    budget_ns = parse_duration_ns(plan.gate.budget)
    if budget_ns > LONGEST_BUDGET_NS:
        raise InputError(f"--budget {plan.gate.budget} is longer than an hour, the longest that a gate takes")
    shortest_s = len(ROLES) * (PROCESS_MS + WARMUP_MS) / 1000
    if budget_ns < shortest_s * 1e9:
        raise InputError(
            f"--budget {plan.gate.budget} is too short for one process pair, which takes {shortest_s:g} s and what the "
            f"engine needs to start; {FEWEST_PAIRS} of them tell something: give 30s or more"
        )
    return plan.gate


def _length(terms: GateTerms) -> dict[str, Any]:
    """So many processes at most, and how long they take together."""
    shortest_ns = len(ROLES) * (PROCESS_MS + WARMUP_MS) * 1_000_000
    most = min(MOST_PAIRS, max(FEWEST_PAIRS, parse_duration_ns(terms.budget) // shortest_ns))
    return {"processes": most, "duration": f"{most * PROCESS_MS}ms", "iterations": most * ITERATIONS}


def _called(side: GateSide, order: GateOrder) -> str:
    text = side.text
    if side.model is None and side.plugin is None and order.engine and not text.startswith(side.engine or ""):
        text = f"{side.engine}{text}"
    return text


async def _with_environments(
    home: Home, sides: tuple[GateSide, GateSide], session: TargetSession, watcher: GateWatcher
) -> TargetSession:
    """The session with all environments that the sides need, made where they are not there."""
    (snapshot,) = session.snapshots
    wanted = {one.name: one for side in sides if (one := needed(side, snapshot)) is not None}
    for one in wanted.values():
        await install(home, one, [snapshot.target], watcher.said)
    if wanted:
        snapshot = await completed(home, session, snapshot, refresh=True)
    return TargetSession(session.clients, (snapshot,))


def _with_rungs(plan: Plan, sides: tuple[GateSide, GateSide], snapshot: TargetSnapshot, binder: Binder) -> Plan:
    """The plan with base, head and control as rungs."""
    engines = [chosen_engine(side, snapshot) for side in sides]
    if engines == [None, None]:
        engines = [_common_engine(plan, snapshot, binder)] * 2
    rungs = []
    for role, side, engine in (
        (BASE, sides[0], engines[0]),
        (HEAD, sides[1], engines[1]),
        (CONTROL, sides[0], engines[0]),
    ):
        fields = rung_fields(side, engine)
        fields["options"] = dict(plan.options) | fields.get("options", {})
        fields.setdefault("models", list(plan.models[:1]))
        rungs.append(Rung(name=role, title=role, fields=fields))
    names = list(dict.fromkeys(engine for engine in engines if engine))
    return plan.model_copy(update={"rungs": tuple(rungs), "engines": tuple(names)})


def _common_engine(plan: Plan, snapshot: TargetSnapshot, binder: Binder) -> str:
    """The one engine that reads both models, where nobody named any. Raises `InputError`."""
    formats = {version.format for version in binder.versions}
    usable = [one for one in snapshot.engines if one["available"] and not one["hidden"]]
    able: list[str] = sorted({one["name"] for one in usable if formats <= set(one["available"]["formats"])})
    if len(able) == 1:
        return able[0]
    if able:
        raise InputError(f"{', '.join(able)} read both models: name one with --engine")
    told = " and ".join(sorted(formats))
    raise InputError(f"no engine on target {snapshot.target!r} reads both models ({told}): convert one of them")


def _check(expansion: Expansion) -> None:
    """Raise `InputError` where the sides are not one configuration each, or do not take the same inputs."""
    if len(expansion.jobs) != len(ROLES):
        raise InputError("\n".join(["a side comes to nothing", *expansion.notes]))
    base, head, _ = expansion.jobs
    if base.resources != head.resources:
        raise InputError("base and head would use different devices, so they cannot take turns: give --device")
    if [(one.name, one.dtype, one.shape) for one in base.configuration.inputs] != [
        (one.name, one.dtype, one.shape) for one in head.configuration.inputs
    ]:
        told = [
            ", ".join(f"{one.name} {one.dtype} {'x'.join(map(str, one.shape))}" for one in job.configuration.inputs)
            for job in (base, head)
        ]
        raise InputError(
            f"the two models take other inputs, so they cannot be compared: {told[0]} in {base.model.name}, {told[1]} "
            f"in {head.model.name}; with open dimensions, --shape may make them alike"
        )


def _promising(plan: Plan, known: History | None) -> Plan:
    """The plan with what it promises to tell."""
    assert plan.gate is not None  # noqa: S101  # a gate's
    if known is None:
        return plan
    able = {metric: _able(plan.gate, known, metric) for metric in known.spreads}
    promised = {metric: min(MOST_PROMISED, one) for metric, one in able.items()}
    return plan.model_copy(update={"gate": plan.gate.model_copy(update={"promised": promised})})


def _able(terms: GateTerms, known: History, metric: GateMetric) -> float:
    """What can be told within the budget, as a share."""
    pairs = max(FEWEST_PAIRS, int(parse_duration_ns(terms.budget) / 1e9 / known.pair_seconds))
    return promised_difference(known.spreads[metric], pairs, parse_percent(terms.tolerate))


def _promise(plan: Plan, known: History | None) -> Sequence[str]:
    """What this machine can tell within the budget, before it is spent.

    Raises `InputError` for a budget in which there is no process pair, and for a tolerance that no budget can keep.
    """
    terms = plan.gate
    assert terms is not None  # noqa: S101  # a gate's
    if known is None:
        return (
            f"what this machine can tell in {terms.budget} is not known yet, as it has no earlier process pairs: the "
            "end says it; until then D is 3 %, or what is tolerated where that is more",
        )
    if parse_duration_ns(terms.budget) / 1e9 < known.pair_seconds:
        raise InputError(
            f"--budget {terms.budget} is too short for one process pair, which takes {known.pair_seconds:.1f} s here; "
            f"{FEWEST_PAIRS} of them tell something: give {_whole_seconds(FEWEST_PAIRS * known.pair_seconds)} or more"
        )
    metric = terms.metrics[0]
    if metric not in terms.promised:
        return (f"how much the {metric} of earlier process pairs scattered is not known",)
    tolerance, promised = parse_percent(terms.tolerate), terms.promised[metric]
    able = _able(terms, known, metric)
    tells = f"can tell {able:.1%}" if able < 1 else "cannot tell even 100%"
    told = (
        f"this machine {tells} of {metric} in {terms.budget}: "
        f"{known.pairs} earlier process pairs {known.likeness} scattered by {known.spreads[metric]:.1%}"
    )
    longest = int(LONGEST_BUDGET_NS / 1e9 / known.pair_seconds)
    if promised_difference(known.spreads[metric], max(FEWEST_PAIRS, longest), 0.0) > tolerance:
        told = f"{told}; in an hour, the longest budget, not {tolerance:.2%} either"
        if tolerance < parse_percent(GateTerms().tolerate):
            raise InputError(f"--tolerate {terms.tolerate} is less than this machine can tell: {told}")
    limit = f"; D stays at {promised:.0%}, so hardly anything passes" if promised == MOST_PROMISED else ""
    return (told + limit,)


def _whole_seconds(seconds: float) -> str:
    return f"{int(seconds) + 1}s" if seconds < 120 else f"{int(seconds / 60) + 1}m"


async def _measure(
    home: Home, order: BenchmarkOrder, session: TargetSession, binder: Binder, watcher: GateWatcher, *, explain: bool
) -> GateResult:
    expansion = await in_thread(expand, order.plan, session.snapshots, binder)
    _check(expansion)
    for note in expansion.notes:
        watcher.said(f"note: {note}")
    known = await asyncio.to_thread(history, home, expansion.jobs)
    plan = _promising(order.plan, known)
    for sentence in _promise(plan, known):
        watcher.said(sentence)
    assert plan.gate is not None  # noqa: S101  # a gate's
    pairs = _Pairs(plan.gate, {}, watcher)

    def announce(expansion: Expansion, benchmark_id: str | None) -> Reporter:
        assert benchmark_id is not None  # noqa: S101  # a benchmark's
        pairs.members = home.store.benchmark(benchmark_id).plan["members"]
        watcher.begun(benchmark_id, pairs.terms)
        return watcher

    benchmark = await run_in_session(home, replace(order, plan=plan), session, binder, announce, pairs)
    result = await asyncio.to_thread(gate_of, home, benchmark)
    if result is None:
        raise InputError(f"nothing of the gate {benchmark.id} is in the store")
    if explain and _is_different(result) and not result.failures:
        result = await _explain(home, result, plan, session, binder, watcher)
    return result


class _Pairs:
    """Says after each round whether it is enough: the verdict stands, or another pair would end after the budget."""

    def __init__(self, terms: GateTerms, members: Mapping[str, str], watcher: GateWatcher) -> None:
        self.terms = terms
        self.members = members
        self._watcher = watcher
        self._budget_s = parse_duration_ns(terms.budget) / 1e9
        self._begun: float | None = None
        self._ends = time.monotonic() + self._budget_s
        self._there = 0

    def seconds_left(self) -> float:
        """See `execution.Enough`."""
        return self._ends - time.monotonic() + GRACE_SHARE * self._budget_s + GRACE_S

    def __call__(self, so_far: Sequence[SoFar]) -> bool:
        """See `execution.Enough`."""
        now = time.monotonic()
        pairs = min(len(one.processes) for one in so_far)
        if self._begun is None:
            self._begun, self._there = now, pairs
            self._ends = now + self._budget_s
        if not pairs:
            return False
        known = {one.outcome_id: one for one in so_far}
        judged = judge(self.terms, {role: _arm(known[id_]) for role, id_ in self.members.items()})
        spent_s = now - self._begun
        each_s = spent_s / (pairs - self._there) if pairs > self._there else judged.pair_seconds or 0.0
        left_s = self._budget_s - spent_s - self._there * each_s
        self._ends = now + left_s
        self._watcher.looked(judged, max(0.0, left_s))
        return stands(judged) or left_s < each_s


def _arm(one: SoFar) -> Arm:
    model = one.job.model
    return Arm(one.processes, one.blocks, one.medians, one.job.configuration.batch, model.size_bytes)


def _is_different(result: GateResult) -> bool:
    return result.outcome is GateOutcome.WORSE or result.is_better


def _is_self_test(measurements: Mapping[str, Measurement]) -> bool:
    base, head = (
        (one.model_digest, one.engine, one.configuration.options, one.configuration.inputs)
        for one in (measurements[BASE], measurements[HEAD])
    )
    return base == head


def _outputs(home: Home, measurements: Mapping[str, Measurement]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences on outputs: those that are wrong; and what to know of two models that need not agree."""
    base, head = measurements[BASE], measurements[HEAD]
    models = home.store.models()
    checks = check_outputs([base, head], models)
    problems = tuple(
        f"the outputs of {role} are wrong: {check.problem}"
        if check.reference is None
        else f"the outputs of head are not those of base: {check.problem}"
        for role, one in ((BASE, base), (HEAD, head))
        if (check := checks.get(one.id)) is not None and check.problem
    )
    is_compared = any(one.reference for one in checks.values())
    remarks: tuple[str, ...] = ()
    if not is_compared and base.captured_outputs and head.captured_outputs:
        remarks = tuple(_apart(base, head))
    return problems, remarks


def _apart(base: Measurement, head: Measurement) -> Sequence[str]:
    """How far the outputs of two models are apart of which nothing tells that they are to compute the same."""
    batch = Batch(base.configuration.batch, lambda *_: None)
    found = difference(
        base.captured_outputs, head.captured_outputs, name="base", batch=batch, tolerated=Tolerated(1e-3)
    )
    if not found.problem:
        return ()
    return (f"head is another model than base, and its outputs differ: {found.problem}",)


async def _explain(
    home: Home, result: GateResult, plan: Plan, session: TargetSession, binder: Binder, watcher: GateWatcher
) -> GateResult:
    """The result with the layers that explain it. A pass that fails explains nothing, and spoils nothing."""
    watcher.said("the verdict stands; profiling both sides for the layers that explain it")
    for grid, role in zip(plan.grids(), (BASE, HEAD), strict=False):
        side = grid.model_copy(
            update={
                "gate": None,
                "interleave": False,
                "duration": "1s",
                "timeout": LAYERS_TIMEOUT,
                "iterations": 10,
                "block": None,
                "name": f"{role} of gate {result.benchmark.id}",
                "max_duration": None,
            }
        )
        order = ProfileOrder(side, id=f"{result.benchmark.id}-{role}")
        try:
            await profiles_in_session(home, order, session, binder, lambda *_: watcher)
        except (InputError, PlanError) as error:
            return replace(result, explanation=GateExplanation(note=f"no layers, as {error}"))
    return replace(result, explanation=await asyncio.to_thread(_explained, home, result))


def _explained(home: Home, result: GateResult) -> GateExplanation | None:
    """What the profiles of both sides say, where there are any."""
    orders = {f"{result.benchmark.id}-{role}": role for role in (BASE, HEAD)}
    entries = [one for one in home.store.profile_entries() if one.order_id in orders]
    by_role = {orders[str(one.order_id)]: one.id for one in entries}
    if set(by_role) != {BASE, HEAD}:
        return None
    found = {one.id: one for one in home.store.whole_profiles(by_role.values())}
    profiles = [found[by_role[role]] for role in (BASE, HEAD) if by_role[role] in found]
    try:
        return _layers(profiles, is_worse=result.outcome is GateOutcome.WORSE)
    except InputError as error:
        return GateExplanation(tuple(by_role.values()), note=f"no layers, as {error}")


def _layers(profiles: Sequence[Profile], *, is_worse: bool) -> GateExplanation:
    (pair,) = compare_profiles(profiles).pairs
    ids = tuple(one.id for one in profiles)
    total = sum(row.contribution_ns for row in pair.rows)
    if (total > 0) is not is_worse or not total:
        return GateExplanation(ids, (), total, "one profile of each side does not show the difference")
    sign = 1 if is_worse else -1
    rows = sorted(pair.rows, key=lambda row: -sign * row.contribution_ns)[:LAYERS_TOLD]
    return GateExplanation(ids, tuple(_share(row, total) for row in rows if sign * row.contribution_ns > 0), total)


def _share(row: LayerRow, total_ns: int) -> LayerShare:
    return LayerShare(row.name, row.operator, row.contribution_ns, row.contribution_ns / total_ns)
