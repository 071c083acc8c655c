"""Gates in the store: their result read again, and what earlier ones let this machine promise within a budget."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median, median_low

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case
from enginebench_controller.plan.plan import (
    BASE,
    HEAD,
    LONGEST_BUDGET_NS,
    ROLES,
    GateMetric,
    GateTerms,
    Plan,
    parse_duration_ns,
    parse_percent,
)
from enginebench_controller.records import Benchmark, Layer, Measurement, Profile
from enginebench_controller.stats.paired import FEWEST_PAIRS
from enginebench_controller.store.benchmarks import BenchmarkEntry
from enginebench_controller.verdicts.gate.results import (
    Arm,
    GateExplanation,
    GateResult,
    Judged,
    LayerShare,
    judge,
    seconds_for,
)
from enginebench_controller.verdicts.gate.rule import MOST_PROMISED, GateOutcome, promised_difference
from enginebench_controller.verdicts.gate.words import able_words, budget_words, whole_seconds
from enginebench_controller.verdicts.layers.profiles import compare_profiles
from enginebench_controller.verdicts.layers.rows import LayerRow
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.output_difference import Batch, Tolerated, difference

LAYERS_TOLD = 3

MOST_GATES = 5
"""So many of the latest are looked at: machines change."""

FEWEST_KNOWN = 5
"""Of fewer process pairs the spread may be anything."""


class Likeness(StrEnum):
    """How much earlier pairs have in common with what is to be measured."""

    SAME = "of this model on this engine"
    ENGINE = "of other models on this engine"
    TARGET = "of other engines on this machine"


@dataclass(frozen=True)
class History:
    """Earlier process pairs: the spread of their log ratios by metric, and the seconds that one took."""

    pairs: int
    likeness: Likeness
    spreads: dict[GateMetric, float]
    pair_seconds: float


def arm_of(measurement: Measurement, medians: dict[tuple[int, int], float], size_bytes: int | None = None) -> Arm:
    """A stored measurement as a member."""
    batch = measurement.configuration.batch
    return Arm(measurement.processes, measurement.blocks, medians, batch, size_bytes)


def terms_of(benchmark: Benchmark) -> GateTerms | None:
    """What a gate was asked for; None for another benchmark, and for what another version or somebody else wrote."""
    try:
        return GateTerms.model_validate(benchmark.plan["gate"]) if benchmark.plan.get("gate") else None
    except ValueError:
        return None


def stored_arms(home: Home, benchmark: Benchmark) -> dict[str, tuple[Measurement, Arm]]:
    """The members of a gate by their roles, as far as they are in the store."""
    found = {one.id: one for one in home.store.measurements(benchmark.id)}
    members = benchmark.plan.get("members")
    named = members.items() if isinstance(members, Mapping) else ()
    roles = {role: found[id_] for role, id_ in named if isinstance(id_, str) and id_ in found}
    blocks = home.store.block_latencies([one.id for one in roles.values()])
    sizes = {one.digest: one.size_bytes for one in home.store.models()}
    return {
        role: (
            one,
            arm_of(
                one, {(b.process, b.block): b.median_ns for b in blocks.get(one.id, ())}, sizes.get(one.model_digest)
            ),
        )
        for role, one in roles.items()
    }


def history(home: Home, cases: Sequence[Case]) -> History | None:
    """What earlier gates on the target of these cases tell; of the same model and engine where there are any."""
    engines = {case.engine.name for case in cases}
    models = {case.model.name for case in cases} | {case.model.digest for case in cases}
    return history_of(home, cases[0].target, engines, models)


def history_of(home: Home, target: str, engines: Collection[str], models: Collection[str]) -> History | None:
    """As `history`, of what is not there to be run yet: engines by name, models by name or digest."""
    # In what was imported, `local` is another machine.
    here = [one for one in home.store.benchmarks() if not one.benchmark.imported]
    entries = [one for one in here if one.benchmark.plan.get("gate") and target in one.targets]
    for likeness in Likeness:
        alike = [one for one in entries if _is_alike(one, likeness, engines, models)]
        if found := _of(home, alike, likeness):
            return found
    return None


def _is_alike(entry: BenchmarkEntry, likeness: Likeness, engines: Collection[str], models: Collection[str]) -> bool:
    if likeness is Likeness.TARGET:
        return True
    names = {name.partition("@")[0].partition(" ")[0] for name in entry.engines}
    if names.isdisjoint(engines):
        return False
    return likeness is Likeness.ENGINE or not set(entry.models).isdisjoint(models)


def _of(home: Home, entries: Sequence[BenchmarkEntry], likeness: Likeness) -> History | None:
    judged = list(_latest(home, entries))
    pairs = sum(one.pairs for one in judged)
    seconds = [one.pair_seconds for one in judged if one.pair_seconds]
    if pairs < FEWEST_KNOWN or not seconds:
        return None
    spreads = {metric: found for metric in GateMetric if (found := _spread(judged, metric)) is not None}
    return History(pairs, likeness, spreads, median(seconds)) if spreads else None


def _spread(judged: Sequence[Judged], metric: GateMetric) -> float | None:
    """The median of how pairs of these gates scattered around their own middles, each gate as often as it has pairs.

    One that was disturbed says little of those to come; a mean of squares would be its own.
    """
    known = [(each.pairs - 1, one.spread) for each in judged for one in each.metrics if one.metric is metric]
    spreads = [spread for degrees, spread in known if spread for _ in range(degrees)]
    return median_low(spreads) if spreads else None


def _latest(home: Home, entries: Sequence[BenchmarkEntry]) -> Iterator[Judged]:
    told = 0
    for entry in entries:
        if (terms := terms_of(entry.benchmark)) is None:
            continue
        try:
            arms = {role: arm for role, (_, arm) in stored_arms(home, entry.benchmark).items()}
        except EnginebenchError:
            continue  # removed meanwhile
        if set(arms) == set(ROLES) and all(len(arm.processes) >= FEWEST_PAIRS for arm in arms.values()):
            yield judge(terms, arms)
            told += 1
            if told == MOST_GATES:
                return


def gate_of(home: Home, benchmark: Benchmark) -> GateResult | None:
    """The result of a stored gate; None for another benchmark, or one with nothing measured yet."""
    if (terms := terms_of(benchmark)) is None:
        return None
    stored = stored_arms(home, benchmark)
    if set(stored) != set(ROLES):
        return None
    measurements = {role: one for role, (one, _) in stored.items()}
    told = failures(measurements)
    result = GateResult(
        benchmark=benchmark,
        terms=terms,
        judged=judge(terms, {role: arm for role, (_, arm) in stored.items()}),
        measurements=measurements,
        is_self_test=is_self_test(measurements),
        failures=told,
    )
    problems, remarks = outputs_of(home, measurements)
    result = replace(result, problems=problems, remarks=remarks)
    return replace(result, explanation=explained(home, result))


def failures(measurements: Mapping[str, Measurement]) -> tuple[str, ...]:
    """Why there are no numbers, a sentence for each member; once where it is the same for all."""
    told = {role: one.failure.message for role, one in measurements.items() if one.failure is not None}
    if len(told) == len(ROLES) and len(set(told.values())) == 1:
        return tuple(set(told.values()))
    return tuple(f"{role}: {message}" for role, message in told.items())


def promising(plan: Plan, known: History | None) -> Plan:
    """The plan with what it promises to tell."""
    assert plan.gate is not None  # noqa: S101  # a gate's
    if known is None:
        return plan
    tolerance = parse_percent(plan.gate.tolerate)
    able = {metric: _able(plan.gate, known, metric, tolerance) for metric in known.spreads}
    promised = {metric: min(MOST_PROMISED, one) for metric, one in able.items()}
    return plan.model_copy(update={"gate": plan.gate.model_copy(update={"promised": promised})})


def _able(terms: GateTerms, known: History, metric: GateMetric, tolerance: float) -> float:
    """What can be told within the budget, as a share; with no tolerance it is what noise alone asks for."""
    pairs = max(FEWEST_PAIRS, int(parse_duration_ns(terms.budget) / 1e9 / known.pair_seconds))
    return promised_difference(known.spreads[metric], pairs, tolerance)


def promise(plan: Plan, known: History | None) -> Sequence[str]:
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
            f"{FEWEST_PAIRS} of them tell something: {budget_words(FEWEST_PAIRS * known.pair_seconds)}"
        )
    metric = terms.metrics[0]
    if metric not in terms.promised:
        return (f"how much the {metric} of earlier process pairs scattered is not known",)
    tolerance, promised = parse_percent(terms.tolerate), terms.promised[metric]
    able, noise = (_able(terms, known, metric, margin) for margin in (tolerance, 0.0))
    told = (
        f"{able_words(able, metric, terms)}: {known.pairs} earlier process pairs {known.likeness} scattered by "
        f"{known.spreads[metric]:.1%}"
    )
    longest = int(LONGEST_BUDGET_NS / 1e9 / known.pair_seconds)
    if promised_difference(known.spreads[metric], max(FEWEST_PAIRS, longest), 0.0) > tolerance:
        told = f"{told}; in an hour, the longest budget, not {tolerance:.2%} either"
        if tolerance < parse_percent(GateTerms().tolerate):
            raise InputError(f"--tolerate {terms.tolerate} is less than this machine can tell: {told}")
    bound = max(tolerance, promised)
    limit = f"; D stays at {bound:.0%}, so hardly anything passes" if noise > bound else ""
    return (told + limit,)


def first_step_promise(terms: GateTerms, known: History | None) -> Sequence[str]:
    """What to know of the budget of each step of a search, before the first: whether it is likely to be enough.

    Raises `InputError` for a budget in which nothing can be told here.
    """
    if known is None:
        return ()
    budget_s, least_s = parse_duration_ns(terms.budget) / 1e9, FEWEST_PAIRS * known.pair_seconds
    if budget_s < least_s:
        raise InputError(
            f"--budget {terms.budget} is too short to tell anything: it takes {FEWEST_PAIRS} process pairs, and one "
            f"takes {known.pair_seconds:.1f} s here; {budget_words(least_s)}"
        )
    metric = terms.metrics[0]
    if metric not in known.spreads:
        return ()
    difference, scatter = terms.promised[metric], known.spreads[metric]
    needed_s = seconds_for(scatter, known.pair_seconds, difference, parse_percent(terms.tolerate))
    if needed_s is not None and needed_s <= budget_s:
        return ()
    would = "no budget up to an hour would" if needed_s is None else f"--budget {whole_seconds(needed_s)} would"
    return (
        f"gates of {terms.budget} may leave {difference:.1%} in doubt here, as {known.pairs} earlier process pairs "
        f"{known.likeness} scattered by {scatter:.1%}; {would} tell it in nine of ten cases",
    )


def is_self_test(measurements: Mapping[str, Measurement]) -> bool:
    """Whether base and head are one and the same."""
    base, head = (
        (one.model_digest, one.engine, one.configuration.options, one.configuration.inputs)
        for one in (measurements[BASE], measurements[HEAD])
    )
    return base == head


def outputs_of(home: Home, measurements: Mapping[str, Measurement]) -> tuple[tuple[str, ...], tuple[str, ...]]:
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


def explained(home: Home, result: GateResult) -> GateExplanation | None:
    """What the profiles of both sides say, where there are any."""
    orders = {f"{result.benchmark.id}-{role}": role for role in (BASE, HEAD)}
    told = [one for one in home.store.profile_entries() if one.imported == result.benchmark.imported]
    entries = [one for one in told if one.order_id in orders]
    by_role = {role: [one.id for one in entries if orders[str(one.order_id)] == role] for role in (BASE, HEAD)}
    if not all(by_role.values()):
        return None
    found = {one.id: one for one in home.store.whole_profiles([id_ for ids in by_role.values() for id_ in ids])}
    passes = [[found[id_] for id_ in by_role[role] if id_ in found] for role in (BASE, HEAD)]
    profiles = [_usual(one) for one in passes if one]
    try:
        return _layers(profiles, is_worse=result.outcome is GateOutcome.WORSE)
    except InputError as error:
        return GateExplanation(tuple(one.id for one in profiles), note=f"no layers, as {error}")


def _usual(passes: Sequence[Profile]) -> Profile:
    """Of several passes of one side, each layer with the median of its times in all of them.

    Means are of what else used the machine, too; and what is to be explained is a ratio of medians.
    """
    if len(passes) == 1:
        return passes[0]
    first = next((one for one in passes if one.layers), passes[0])
    alike = [one for one in passes if [each.name for each in one.layers] == [each.name for each in first.layers]]
    return replace(first, layers=tuple(map(_median, *(one.layers for one in alike))))


def _median(*layers: Layer) -> Layer:
    times = [time_ns for one in layers for time_ns in one.time_ns]
    return replace(layers[0], time_ns=(round(median(times)),) if times else ())


_LEAST_SHARE = 0.005
"""Of the difference: a layer with less explains nothing of it, and would be told as 0 %."""


def _layers(profiles: Sequence[Profile], *, is_worse: bool) -> GateExplanation:
    (pair,) = compare_profiles(profiles).pairs
    ids = tuple(one.id for one in profiles)
    total = sum(row.contribution_ns for row in pair.rows)
    if (total > 0) is not is_worse or not total:
        return GateExplanation(ids, (), total, "one profile of each side does not show the difference")
    sign = 1 if is_worse else -1
    rows = sorted(pair.rows, key=lambda row: -sign * row.contribution_ns)[:LAYERS_TOLD]
    told = (_share(row, total) for row in rows)
    return GateExplanation(ids, tuple(one for one in told if (one.share or 0.0) >= _LEAST_SHARE), total)


def _share(row: LayerRow, total_ns: int) -> LayerShare:
    return LayerShare(row.name, row.operator, row.contribution_ns, row.contribution_ns / total_ns)
