"""Gates in the store: their result read again, and what earlier ones let this machine promise within a budget."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from statistics import median

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case
from enginebench_controller.plan.plan import GateMetric, GateTerms
from enginebench_controller.records import Benchmark, Measurement
from enginebench_controller.stats.paired import FEWEST_PAIRS
from enginebench_controller.store.measurements import BenchmarkEntry
from enginebench_controller.verdicts.gate_results import ROLES, Arm, Judged, judge

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
    roles = {role: found[id_] for role, id_ in named if id_ in found}
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


def history(home: Home, jobs: Sequence[Case]) -> History | None:
    """What earlier gates on the target of these jobs tell; of the same model and engine where there are any."""
    target = jobs[0].target
    entries = [one for one in home.store.benchmarks() if one.benchmark.plan.get("gate") and target in one.targets]
    engines = {job.engine.name for job in jobs}
    models = {job.model.name for job in jobs} | {job.model.digest for job in jobs}
    for likeness in Likeness:
        alike = [one for one in entries if _is_alike(one, likeness, engines, models)]
        if found := _of(home, alike, likeness):
            return found
    return None


def _is_alike(entry: BenchmarkEntry, likeness: Likeness, engines: set[str], models: set[str]) -> bool:
    if likeness is Likeness.TARGET:
        return True
    names = {name.partition("@")[0].partition(" ")[0] for name in entry.engines}
    if not engines & names:
        return False
    return likeness is Likeness.ENGINE or bool(models & set(entry.models))


def _of(home: Home, entries: Sequence[BenchmarkEntry], likeness: Likeness) -> History | None:
    judged = list(_latest(home, entries))
    pairs = sum(one.pairs for one in judged)
    seconds = [one.pair_seconds for one in judged if one.pair_seconds]
    if pairs < FEWEST_KNOWN or not seconds:
        return None
    spreads = {metric: found for metric in GateMetric if (found := _spread(judged, metric)) is not None}
    return History(pairs, likeness, spreads, median(seconds)) if spreads else None


def _spread(judged: Sequence[Judged], metric: GateMetric) -> float | None:
    """That of all pairs of these gates around their own middles."""
    known = [(each.pairs - 1, one.spread) for each in judged for one in each.metrics if one.metric is metric]
    squares = [(degrees, spread**2) for degrees, spread in known if spread]
    degrees = sum(one for one, _ in squares)
    return sqrt(sum(one * square for one, square in squares) / degrees) if degrees else None


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
