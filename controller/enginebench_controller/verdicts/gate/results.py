"""What process pairs say of head, base and the control: figures and a verdict a metric, and one of the whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, log
from statistics import median

from enginebench_controller.plan.plan import (
    BASE,
    CONTROL,
    HEAD,
    LONGEST_BUDGET_NS,
    GateMetric,
    GateTerms,
    parse_duration_ns,
    parse_percent,
)
from enginebench_controller.records import Benchmark, Block, Measurement, Process
from enginebench_controller.records.run import metered_energy
from enginebench_controller.stats.paired import FEWEST_PAIRS, RatioInterval, log_ratio, sequential_interval, spread
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule, GateVerdict, decide, promised_difference


@dataclass(frozen=True)
class Arm:
    """What one member has come to: its processes in their order, its blocks, and the median latency of each in ns."""

    processes: Sequence[Process]
    blocks: Sequence[Block]
    medians: Mapping[tuple[int, int], float]
    batch: int
    size_bytes: int | None = None


@dataclass(frozen=True)
class MetricResult:
    """What is known of one metric.

    `base` and `head` are medians over processes, in the metric's unit; those of the control are of base, too. `ratio`
    is of head ÷ base, of throughput base ÷ head, so that above 0 (a logarithm) is worse; `control` the same of base ÷
    base. `missing` says why nothing is known.
    """

    metric: GateMetric
    decides: bool
    base: float | None
    head: float | None
    ratio: RatioInterval | None
    control: RatioInterval | None
    rule: GateRule
    verdict: GateVerdict
    spread: float | None = None
    missing: str = ""


@dataclass(frozen=True)
class Judged:
    """What so many process pairs amount to. The budget has room for `most`, at so many seconds each."""

    metrics: tuple[MetricResult, ...]
    pairs: int
    most: int
    pair_seconds: float | None
    outcome: GateOutcome
    is_better: bool

    @property
    def deciding(self) -> tuple[MetricResult, ...]:
        """Those that may fail the gate."""
        return tuple(one for one in self.metrics if one.decides)

    @property
    def differs_in_time(self) -> bool:
        """Whether it is inferences that differ, of which layers are the reason, and not memory or what comes before."""
        of_time = (one for one in self.deciding if one.metric in (GateMetric.LATENCY, GateMetric.THROUGHPUT))
        return any(one.verdict.outcome is GateOutcome.WORSE or one.verdict.is_better for one in of_time)

    @property
    def decisive(self) -> MetricResult:
        """The metric that the outcome follows from."""
        alike = [one for one in self.deciding if one.verdict.outcome is self.outcome]
        better = [one for one in alike if one.verdict.is_better]
        return (better or alike or self.deciding)[0]


@dataclass(frozen=True)
class LayerShare:
    """A layer that explains a difference: by how much it is slower in head, and its share of the whole difference."""

    name: str
    operator: str
    difference_ns: int
    share: float | None


@dataclass(frozen=True)
class GateExplanation:
    """What profiles of both sides say; `note` where they say nothing."""

    profiles: tuple[str, ...] = ()
    layers: tuple[LayerShare, ...] = ()
    total_ns: int | None = None
    note: str = ""


@dataclass(frozen=True)
class GateResult:
    """The outcome of a gate. `problems` are sentences on outputs that are wrong, `failures` on what came to no numbers.

    `is_better` goes with the outcome "pass"; a self-test compares a thing with itself.
    """

    benchmark: Benchmark
    terms: GateTerms
    judged: Judged
    measurements: Mapping[str, Measurement]
    is_self_test: bool = False
    problems: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    explanation: GateExplanation | None = None

    @property
    def outcome(self) -> GateOutcome:
        """Worse, pass or cannot tell; never a pass where something failed, nor where outputs are wrong."""
        is_worse = self.judged.outcome is GateOutcome.WORSE
        is_no_pass = self.failures or (self.problems and not is_worse)
        return GateOutcome.CANNOT_TELL if is_no_pass else self.judged.outcome

    @property
    def is_better(self) -> bool:
        """Whether head is better, and nothing of it worse or wrong."""
        return self.judged.is_better and not self.failures and not self.problems


def judge(terms: GateTerms, arms: Mapping[str, Arm]) -> Judged:
    """Apply the rule to what has been measured. All arms must have equally many processes."""
    pairs = min(len(arm.processes) for arm in arms.values())
    seconds = _pair_seconds(arms)
    most = max(pairs, int(parse_duration_ns(terms.budget) / 1e9 / seconds)) if seconds else pairs
    metrics = tuple(_metric(terms, metric, arms, most) for metric in GateMetric)
    deciding = [one.verdict for one in metrics if one.decides]
    outcomes = {one.outcome for one in deciding}
    outcome = next(one for one in (GateOutcome.WORSE, GateOutcome.CANNOT_TELL, GateOutcome.PASSES) if one in outcomes)
    is_better = outcome is GateOutcome.PASSES and any(one.is_better for one in deciding)
    return Judged(metrics, pairs, most, seconds, outcome, is_better)


def stands(judged: Judged) -> bool:
    """Whether no further pair is needed: each metric that decides is told. Who asks for two wants to know both."""
    return all(one.verdict.stands for one in judged.deciding)


def able(judged: Judged, metric: GateMetric = GateMetric.LATENCY) -> float | None:
    """The difference that this machine can tell in the budget, by what was seen; None with too few pairs."""
    found = next(one for one in judged.metrics if one.metric is metric)
    if found.spread is None or judged.most < FEWEST_PAIRS:
        return None
    return promised_difference(found.spread, judged.most, found.rule.tolerance)


def budget_for(judged: Judged, difference: float, metric: GateMetric = GateMetric.LATENCY) -> float | None:
    """Seconds in which this machine would tell such a difference; None where nobody knows, or more than an hour."""
    found = next(one for one in judged.metrics if one.metric is metric)
    if found.spread is None or not judged.pair_seconds:
        return None
    return seconds_for(found.spread, judged.pair_seconds, difference, found.rule.tolerance)


def seconds_for(scatter: float, pair_seconds: float, difference: float, tolerance: float) -> float | None:
    """How long it takes to tell a difference; None for longer than the longest budget."""
    longest = int(LONGEST_BUDGET_NS / 1e9 / pair_seconds)
    pairs = FEWEST_PAIRS
    while pairs <= longest:
        if promised_difference(scatter, pairs, tolerance) <= difference:
            return pairs * pair_seconds
        pairs = max(pairs + 1, int(pairs * 1.05))
    return None


def _pair_seconds(arms: Mapping[str, Arm]) -> float | None:
    """From one round of processes to the next: the median, for clocks jump. Of a single round, its own length."""
    starts = [[one.started_at_unix_ns for one in arm.processes if one.started_at_unix_ns] for arm in arms.values()]
    rounds = [min(one) for one in zip(*starts, strict=False)]
    steps = [later - earlier for earlier, later in pairwise(rounds) if later > earlier]
    if not steps and len(rounds) == 1:
        processes = [arm.processes[0] for arm in arms.values()]
        ends = [(one.started_at_unix_ns or 0) + sum(phase.duration_ns for phase in one.phases) for one in processes]
        steps = [max(ends) - rounds[0]]
    return median(steps) / 1e9 if steps else None


def _metric(terms: GateTerms, metric: GateMetric, arms: Mapping[str, Arm], most: int) -> MetricResult:
    decides = metric in terms.metrics
    tolerance = parse_percent(terms.tolerate)
    promised = terms.promised.get(metric)
    rule = GateRule(tolerance, more_is_better=metric is GateMetric.THROUGHPUT)
    if promised is not None:
        rule = replace(rule, difference=promised)
    if metric is GateMetric.SIZE:
        return _of_size(arms, GateRule(tolerance, 0.0), decides=decides)
    values = {role: _values(metric, arm) for role, arm in arms.items()}
    base, head = _middle([*values[BASE], *values[CONTROL]]), _middle(values[HEAD])
    lacking = _lacking(metric, arms, values)
    observed, control = ([], []) if lacking else _observations(metric, arms, values)
    ratio, floor = (sequential_interval(one, most) for one in (observed, control))
    verdict = decide(ratio, rule, floor)
    missing = lacking.why if lacking else ""
    if lacking:
        verdict = GateVerdict(GateOutcome.CANNOT_TELL, False, missing, stands=not lacking.may_come)
    elif ratio is None:
        verdict = replace(verdict, sentence=verdict.sentence + _counted(len(observed), arms))
    return MetricResult(metric, decides, base, head, verdict.ratio, floor, rule, verdict, spread(observed), missing)


def _counted(counting: int, arms: Mapping[str, Arm]) -> str:
    """How many process pairs count, where some do not; "" where all do."""
    pairs = min(len(arm.processes) for arm in arms.values())
    return f": only {counting} of {pairs} process pairs count" if counting < pairs else ""


def _of_size(arms: Mapping[str, Arm], rule: GateRule, *, decides: bool) -> MetricResult:
    """Bytes are counted, not measured: only the tolerance counts. But what does not run is no smaller model."""
    base, head = arms[BASE].size_bytes, arms[HEAD].size_bytes
    if not base or not head or not all(arm.processes for arm in arms.values()):
        why = "the model's size is not known" if not base or not head else "nothing was measured"
        verdict = GateVerdict(GateOutcome.CANNOT_TELL, False, why)
        return MetricResult(GateMetric.SIZE, decides, base, head, None, None, rule, verdict, None, why)
    change = head / base
    outcome = GateOutcome.WORSE if change > 1 + rule.tolerance else GateOutcome.PASSES
    sentence = f"head ÷ base {change:.3f}, counted"
    verdict = GateVerdict(outcome, change < 1 - rule.tolerance, sentence)
    exact = RatioInterval(log(change), log(change), log(change))
    return MetricResult(GateMetric.SIZE, decides, base, head, exact, None, rule, verdict)


def _observations(
    metric: GateMetric, arms: Mapping[str, Arm], values: Mapping[str, Sequence[float | None]]
) -> tuple[list[float], list[float]]:
    """The log ratios of the process pairs, of head to base and of base to base, in their order.

    Head is compared with both processes of base, whose mean has less luck in it; how these two differ among themselves
    says nothing of that.
    """
    found, floor = [], []
    for pair in range(min(len(one) for one in values.values())):
        if metric is GateMetric.LATENCY:
            to_base, to_control, apart = (
                _of_blocks(arms[first], arms[second], pair)
                for first, second in ((BASE, HEAD), (CONTROL, HEAD), (BASE, CONTROL))
            )
        else:
            to_base, to_control, apart = (
                _of_values(metric, values[first][pair], values[second][pair])
                for first, second in ((BASE, HEAD), (CONTROL, HEAD), (BASE, CONTROL))
            )
        if to_base is not None and to_control is not None and apart is not None:
            found.append((to_base + to_control) / 2)
            floor.append(apart)
    return found, floor


def _of_blocks(first: Arm, second: Arm, process: int) -> float | None:
    """From the blocks that both have and that did not stand still: without the disturbed ones, unless most are."""
    blocks = [one for arm in (first, second) for one in arm.blocks]
    stood = {(one.process, one.index) for one in blocks if one.paused_ns}
    noisy = {(one.process, one.index) for one in blocks if one.disturbances}
    common = sorted(key for key in first.medians.keys() & second.medians.keys() - stood if key[0] == process)
    quiet = [key for key in common if key not in noisy]
    kept = quiet if 2 * len(quiet) >= len(common) else common
    return log_ratio([first.medians[key] for key in kept], [second.medians[key] for key in kept])


def _of_values(metric: GateMetric, first: float | None, second: float | None) -> float | None:
    if not first or not second or first < 0 or second < 0:
        return None
    apart = log(second / first)
    return -apart if metric is GateMetric.THROUGHPUT else apart


def _values(metric: GateMetric, arm: Arm) -> list[float | None]:
    """The value of each process, in ns, items a second, bytes, or joules an item."""
    return [_OF_PROCESS[metric](arm, index, process) for index, process in enumerate(arm.processes)]


def _counting(arm: Arm, index: int) -> list[Block]:
    """The blocks of a process that did not stand still, without the disturbed ones, unless most are: as of pairs."""
    going = [one for one in arm.blocks if one.process == index and one.iterations and not one.paused_ns]
    quiet = [one for one in going if not one.disturbances]
    return quiet if 2 * len(quiet) >= len(going) else going


def _latency(arm: Arm, index: int, process: Process) -> float | None:
    places = ((one.process, one.index) for one in _counting(arm, index))
    own = [arm.medians[place] for place in places if place in arm.medians]
    return median(own) if own else None


def _throughput(arm: Arm, index: int, process: Process) -> float | None:
    own = _counting(arm, index)
    spent = sum(one.duration_ns for one in own)
    return arm.batch * sum(one.iterations for one in own) / spent * 1e9 if spent else None


def _phase(name: str) -> Callable[[Arm, int, Process], float | None]:
    def of_process(arm: Arm, index: int, process: Process) -> float | None:
        found = next((one for one in process.phases if one.name == name), None)
        return None if found is None else found.duration_ns - (found.paused_ns or 0)

    return of_process


def _memory(arm: Arm, index: int, process: Process) -> float | None:
    return max((one.peak_rss_bytes for one in process.phases if one.peak_rss_bytes), default=None)


def _energy(arm: Arm, index: int, process: Process) -> float | None:
    """Joules an item, by a meter that counts energy."""
    found = metered_energy(_counting(arm, index))
    return None if found.j_per_inference is None or found.is_coarse else found.j_per_inference / arm.batch


@dataclass(frozen=True)
class _Lacking:
    """Why nothing is known of a metric, and whether further processes may change that."""

    why: str
    may_come: bool = False


def _energy_lacking(arms: Mapping[str, Arm]) -> _Lacking | None:
    """Why the energies of all arms cannot be compared; None where they can."""
    if unmetered := next((arm for arm in arms.values() if not any(one.evidence.energy_uj for one in arm.blocks)), None):
        told = (one.evidence.missing.get("energy_uj", "") for one in unmetered.blocks)
        return _Lacking(next(filter(None, told), metered_energy(unmetered.blocks).missing))
    found = [metered_energy(_counting(arm, index)) for arm in arms.values() for index in range(len(arm.processes))]
    if coarse := next((one.source for one in found if one.is_coarse), None):
        return _Lacking(f"its meter counts no energy ({coarse}), which is too coarse to decide by")
    if len(sources := {one.source for one in found if one.j_per_inference is not None}) > 1:
        names = ", ".join(sorted(one or "unknown" for one in sources))
        return _Lacking(f"not all processes were counted by one meter ({names})")
    if all(one.j_per_inference is not None for one in found):
        return None
    whys = [one.missing for one in found if one.missing]
    if 2 * len(whys) <= len(found):  # one or two that a meter did not answer leave enough pairs
        return None
    return _Lacking(whys[0], may_come=True)


_OF_PROCESS: Mapping[GateMetric, Callable[[Arm, int, Process], float | None]] = {
    GateMetric.LATENCY: _latency,
    GateMetric.THROUGHPUT: _throughput,
    GateMetric.FIRST_INFERENCE: _phase("first_inference"),
    GateMetric.COMPILE: _phase("compile"),
    GateMetric.MEMORY: _memory,
    GateMetric.ENERGY: _energy,
}


_OF_BLOCKS = frozenset({GateMetric.LATENCY, GateMetric.THROUGHPUT, GateMetric.ENERGY})
"""Of these a process may tell nothing, as all its blocks stood still, and the next one may."""


def _middle(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None and isfinite(one)]
    return median(known) if known else None


def _lacking(
    metric: GateMetric, arms: Mapping[str, Arm], values: Mapping[str, Sequence[float | None]]
) -> _Lacking | None:
    """Why nothing can be said of a metric; None where something can. A phase that one process lacks, all lack."""
    if not all(arm.processes for arm in arms.values()):
        return _Lacking("nothing was measured", may_come=True)
    if metric is GateMetric.ENERGY and (found := _energy_lacking(arms)):
        return found
    if all(_middle(one) is not None for one in values.values()):
        return None
    why = f"the {metric} is not known on both sides"
    return _Lacking(why + _counted(0, arms), may_come=True) if metric in _OF_BLOCKS else _Lacking(why)


def ratio_of_values(result: MetricResult) -> tuple[float, float, float] | None:
    """Head ÷ base with the ends of its interval, as figures of the metric itself: more throughput is above 1."""
    return None if result.ratio is None else result.rule.of_figures(result.ratio).ratios
