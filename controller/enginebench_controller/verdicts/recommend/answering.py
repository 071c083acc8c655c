"""What is stored and shown of a search: its steps and what it came to, and the sentences that say so."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from enginebench_controller.plan.plan import run_command
from enginebench_controller.plan.points import Space, plan_of
from enginebench_controller.plan.recommend import Goal, RecommendOrder, limit_words, output_limit_words
from enginebench_controller.records import MachineUse, ModelVersion, TargetSnapshot
from enginebench_controller.records.target import in_environment
from enginebench_controller.stats.ranking import ALIKE
from enginebench_controller.stats.summary import PERCENTS
from enginebench_controller.verdicts.answer_words import rounded_up
from enginebench_controller.verdicts.disturbances import WORTH_A_WORD, others_used, remedy
from enginebench_controller.verdicts.gate.rule import ANYTHING
from enginebench_controller.verdicts.gate.words import interval_words
from enginebench_controller.verdicts.recommend.answer import (
    GainOverDefault,
    OneForAll,
    Recommendation,
    Recommendations,
    engine_words,
    figure_words,
    has_models,
    is_recommended,
)
from enginebench_controller.verdicts.recommend.candidates import FRESH
from enginebench_controller.verdicts.recommend.for_all import ForAll
from enginebench_controller.verdicts.recommend.rates import RateFound
from enginebench_controller.verdicts.recommend.search import Fate, SearchAnswer, SearchOutcome
from enginebench_controller.verdicts.recommend.steps import StoredStep, output_differences, share_words
from enginebench_controller.verdicts.recommend.tried import TriedPoint, beside, tried_point, with_front
from enginebench_controller.verdicts.words import whichever_process
from enginebench_proto.agreed.words import Precision

_DIGITS = 8
"""Of a digest, where names do not tell versions apart."""

_CLEAR = 1.005
"""From this ratio on, a difference is told."""
MOST_REASONS = 4
"""So many reasons are told one by one, the commonest: of many points there may be as many."""
_IN_TABLES = (50, 95, 99)
"""The percentiles that tables of measurements have."""


def recommendation(
    order: RecommendOrder, target: TargetSnapshot, space: Space, steps: Sequence[StoredStep], answer: SearchAnswer
) -> Recommendation:
    """What is to be said of a search in this space, after these steps."""
    names = _model_names(space)
    tried = tuple(
        tried_point(point, answer, place, steps, names[point.case.model.original_digest])
        for place, point in enumerate(space.points)
    )
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
        slow_rounds=len(answer.slow_rounds),
        noise=answer.noise,
        seconds=sum(one.taken.seconds for one in steps),
        steps=tuple(one.benchmark_id for one in steps),
        rate=answer.rate,
        is_too_far=any(is_too_far(order, one) for one in tried),
    )
    return replace(
        found,
        sentence=sentence(order, found),
        remarks=(*_replaced(steps), *_disturbed(steps), *space.notes, *_unlike(space), *remarks(order, found)),
    )


def _model_names(space: Space) -> dict[str, str]:
    """By the digest of each version, what tells it from the others: its name, unless several are called so."""
    versions = {one.case.model.original_digest: one.case.model for one in space.points}
    counts = Counter(one.name for one in versions.values())
    return {
        digest: one.name if counts[one.name] == 1 else f"{one.name} ({', '.join(_told_by(digest, one))})"
        for digest, one in versions.items()
    }


def _told_by(digest: str, version: ModelVersion) -> Iterator[str]:
    yield digest[:_DIGITS]
    made = version.derivation
    if made is not None and made.calibration is not None and made.calibration.folder:
        yield f"calibrated on {made.calibration.folder}"


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
        told_by_processes = " and ".join(limit_words(order))
        holds = f"holds {told_by_processes}" if told_by_processes else "is the best"
        name = f"cannot tell whether {name} {holds} on all{_for_want(told, found)}"
    if told.outcome is SearchOutcome.UNCONFIRMED:
        name = f"unconfirmed, as the search was broken off: {name}"
    worst = max(ratios, key=lambda target: ratios[target][0])
    each = ", ".join(f"{ratio[0]:.2f} × on {target}" for target, ratio in ratios.items())
    said = f"for all of {names}: {name}; the own best of {worst} is {ratios[worst][0]:.2f} × as good ({each})"
    document = plan.document() if is_recommended(told.outcome) else None
    return OneForAll(told.outcome, said, point, ratios, run_command(plan), document)


def _for_want(told: ForAll, found: Sequence[Recommendation]) -> str:
    """Where there was no time for it: ", as there was no time for five fresh processes on board"."""
    names = [one.target for number, one in enumerate(found) if number in told.lacking]
    return f", as there was no time for {FRESH} fresh processes of it on {' and '.join(names)}" if names else ""


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


def _gains(tried: Sequence[TriedPoint]) -> Iterator[GainOverDefault]:
    """What the best gains over the default of each engine, of each of its models, environments and devices."""
    defaults = [one for one in tried if one.is_default]
    several = len({one.configuration.device for one in defaults}) > 1
    for one in defaults:
        engine = engine_words(one, tried) + (f" with {one.model}" if has_models(tried) else "")
        engine = f"{engine} on {one.configuration.device}" if several else engine
        yield GainOverDefault(engine, one.ratio, one.processes > 0)


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
    """The reasons of each engine, with how many points had each where there are several; alike ones once."""
    reasons = Counter((engine_words(one, found.tried), whichever_process(one.why)) for one in found.tried if one.why)
    said = "nothing could be measured" + (" so far" if found.outcome is SearchOutcome.UNCONFIRMED else "")
    if len({why for _, why in reasons}) == 1:
        return f"{said}: {next(iter(reasons))[1]}"
    several = Counter(engine for engine, _ in reasons)
    each = [
        f"{engine}{f' ({count} times)' if several[engine] > 1 else ''}: {why}"
        for (engine, why), count in reasons.most_common(MOST_REASONS)
    ]
    rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(MOST_REASONS))
    each += [f"{rest} more: other reasons"] if rest else []
    return f"{said}: {'; '.join(each)}" if each else said


def sentence(order: RecommendOrder, found: Recommendation) -> str:
    """The answer in one sentence, with the figures that it rests on."""
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
        broke = ": all that ran broke a limit, by no more than a slower machine would explain; the nearest is"
        which = broke if best.fate is Fate.NEAREST else "; the best that may is"
        return f"cannot tell whether anything holds {limits}{which} {told}"
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
    next_best = f"the next best{_of_those_that_ran(found)} ({name}{doubt})"
    if found.goal is Goal.THROUGHPUT:
        return f", {middle:.2f} × {next_best}"
    return f"; {next_best} takes {middle:.2f} × as {'much' if found.goal is Goal.MEMORY else 'long'}"


def _of_those_that_ran(found: Recommendation) -> str:
    ran = sum(one.processes > 0 for one in found.tried)
    return f" of the {ran} that ran" if any(map(_may_be_better, found.tried)) else ""


def _may_be_better(one: TriedPoint) -> bool:
    """Whether it never ran, for want of time, and its likes do not say that it cannot be the best."""
    return one.fate is Fate.NOT_TRIED and one.ratio is not None


def remarks(order: RecommendOrder, found: Recommendation) -> Iterator[str]:
    """What else is to be known of an answer: what it does not tell, and of what it does not speak."""
    if found.goal is Goal.RATE:
        yield "requests arrive at random, whether or not earlier ones are done; all other figures are of closed loops"
    if found.outcome is SearchOutcome.CANNOT_TELL and not _failed_at_rates(found.rate):
        yield f"a longer --budget than {order.budget} tells more"
    elif found.rate is not None and found.rate.rate_per_s is not None and _is_open_above(found.rate):
        yield f"higher rates were not confirmed; a longer --budget than {order.budget} may"
    for one in found.rate.refused if found.rate is not None else ():
        name = found.words_of(found.tried[one.candidate])
        yield f"{name} is refused at {one.rate_per_s:g} requests/s: {one.why}"
    limit = order.latency_limit
    if limit is not None and found.command is not None and limit.percent not in _IN_TABLES:
        stands = "`enginebench show ID --json` of the run has it" if limit.percent in PERCENTS else "no summary has it"
        yield f"the table of `enginebench run` has no p{limit.percent:g}: {stands}"
    yield from _of_the_others(order, found)
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


def _is_open_above(rate: RateFound) -> bool:
    """Whether a higher rate broke no limit, nor anything else."""
    return rate.breaks_at_per_s is None and not _failed_at_rates(rate)


def _failed_at_rates(rate: RateFound | None) -> bool:
    """Whether the one that is named failed at a rate, as all others did that are not surely worse: no time mends it."""
    return rate is not None and rate.candidate in {one.candidate for one in rate.refused}


def _of_the_others(order: RecommendOrder, found: Recommendation) -> Iterator[str]:
    """Of points that are not the answer: how many may be as good, were never run, or are refused."""
    if untold := [one for one in found.tried if one.fate is Fate.LIMIT_NOT_TOLD]:
        better = max((1 / one.ratio[0] for one in untold if one.ratio), default=1.0)
        if better > _CLEAR:
            yield f"{len(untold)} that do up to {better:.2f} × as well may hold the limits, too: that could not be told"
    if apart := [one for one in found.tried if one.fate is Fate.NOT_TOLD_APART]:
        yield f"{len(apart)} more could not be told apart from the best in the time"
    if never := sum(map(_may_be_better, found.tried)):
        longer = f"a longer --budget than {order.budget}, --fix or --among would tell"
        yield f"{never} of {len(found.tried)} points were never run for want of time, and may be better: {longer}"
    if far := sorted({_variant_words(one) for one in found.tried if is_too_far(order, one)}):
        yield f"refused, as outputs are too far from those of the model as given: {'; '.join(far)}"
    if unseen := sum(one.processes == 0 and one.fate in (Fate.BEATEN, Fate.BREAKS_LIMIT) for one in found.tried):
        yield f"{unseen} of {len(found.tried)} points were never run: what their likes took says that they cannot win"


def is_too_far(order: RecommendOrder, one: TriedPoint) -> bool:
    """Whether outputs of its version and precision are farther from those of the model as given than is allowed."""
    limit = order.output_limit
    return limit is not None and one.output_difference is not None and one.output_difference > limit


def _variant_words(one: TriedPoint) -> str:
    """A version or precision on an engine, and how far its outputs are."""
    asked = one.configuration.precision
    precision = f" in {asked}" if asked != Precision.F32 else ""
    return f"{one.model}{precision} on {one.engine} ({share_words(one.output_difference or 0.0)})"
