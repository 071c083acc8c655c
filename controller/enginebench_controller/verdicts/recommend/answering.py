"""Of the steps of a search and what it came to is made what is stored and shown."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from enginebench_controller.plan.plan import run_command
from enginebench_controller.plan.points import Space, plan_of
from enginebench_controller.plan.recommend import RecommendOrder, limit_words, output_limit_words
from enginebench_controller.records import MachineUse, ModelVersion, TargetSnapshot
from enginebench_controller.records.target import in_environment
from enginebench_controller.verdicts.disturbances import WORTH_A_WORD, others_used, remedy
from enginebench_controller.verdicts.recommend.answer import (
    GainOverDefault,
    OneForAll,
    Recommendation,
    Recommendations,
    engine_words,
    has_models,
    is_recommended,
)
from enginebench_controller.verdicts.recommend.candidates import FRESH
from enginebench_controller.verdicts.recommend.for_all import ForAll
from enginebench_controller.verdicts.recommend.search import SearchAnswer, SearchOutcome
from enginebench_controller.verdicts.recommend.sentences import is_too_far, remarks, sentence
from enginebench_controller.verdicts.recommend.steps import StoredStep, output_differences
from enginebench_controller.verdicts.recommend.tried import TriedPoint, beside, tried_point, with_front

_DIGITS = 8
"""Of a digest, where names do not tell versions apart."""


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
