"""What a search for a configuration has come to, as it is stored, and in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from enginebench_controller.plan.recommend import Goal
from enginebench_controller.records import Hint, Load
from enginebench_controller.records.target import in_environment
from enginebench_controller.typed_values import unknown_word
from enginebench_controller.verdicts.recommend.rates import RateFound
from enginebench_controller.verdicts.recommend.search import Fate, SearchOutcome
from enginebench_controller.verdicts.recommend.tried import Bounds, TriedPoint
from enginebench_controller.verdicts.words import UNKNOWN


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
    `is_too_far` if outputs of some are farther from those of the model as given than was allowed.
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
    is_too_far: bool = False

    @property
    def best_point(self) -> TriedPoint | None:
        """What is recommended, or the nearest to it."""
        return None if self.best is None else self.tried[self.best]

    @property
    def best_words(self) -> str:
        """What the best is to be called."""
        is_nearest = self.best_point is not None and self.best_point.fate is Fate.NEAREST
        return "nearest" if is_nearest or self.outcome is SearchOutcome.NOTHING else "best"

    @property
    def is_without_figures(self) -> bool:
        """Whether nothing could be measured, for other reasons than a limit of outputs."""
        return self.best is None and not self.is_too_far

    def words_of(self, one: TriedPoint) -> str:
        """A point in words: its engine, its size, and what is not as everywhere, its model where several were tried."""
        asked = one.configuration
        words = [
            engine_words(one, self.tried),
            *([one.model] if has_models(self.tried) else []),
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


def engine_words(one: TriedPoint, tried: Sequence[TriedPoint]) -> str:
    """Its engine, with the environment where it was tried in several."""
    several = len({each.environment for each in tried if each.engine == one.engine}) > 1
    return in_environment(one.engine, one.environment) if several else one.engine


def has_models(tried: Sequence[TriedPoint]) -> bool:
    """Whether several versions were tried."""
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
