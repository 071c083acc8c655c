"""The sentences of a recommendation: the answer, how far ahead it is, and what is to be known of it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from enginebench_controller.plan.recommend import Goal, RecommendOrder
from enginebench_controller.stats.ranking import ALIKE
from enginebench_controller.stats.summary import PERCENTS
from enginebench_controller.verdicts.answer_words import rounded_up
from enginebench_controller.verdicts.gate.rule import ANYTHING
from enginebench_controller.verdicts.gate.words import interval_words
from enginebench_controller.verdicts.recommend.answer import Recommendation, engine_words, figure_words
from enginebench_controller.verdicts.recommend.rates import RateFound
from enginebench_controller.verdicts.recommend.search import Fate, SearchOutcome
from enginebench_controller.verdicts.recommend.steps import share_words
from enginebench_controller.verdicts.recommend.tried import TriedPoint
from enginebench_proto.agreed.words import Precision

_CLEAR = 1.005
"""From this ratio on, a difference is told."""
_MOST_REASONS = 4
_IN_TABLES = (50, 95, 99)
"""The percentiles that tables of measurements have."""


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
    reasons = Counter((engine_words(one, found.tried), one.why) for one in found.tried if one.why)
    said = "nothing could be measured" + (" so far" if found.outcome is SearchOutcome.UNCONFIRMED else "")
    if len({why for _, why in reasons}) == 1:
        return f"{said}: {next(iter(reasons))[1]}"
    several = Counter(engine for engine, _ in reasons)
    each = [
        f"{engine}{f' ({count} times)' if several[engine] > 1 else ''}: {why}"
        for (engine, why), count in reasons.most_common(_MOST_REASONS)
    ]
    rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(_MOST_REASONS))
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
