"""The three figures of a measurement, ms/item, ms/batch and items/s, each with its interval, by median or mean."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from enginebench_controller.records import Interval, IntervalMethod, Measurement
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.verdicts.answers import RankMetric
from enginebench_controller.verdicts.doubts import flags
from enginebench_ui.shared.text import number


class Statistic(StrEnum):
    """Which latency stands for all of a measurement's. Throughput is by wall clock, whichever it is."""

    MEDIAN = "median"
    MEAN = "mean"


@dataclass(frozen=True)
class Lens:
    """How measurements are looked at, and what is known of them beyond their own records, by measurement id.

    `means` are the intervals of mean latencies, unknown where none is there; `problems` say what is wrong with outputs;
    `open` are those of which the answers cannot tell that they are the best, or that others, whose ids are there, are
    not as good; `outrun` are those that the answers have slower than others: by what, by the others' ids, the fastest
    first.
    """

    statistic: Statistic = Statistic.MEDIAN
    means: Mapping[str, Interval | None] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    open: Mapping[str, Collection[str]] = field(default_factory=dict)
    outrun: Mapping[str, Mapping[str, RankMetric]] = field(default_factory=dict)

    def remarks(self, measurement: Measurement) -> tuple[str, ...]:
        """All that a reader of a measurement's numbers is to be told."""
        problem = self.problems.get(measurement.id, "")
        return flags(measurement) + ((problem,) if problem else ())


@dataclass(frozen=True)
class CellRemark:
    """What to know of a measurement before trusting its numbers, and of which one."""

    about: str
    sentence: str


UNITS: Mapping[Quantity, str] = {
    Quantity.TIME_PER_ITEM: "ms/item",
    Quantity.TIME_PER_BATCH: "ms/batch",
    Quantity.ITEMS_PER_S: "items/s",
}


def quantities(batch: int) -> tuple[Quantity, ...]:
    """Return the figures of a batch that say different things: of one item, its time is that of the batch."""
    return tuple(one for one in Quantity if batch > 1 or one is not Quantity.TIME_PER_ITEM)


METHODS: Mapping[IntervalMethod, str] = {
    IntervalMethod.BLOCKS: "over blocks",
    IntervalMethod.BLOCKS_T: "over blocks",
    IntervalMethod.PROCESSES_T: "over processes",
    IntervalMethod.ITERATIONS_T: "over iterations",
}


@dataclass(frozen=True)
class Value:
    """A figure in its unit, None where there is none; `interval` None where nothing bounds it."""

    value: float | None
    interval: Interval | None = None

    @property
    def low(self) -> float | None:
        """The lower end of the interval."""
        return self.interval.low if self.interval else None

    @property
    def high(self) -> float | None:
        """The upper end of the interval."""
        return self.interval.high if self.interval else None

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval ÷ the value."""
        return self.interval.half_width(self.value) / self.value if self.interval and self.value else None


def figure_of(measurement: Measurement | None, figure: Quantity, lens: Lens) -> Value:
    """Return a figure of a measurement; nothing of one that is not there or has no numbers."""
    if measurement is None or measurement.latency is None:
        return Value(None)
    if figure is Quantity.ITEMS_PER_S:
        return Value(measurement.throughput_items_per_s, measurement.throughput_interval)
    items = measurement.configuration.batch if figure is Quantity.TIME_PER_ITEM else 1
    latency_ns, interval = _latency(measurement, lens)
    return Value(latency_ns / 1e6 / items, scaled(interval, 1 / 1e6 / items))


def scaled(interval: Interval | None, factor: float) -> Interval | None:
    """The interval in another unit."""
    if interval is None:
        return None
    return Interval(interval.low * factor, interval.high * factor, interval.level, interval.method)


def interval_text(interval: Interval | None) -> str:
    """Say where a value lies and how that is known: "4.931 to 5.062 (95 % over processes)"."""
    if interval is None:
        return "no interval: too few blocks or processes"
    return (
        f"{number(interval.low)} to {number(interval.high)} ({100 * interval.level:.0f} % {METHODS[interval.method]})"
    )


def _latency(measurement: Measurement, lens: Lens) -> tuple[float, Interval | None]:
    latency = measurement.latency
    assert latency is not None  # noqa: S101  # asked before
    if lens.statistic is Statistic.MEAN:
        return latency.mean_ns, lens.means.get(measurement.id)
    return latency.median_ns, latency.median_interval
