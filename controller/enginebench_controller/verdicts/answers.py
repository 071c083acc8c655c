"""Answers: which is fastest, and by how much, in a sentence for each group of measurements that people compare.

Every command, page and file takes its sentences from here. A group is what did the same work on one device of one
target: one model family, input set, batch, cores and load. Its members differ in engine, environment, version,
precision, options, streams or hint, and are called by what differs. Of work that no target has two of, a group is what
differs in the target alone: which machine is fastest?
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from statistics import median
from typing import Any

from enginebench_controller.plan.grouping import compared_work
from enginebench_controller.plan.plan import PROCESSES
from enginebench_controller.records import Benchmark, Hint, Load, Measurement, ModelVersion
from enginebench_controller.records.model import families
from enginebench_controller.stats.comparison import PRACTICAL, Side
from enginebench_controller.stats.ranking import MOST_PROCESSES, Ranking, Standing, rank
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.across import are_many
from enginebench_controller.verdicts.answer_command import command_that_would_tell
from enginebench_controller.verdicts.answer_words import (
    AnswerGround,
    Blocks,
    Rival,
    answer_remarks,
    by_whom,
    cannot_tell,
    disturbed_share,
    is_self_test,
    medians_apart,
    metric_words,
    ranked,
    without_median,
    work_words,
)
from enginebench_controller.verdicts.doubts import Mark, marks
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.pairing import (
    NO_SNAPSHOTS,
    NOTHING_ENDED_EARLY,
    Compared,
    Snapshots,
    alike_over_targets,
)
from enginebench_controller.verdicts.parity import in_reading_order

WORTH_WAITING = 0.1
"""Of the time; where others disturbed more of it, fewer of them help more than further processes."""


class RankMetric(StrEnum):
    """What members are ranked by."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


class AnswerOutcome(StrEnum):
    """What an answer comes to: all are told apart from the fastest, or the same as it, or some of both, or not told."""

    RANKED = "ranked"
    SAME = "same"
    PARTLY = "partly"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class RankedPlace:
    """A member in the ranking: it takes `ratio` times as long as the fastest, from `low` to `high`; None if unknown."""

    measurement_id: str
    name: str
    standing: Standing
    ratio: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Answer:
    """What is to be said of one group. `places` are those that can be ranked, the fastest first.

    `bound` is within what those that are the same are so. `command` is what would tell where it cannot be told yet, and
    `advice` says when to type it, and how long it takes. `remarks` are sentences that must not be missed.
    """

    work: str
    metric: RankMetric
    outcome: AnswerOutcome
    sentence: str
    places: tuple[RankedPlace, ...] = ()
    bound: float | None = None
    command: str | None = None
    advice: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The whole answer, a line each: the sentence, the command that would tell, the remarks."""
        command = (f"{self.advice}: {self.command}",) if self.command else ()
        return (self.sentence, *command, *self.remarks)


def contested(answers: Iterable[Answer]) -> dict[str, frozenset[str]]:
    """By the ids of measurements of which the answers do not tell that one is faster than all others: of whom not."""
    found: dict[str, frozenset[str]] = {}
    for answer in answers:
        first = {one.measurement_id for one in answer.places if one.standing is not Standing.SLOWER}
        if len(first) > 1:
            found |= {one.measurement_id: frozenset(first - {one.measurement_id}) for one in answer.places}
    return found


def answers_within(
    measurements: Collection[Measurement],
    blocks: Blocks,
    models: Collection[ModelVersion] = (),
    plan: Mapping[str, Any] | None = None,
    practical: float = PRACTICAL,
    *,
    imported: bool = False,
) -> tuple[Answer, ...]:
    """An answer for each group of two or more in one benchmark, which must have been read with blocks.

    `models`, all those of the store, tell which versions are one family; `plan` is the benchmark's, for the command.
    There is no command for one that was imported: typed here, it would measure another machine.
    There are none for a ladder, whose rungs are no rivals, and for a gate, which has its own.
    """
    if plan and (plan.get("ladder") or plan.get("gate")):
        return ()
    if not (groups := _groups(measurements, models)):
        return ()
    wrong = _wrong(list(measurements), models)
    again = None if imported else plan
    ground = AnswerGround(blocks, models, wrong, again, practical, NOTHING_ENDED_EARLY, NO_SNAPSHOTS)
    return tuple(_answer(Rival.of(group, models), ground) for group in groups)


def answers_of(
    store: Store, benchmark: Benchmark, measurements: Collection[Measurement], models: Collection[ModelVersion]
) -> tuple[Answer, ...]:
    """The answers of a stored benchmark; `models` are all those of the store."""
    rivals = [one.id for group in _groups(measurements, models) for one in group if one.latency is not None]
    blocks = store.block_latencies(rivals) if rivals else {}
    return answers_within(measurements, blocks, models, benchmark.plan, imported=benchmark.imported)


def answers_across(
    compared: Sequence[Compared],
    names: Mapping[str, str],
    blocks: Blocks,
    models: Collection[ModelVersion] = (),
    practical: float = PRACTICAL,
    planned: Mapping[str, int] = NOTHING_ENDED_EARLY,
    snapshots: Snapshots = NO_SNAPSHOTS,
) -> tuple[Answer, ...]:
    """An answer for each measurement of a first benchmark with its likes in others, as `compared` has paired them.

    `names` are those of the benchmarks by id, which tell the members apart. What did other work is in none.
    `planned` is `pairing.planned_processes`, and `snapshots` tell of the machines.
    """
    groups: dict[str, list[Measurement]] = {}
    for one in compared:
        if compared_work(one.first.configuration) == compared_work(one.second.configuration):
            groups.setdefault(one.first.id, [one.first]).append(one.second)
    everything = {one.id: one for group in groups.values() for one in group}
    wrong = _wrong(list(everything.values()), models)
    ground = AnswerGround(blocks, models, wrong, None, practical, planned, snapshots)
    return tuple(_answer(Rival.of(group, models, names), ground) for group in groups.values())


def _groups(measurements: Collection[Measurement], models: Collection[ModelVersion]) -> list[list[Measurement]]:
    """Those of two or more on one target; of work that no target has two of, those over targets.

    These differ in nothing but the target, and are few: of many there are tables, and all pairs of them take long.
    """
    root = families(models)
    works: dict[object, dict[str, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    for one in in_reading_order(measurements):
        work = (root.get(one.model_digest, one.model_digest), compared_work(one.configuration))
        works[work][one.target].append(one)
    found: list[list[Measurement]] = []
    for of_targets in works.values():
        rivals = [group for group in of_targets.values() if len(group) > 1]
        all_of_it = [one for group in of_targets.values() for one in group]
        are_none = not any(sum(one.latency is not None for one in group) > 1 for group in rivals)
        over_targets = alike_over_targets(all_of_it) if are_none and not are_many(all_of_it) else []
        found += over_targets or rivals
    return found


def _wrong(measurements: Sequence[Measurement], models: Collection[ModelVersion]) -> frozenset[str]:
    return frozenset(id_ for id_, check in check_outputs(measurements, models).items() if check.problem)


def _answer(members: Sequence[Rival], ground: AnswerGround) -> Answer:
    metric = _metric(members)
    sides = {
        one.measurement.id: replace(
            _side(one.measurement, metric, ground.blocks), planned=ground.planned.get(one.measurement.benchmark_id)
        )
        for one in members
    }
    fit = [one for one in members if _is_fit(one.measurement, sides[one.measurement.id], ground)]
    load = members[0].measurement.configuration.load
    start = Answer(
        work=work_words(members) + metric_words(metric is RankMetric.THROUGHPUT, load),
        metric=metric,
        outcome=AnswerOutcome.CANNOT_TELL,
        sentence="",
        remarks=(*without_median(members, sides), *answer_remarks(members, fit, ground)),
    )
    if len(fit) < 2:
        only = f"only {fit[0].name} has" if fit else "none has"
        return replace(start, sentence=f"{start.work}: {only} numbers that can be used, so nothing can be compared.")
    turns = [one.measurement.interleaving_group for one in fit]
    found = rank([sides[one.measurement.id] for one in fit], turns, ground.practical)
    return _told(start, [fit[one.place] for one in found.ranks], found, ground)


def _told(start: Answer, order: Sequence[Rival], found: Ranking, ground: AnswerGround) -> Answer:
    """The answer with what was found; `order` are the members as they are ranked."""
    pairs = list(zip(order, found.ranks, strict=True))
    standings = {one.standing for one in found.ranks}
    apart = medians_apart(order, found) if start.metric is RankMetric.LATENCY else ()
    contested = [member for member, one in pairs if one.standing is not Standing.SLOWER]
    # What others do takes more from one engine than from another: such ratios hold for such a machine only.
    is_itself = is_self_test(order)
    disturbed = not is_itself and any(Mark.DISTURBED in marks(member.measurement) for member in order)
    words, command, advice = ("on a disturbed machine " if disturbed else "") + ranked(order, found), None, None
    if Standing.UNSURE in standings:
        words = cannot_tell(order, found) + ("" if is_itself else _why(contested, found))
        # How the numbers scatter there says nothing of how many it takes when nobody disturbs.
        processes = None if _is_disturbed(contested) else found.processes
        again, fellows = ([one.measurement for one in some] for some in (contested, order))
        telling = command_that_would_tell(ground.plan or {}, again, fellows, processes, ground.models)
        if telling is not None:
            command, advice = telling.text, _advice(order, contested, telling.measured, processes)
    return replace(
        start,
        outcome=_outcome(standings),
        sentence=f"{start.work}: {words}.",
        places=tuple(
            RankedPlace(member.measurement.id, member.name, one.standing, one.ratio, one.low, one.high)
            for member, one in pairs
        ),
        bound=found.bound,
        command=command,
        advice=advice,
        remarks=(*start.remarks, *_limits(found), *apart),
    )


def _limits(found: Ranking) -> Iterator[str]:
    """What the intervals do not know of, where something is told by them."""
    told = [one for one in found.ranks if one.standing is not Standing.UNSURE and one.note]
    yield from dict.fromkeys(one.note for one in told)


def _outcome(standings: Collection[Standing]) -> AnswerOutcome:
    rest = set(standings) - {Standing.FASTEST}
    if Standing.UNSURE in rest:
        return AnswerOutcome.PARTLY if Standing.SLOWER in rest else AnswerOutcome.CANNOT_TELL
    if rest == {Standing.SAME}:
        return AnswerOutcome.SAME
    return AnswerOutcome.RANKED if rest == {Standing.SLOWER} else AnswerOutcome.PARTLY


def _why(contested: Sequence[Rival], found: Ranking) -> str:
    """What keeps those from being told apart, as far as it is known."""
    if unknown := [one.note for one in found.ranks if one.standing is Standing.UNSURE and one.low is None]:
        return f"; {unknown[0]}"
    if any(Mark.DISTURBED in marks(one.measurement) for one in contested):
        return "; the machine was disturbed"  # by whom stands below
    if _is_disturbed(contested):
        share = max(disturbed_share(one.measurement) for one in contested)
        return f"; the machine did other things for up to {share:.0%} of the time{by_whom(contested)}"
    notes = dict.fromkeys(one.note for one in found.ranks if one.standing is Standing.UNSURE and one.note)
    if notes:
        return f"; {next(iter(notes))}"
    count = min(len(one.measurement.processes) for one in contested)
    return f"; that is what {count} processes each tell" if count > 1 else "; that is what one process each tells"


def _is_disturbed(members: Sequence[Rival]) -> bool:
    """Whether others are why members cannot be told apart."""
    return max((disturbed_share(one.measurement) for one in members), default=0.0) > WORTH_WAITING


def _advice(
    order: Sequence[Rival], contested: Sequence[Rival], measured: Sequence[Measurement], processes: int | None
) -> str:
    """When to measure again, and how long all takes that is `measured` then: "this would tell, in about 3 minutes"."""
    when = "when the machine is quiet, this would tell" if _is_disturbed(contested) else "this would tell"
    if processes is not None and processes >= MOST_PROCESSES:
        when = "it takes very many processes; this would tell more"
    count = max(processes or 0, PROCESSES[True], *(len(one.processes) for one in measured))
    of_targets: dict[str, float] = defaultdict(float)  # these measure at the same time
    for one in measured:
        cost = _seconds_a_process(one, [member.measurement for member in order])
        if cost is None:
            return when
        of_targets[one.target] += cost
    seconds = count * max(of_targets.values(), default=0.0)
    return f"{when}, in about {f'{seconds:.0f} seconds' if seconds < 90 else f'{seconds / 60:.0f} minutes'}"


def _seconds_a_process(measurement: Measurement, fellows: Sequence[Measurement]) -> float | None:
    """How long a process took with all that belongs to it, from one start to the next; None of a single one.

    Whoever took turns shared that time with the others of these `fellows` that did.
    """
    starts = [one.started_at_unix_ns for one in measurement.processes if one.started_at_unix_ns]
    steps = [later - earlier for earlier, later in pairwise(starts) if later > earlier]
    group = measurement.interleaving_group
    sharing = sum(one.interleaving_group == group for one in fellows) if group is not None else 1
    return median(steps) / 1e9 / max(1, sharing) if steps else None


def _is_fit(measurement: Measurement, side: Side, ground: AnswerGround) -> bool:
    """Whether it may win: it has numbers, its outputs are right, and the numbers can be."""
    return (
        measurement.latency is not None
        and measurement.id not in ground.wrong
        and Mark.IMPOSSIBLE not in marks(measurement)
        and bool(side.processes)
        and all(one > 0 for one in side.processes.values())
    )


def _metric(members: Sequence[Rival]) -> RankMetric:
    """Requests that overlap are for throughput, and so is a hint for it; at a given rate it is how long each takes."""
    asked = [one.measurement.configuration for one in members]
    if asked[0].load is Load.OPEN_LOOP:
        return RankMetric.LATENCY
    hints = {one.hint for one in asked}
    wanted = asked[0].load is Load.ASYNC or hints & {Hint.THROUGHPUT, Hint.CUMULATIVE_THROUGHPUT}
    return RankMetric.THROUGHPUT if wanted else RankMetric.LATENCY


def _side(measurement: Measurement, metric: RankMetric, blocks: Blocks) -> Side:
    """What an inference takes, in each block and process: its median latency, or the wall clock ÷ inferences."""
    left_out = _left_out(measurement)
    if metric is RankMetric.LATENCY:
        medians = {one.index: one.median_ns for one in measurement.processes if one.median_ns is not None}
        of_blocks = {(one.process, one.block): one.median_ns for one in blocks.get(measurement.id, ())}
        return Side({key: one for key, one in of_blocks.items() if key not in left_out}, medians)
    batch = measurement.configuration.batch
    rates = {one.index: one.throughput_items_per_s for one in measurement.processes}
    return Side(
        {
            (one.process, one.index): one.duration_ns / one.iterations
            for one in measurement.blocks
            if one.iterations and (one.process, one.index) not in left_out
        },
        {index: 1e9 * batch / rate for index, rate in rates.items() if rate},
    )


def _left_out(measurement: Measurement) -> frozenset[tuple[int, int]]:
    """The blocks that pairs are made without: the disturbed ones, of each process that keeps half of its own."""
    own = Counter(block.process for block in measurement.blocks)
    noisy = [block for block in measurement.blocks if block.disturbances]
    counts = Counter(block.process for block in noisy)
    spared = {(one.process, one.index) for one in noisy if 2 * counts[one.process] <= own[one.process]}
    return measurement.excluded_blocks | spared
