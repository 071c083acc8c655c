"""What a search for a configuration has come to, as it is stored, and in words."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from enginebench_controller.errors import unknown_word
from enginebench_controller.plan.plan import run_command
from enginebench_controller.plan.points import Space, plan_of
from enginebench_controller.plan.recommend import Goal, RecommendOrder, limit_words, output_limit_words
from enginebench_controller.records import Hint, Load, MachineUse, TargetSnapshot
from enginebench_controller.records.target import in_environment
from enginebench_controller.stats.ranking import ALIKE
from enginebench_controller.stats.summary import PERCENTS
from enginebench_controller.verdicts.answer_words import rounded_up
from enginebench_controller.verdicts.disturbances import WORTH_A_WORD, others_used, remedy
from enginebench_controller.verdicts.gate.rule import ANYTHING
from enginebench_controller.verdicts.gate.words import interval_words
from enginebench_controller.verdicts.recommend.for_all import ForAll
from enginebench_controller.verdicts.recommend.rates import RateFound
from enginebench_controller.verdicts.recommend.search import Fate, SearchAnswer, SearchOutcome
from enginebench_controller.verdicts.recommend.steps import StoredStep, output_differences, share_words
from enginebench_controller.verdicts.recommend.tried import Bounds, TriedPoint, beside, tried_point, with_front
from enginebench_controller.verdicts.words import UNKNOWN

_CLEAR = 1.005
"""From this ratio on, a difference is told."""
_IN_TABLES = (50, 95, 99)
"""The percentiles that tables of measurements have."""


@dataclass(frozen=True)
class GainOverDefault:
    """So many times as good as the default of an engine the best is; None where that could not be run.

    `engine` has its environment, model and device with it where there are several: "torch with net on CUDA:0".
    """

    engine: str
    ratio: Bounds | None
    measured: bool


@dataclass(frozen=True)
class Recommendation:
    """The answer of a search, whole. `best` and `runner_up` are places in `tried`.

    Where nothing holds the limits there is no command, and a plan only of what is recommended.
    `rate` is what was found of the most requests a second, where these were sought; all else is of closed loops then.
    """

    outcome: SearchOutcome
    sentence: str
    goal: Goal
    target: str
    limits: tuple[str, ...]
    best: int | None
    runner_up: int | None
    command: str | None
    plan: Mapping[str, Any] | None
    gains: tuple[GainOverDefault, ...]
    tried: tuple[TriedPoint, ...]
    impossible: Mapping[str, int]
    thinned: int
    rounds: int
    slow_rounds: int
    noise: float
    seconds: float
    steps: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    rate: RateFound | None = None

    @property
    def best_point(self) -> TriedPoint | None:
        """What is recommended, or the nearest to it."""
        return None if self.best is None else self.tried[self.best]

    @property
    def best_words(self) -> str:
        """What the best is to be called."""
        return "nearest" if self.outcome is SearchOutcome.NOTHING else "best"

    @property
    def is_without_figures(self) -> bool:
        """Whether nothing could be measured, for other reasons than a limit of outputs."""
        return self.best is None and all(one.output_difference is None for one in self.tried)

    def words_of(self, one: TriedPoint) -> str:
        """A point in words: its engine, its size, and what is not as everywhere, its model where several were tried."""
        asked = one.configuration
        words = [
            _engine_words(one, self.tried),
            *([one.model] if _has_models(self.tried) else []),
            asked.place_and_size,
        ]
        words += [f"{asked.streams} streams"] if asked.streams > 1 else []
        words += [f"{asked.requests} requests at a time"] if asked.load is not Load.SYNC else []
        words += [f"{asked.hint} hint"] if asked.hint is not Hint.NONE else []
        words += [asked.precision] if asked.precision != "f32" else []
        return ", ".join(words)


@dataclass(frozen=True)
class OneForAll:
    """The configuration for all targets, as the first of them has it; None where none holds the limits on all.

    `ratios`: by target, so many times as good its own best is.
    """

    outcome: SearchOutcome
    sentence: str
    point: TriedPoint | None
    ratios: Mapping[str, Bounds]
    command: str | None
    plan: Mapping[str, Any] | None


@dataclass(frozen=True)
class Recommendations:
    """The answers of a search on several targets: one of each, and one configuration for all."""

    outcome: SearchOutcome
    sentence: str
    targets: tuple[Recommendation, ...]
    for_all: OneForAll


def recommendations(
    order: RecommendOrder, spaces: Sequence[Space], found: Sequence[Recommendation], told: ForAll
) -> Recommendations:
    """What is to be said of several targets. The outcome is the least that is said of one of them or of all."""
    for_all = _one_for_all(order, spaces, found, told)
    outcomes = {*(one.outcome for one in found), told.outcome}
    least = (SearchOutcome.UNCONFIRMED, SearchOutcome.NOTHING, SearchOutcome.CANNOT_TELL, SearchOutcome.FOUND)
    outcome = next(one for one in least if one in outcomes)
    return Recommendations(outcome, for_all.sentence, tuple(found), for_all)


def _one_for_all(
    order: RecommendOrder, spaces: Sequence[Space], found: Sequence[Recommendation], told: ForAll
) -> OneForAll:
    names = ", ".join(one.target for one in found)
    limits = " and ".join(found[0].limits)
    if not told.places:
        said = f"no configuration {f'holds {limits}' if limits else 'can be had'} on all of {names}"
        return OneForAll(told.outcome, said, None, {}, None, None)
    point = found[0].tried[told.places[0]]
    ratios = {one.target: ratio for one, ratio in zip(found, told.ratios, strict=True)}
    plan = plan_of(order, spaces[0].points[told.places[0]]).model_copy(
        update={"targets": tuple(one.target for one in found)}
    )
    name = found[0].words_of(point)
    if told.outcome is SearchOutcome.CANNOT_TELL:
        name = f"cannot tell whether {name} holds {limits or 'up'} on all"
    worst = max(ratios, key=lambda target: ratios[target][0])
    each = ", ".join(f"{ratio[0]:.2f} × on {target}" for target, ratio in ratios.items())
    said = f"for all of {names}: {name}; the own best of {worst} is {ratios[worst][0]:.2f} × as good ({each})"
    document = plan.document() if is_recommended(told.outcome) else None
    return OneForAll(told.outcome, said, point, ratios, run_command(plan), document)


def is_recommended(outcome: SearchOutcome) -> bool:
    """Whether what is called the best is to be deployed, as far as it is known."""
    return outcome not in (SearchOutcome.NOTHING, SearchOutcome.CANNOT_TELL)


def command_label(outcome: SearchOutcome) -> str:
    """What is to stand above a command that measures what is not recommended; "" of what is."""
    return "" if is_recommended(outcome) else "not a recommendation, but what measures it again:"


def answer_document(found: Recommendation | Recommendations) -> dict[str, Any]:
    """The answer, or those of several targets, as JSON-able data, as the store keeps them."""
    document: dict[str, Any] = TypeAdapter(type(found)).dump_python(found, mode="json")
    return document


def read_answer(document: Mapping[str, Any]) -> Recommendation | Recommendations:
    """The answer, or those of several targets, of what the store kept.

    Raises `StoreError` for words of a newer enginebench.
    """
    kind: type[Recommendation | Recommendations] = Recommendations if "targets" in document else Recommendation
    try:
        return TypeAdapter(kind).validate_python(dict(document))
    except ValidationError as error:
        raise unknown_word(error, "the answer of a search") from error


def recommendation(
    order: RecommendOrder, target: TargetSnapshot, space: Space, steps: Sequence[StoredStep], answer: SearchAnswer
) -> Recommendation:
    """What is to be said of a search in this space, after these steps."""
    tried = tuple(tried_point(order, point, answer.told, place, steps) for place, point in enumerate(space.points))
    differences = output_differences(space.points, [one.differences for one in steps])
    variants = [point.variant for point in space.points]
    best_tried = None if answer.best is None else tried[answer.best]
    tried = with_front(
        [
            replace(beside(order, best_tried, one), output_difference=differences.get(of))
            for one, of in zip(tried, variants, strict=True)
        ]
    )
    best = None if answer.best is None else space.points[answer.best]
    rate_per_s = None if answer.rate is None else answer.rate.rate_per_s
    plan = None if best is None else plan_of(order, best, rate_per_s)
    is_nothing = answer.outcome is SearchOutcome.NOTHING
    found = Recommendation(
        outcome=answer.outcome,
        sentence="",
        goal=order.goal,
        target=target.target,
        limits=(*limit_words(order), *output_limit_words(order)),
        best=answer.best,
        runner_up=answer.runner_up,
        command=None if plan is None or is_nothing else run_command(plan),
        plan=plan.document() if plan is not None and is_recommended(answer.outcome) else None,
        gains=() if plan is None or is_nothing else tuple(_gains(tried)),
        tried=tried,
        impossible=dict(space.impossible),
        thinned=space.thinned,
        rounds=answer.rounds,
        slow_rounds=answer.slow_rounds,
        noise=answer.noise,
        seconds=sum(one.taken.seconds for one in steps),
        steps=tuple(one.benchmark_id for one in steps),
        rate=answer.rate,
    )
    return replace(
        found,
        sentence=_sentence(order, found),
        remarks=(*_replaced(steps), *_disturbed(steps), *space.notes, *_unlike(space), *_remarks(order, found)),
    )


def _engine_words(one: TriedPoint, tried: Sequence[TriedPoint]) -> str:
    """Its engine, with the environment where it was tried in several."""
    several = len({each.environment for each in tried if each.engine == one.engine}) > 1
    return in_environment(one.engine, one.environment) if several else one.engine


def _has_models(tried: Sequence[TriedPoint]) -> bool:
    return len({one.model for one in tried}) > 1


def figure_words(goal: Goal, one: TriedPoint) -> str:
    """What a point has of the goal: "310 items/s", "5.1 ms", "120 MB"."""
    if goal in (Goal.THROUGHPUT, Goal.RATE) and one.throughput_items_per_s is not None:
        return (
            f"{one.throughput_items_per_s:,.4g} items/s"
            if one.throughput_items_per_s < 1e4
            else (f"{one.throughput_items_per_s:,.0f} items/s")
        )
    if goal is Goal.LATENCY and one.median_ns is not None:
        return f"{one.median_ns / 1e6:.3g} ms"
    if goal is Goal.MEMORY and one.peak_rss_bytes is not None:
        return f"{one.peak_rss_bytes / 1e6:.3g} MB"
    return UNKNOWN


def limit_sentence(order: RecommendOrder, one: TriedPoint, *, held: bool) -> str:
    """What a point has of each limited figure: "p95 12.9 ms (limit 20 ms, held with 95 % confidence)"."""
    told = []
    for (name, limit, unit), (middle, low, high) in zip(_limited(order), one.limit_share, strict=True):
        end = "∞" if high is None or high >= ANYTHING else f"{high * limit:.3g}"
        known = "held with 95 % confidence" if held else f"{low * limit:.3g} to {end}, as far as it is known"
        told.append(f"{name} {middle * limit:.3g} {unit} (limit {limit:g} {unit}, {known})")
    return ", ".join(told)


def _limited(order: RecommendOrder) -> Iterator[tuple[str, float, str]]:
    """Each limited figure, its limit, and the unit, in the order in which a point has its shares of them."""
    if order.latency_limit is not None:
        yield f"p{order.latency_limit.percent:g}", order.latency_limit.limit_ns / 1e6, "ms"
    if order.memory_limit_bytes is not None:
        yield "memory", order.memory_limit_bytes / 1e6, "MB"


def _without_figures(found: Recommendation) -> str:
    """The first reason of each engine; alike ones once."""
    reasons: dict[str, str] = {}
    for one in found.tried:
        if one.why:
            reasons.setdefault(_engine_words(one, found.tried), one.why)
    said = "nothing could be measured" + (" so far" if found.outcome is SearchOutcome.UNCONFIRMED else "")
    if len(set(reasons.values())) == 1:
        return f"{said}: {next(iter(reasons.values()))}"
    each = "; ".join(f"{engine}: {why}" for engine, why in reasons.items())
    return f"{said}: {each}" if each else said


def _sentence(order: RecommendOrder, found: Recommendation) -> str:
    best = found.best_point
    if best is None:
        return _without_figures(found)
    name, limits = found.words_of(best), " and ".join(found.limits)
    figures = [figure_words(order.goal, best)]
    if found.rate is not None and found.rate.rate_per_s is not None:
        best = replace(best, limit_share=found.rate.of_limit)
        figures = [f"{found.rate.rate_per_s:g} requests/s"]
    figures += [limit_sentence(order, best, held=found.outcome is SearchOutcome.FOUND)] if best.limit_share else []
    if best.output_difference is not None:
        limit = "" if order.output_limit is None else f" (limit {100 * order.output_limit:g} %)"
        figures.append(f"outputs {share_words(best.output_difference)} off those of the model as given{limit}")
    told = f"{name}: {', '.join(figures)}"
    if found.outcome is SearchOutcome.NOTHING:
        return f"nothing meets {limits}; the nearest is {told}"
    if found.outcome is SearchOutcome.CANNOT_TELL:
        return f"cannot tell whether anything holds {limits}; the best that may is {told}"
    if found.outcome is SearchOutcome.UNCONFIRMED:
        return f"unconfirmed, as the search was broken off: {told}"
    if found.rate is not None:
        breaks = found.rate.breaks_at_per_s
        return told if breaks is None else f"{told}; at {breaks:g} requests/s the limit is broken"
    return told + _lead(order, found)


def _doubt(order: RecommendOrder, one: TriedPoint) -> str:
    """That a rival may break a limit, with the figures that say so: ", which may break the limit (p95 11 ms)"."""
    if one.fate is not Fate.LIMIT_NOT_TOLD:
        return ""
    figures = (
        f"{name} {middle * limit:.3g} {unit}"
        for (name, limit, unit), (middle, _, high) in zip(_limited(order), one.limit_share, strict=True)
        if high is None or high >= 1
    )
    return f", which may break the limit ({', '.join(figures)})"


def _lead(order: RecommendOrder, found: Recommendation) -> str:
    rival = None if found.runner_up is None else found.tried[found.runner_up]
    if rival is None or rival.ratio is None:
        return ""
    name, doubt = found.words_of(rival), _doubt(order, rival)
    middle, low, high = rival.ratio
    if high < 1 / _CLEAR:  # cheaper than the best of those that hold the limits, and not known to be one of them
        return f"; {name} does {1 / middle:.2f} × as well and may hold {' and '.join(found.limits)}, too: cannot tell"
    if low <= _CLEAR:
        apart = max(high - 1, 1 - low)
        if apart > ALIKE:
            return f"; not told apart from {name} ({interval_words(low, high)} × as good as it){doubt}"
        return f"; as good within {rounded_up(apart)}: {name}{doubt}"
    if found.goal is Goal.THROUGHPUT:
        return f", {middle:.2f} × the next best ({name}{doubt})"
    return f"; the next best ({name}{doubt}) takes {middle:.2f} × as {'much' if found.goal is Goal.MEMORY else 'long'}"


def _disturbed(steps: Sequence[StoredStep]) -> Iterator[str]:
    use = MachineUse.together(one.others for one in steps if one.others is not None)
    if use is not None and use.share >= WORTH_A_WORD:
        yield f"meanwhile {others_used(use)}: {remedy(use)}"


def _replaced(steps: Sequence[StoredStep]) -> Iterator[str]:
    """A search that is gone on with may find another version where it left one."""
    versions: dict[str, set[str]] = defaultdict(set)
    for one in {one for step in steps for one in step.engines if one.version}:
        versions[in_environment(one.name, one.environment)].add(str(one.version))
    for name, several in sorted(versions.items()):
        if len(several) > 1:
            yield f"{name} was replaced meanwhile, and measured as {' and '.join(sorted(several))}: search anew"


def _unlike(space: Space) -> Iterator[str]:
    """Models none of which was made of another are compared in time alone."""
    names = {one.family: one.case.model.name for one in reversed(space.points)}
    if len(names) > 1:
        yield f"{' and '.join(sorted(names.values()))} are different models, whose outputs are not compared"


def _remarks(order: RecommendOrder, found: Recommendation) -> Iterator[str]:
    if found.goal is Goal.RATE:
        yield "requests arrive at random, whether or not earlier ones are done; all other figures are of closed loops"
    if found.outcome is SearchOutcome.CANNOT_TELL:
        yield f"a longer --budget than {order.budget} tells more"
    elif found.rate is not None and found.rate.rate_per_s is not None and found.rate.breaks_at_per_s is None:
        yield f"higher rates were not confirmed; a longer --budget than {order.budget} may"
    limit = order.latency_limit
    if limit is not None and found.command is not None and limit.percent not in _IN_TABLES:
        stands = "`enginebench show ID --json` of the run has it" if limit.percent in PERCENTS else "no summary has it"
        yield f"the table of `enginebench run` has no p{limit.percent:g}: {stands}"
    if untold := [one for one in found.tried if one.fate is Fate.LIMIT_NOT_TOLD]:
        better = max((1 / one.ratio[0] for one in untold if one.ratio), default=1.0)
        if better > _CLEAR:
            yield f"{len(untold)} that do up to {better:.2f} × as well may hold the limits, too: that could not be told"
    if apart := [one for one in found.tried if one.fate is Fate.NOT_TOLD_APART]:
        yield f"{len(apart)} more could not be told apart from the best in the time"
    if far := sorted({_variant_words(one) for one in found.tried if _is_too_far(order, one)}):
        yield f"refused, as outputs are too far from those of the model as given: {'; '.join(far)}"
    if found.slow_rounds:
        share = f"in {found.slow_rounds} of {found.rounds} rounds"
        yield f"{share} the whole machine was slower; what is said is of the others"
    if found.impossible:
        count = sum(found.impossible.values())
        first = next(iter(found.impossible))
        yield f"{count} points cannot be and were not run: {first}" + (", …" if len(found.impossible) > 1 else "")
    if found.thinned:
        kept = len(found.tried)
        yield f"{found.thinned} points were left out, as at most {kept} are looked at: --among and --fix choose"
    if unseen := sum(one.processes == 0 and one.fate in (Fate.BEATEN, Fate.BREAKS_LIMIT) for one in found.tried):
        yield f"{unseen} of {len(found.tried)} points were never run: what their likes took says that they cannot win"


def _is_too_far(order: RecommendOrder, one: TriedPoint) -> bool:
    limit = order.output_limit
    return limit is not None and one.output_difference is not None and one.output_difference > limit


def _variant_words(one: TriedPoint) -> str:
    """A version or precision on an engine, and how far its outputs are."""
    return f"{one.model} in {one.configuration.precision} on {one.engine} ({share_words(one.output_difference or 0.0)})"


def _gains(tried: Sequence[TriedPoint]) -> Iterator[GainOverDefault]:
    """What the best gains over the default of each engine, of each of its models, environments and devices."""
    defaults = [one for one in tried if one.is_default]
    several = len({one.configuration.device for one in defaults}) > 1
    for one in defaults:
        engine = _engine_words(one, tried) + (f" with {one.model}" if _has_models(tried) else "")
        engine = f"{engine} on {one.configuration.device}" if several else engine
        yield GainOverDefault(engine, one.ratio, one.processes > 0)
