"""What the page of one benchmark reads, kept in memory until the store changes.

Records are frozen, so they are kept as they are: copying a benchmark of 200 cells at every click would take longer than
drawing it.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TypeVar

from enginebench_controller.home import home_to_read
from enginebench_controller.records import Interval, Measurement
from enginebench_controller.records.run import BlockLatency
from enginebench_controller.stats.summary import mean_interval
from enginebench_controller.store.benchmarks import Relatives
from enginebench_controller.store.samples import LatencyCurve
from enginebench_controller.store.store import Store
from enginebench_controller.store.trends import TrendHistory, TrendPoint, left_out_words
from enginebench_controller.verdicts.across import AcrossTargets, across_targets, kind_of
from enginebench_controller.verdicts.alerts import Findings, findings
from enginebench_controller.verdicts.answers import Answer, answers_of
from enginebench_ui.pages.benchmark.shapes.whole import WholeBenchmark, shape
from enginebench_ui.shared.reading import answers as reading_answers
from enginebench_ui.shared.reading import bundle, kept, place, store_at

READ_AHEAD_SAMPLES = 500_000
"""A benchmark with no more samples is read at once: the next cell that somebody looks at is then there already."""

_MOST_KEPT = 1000

R = TypeVar("R")


@kept(8)
def whole(store: Store, benchmark_id: str, target: str = "") -> WholeBenchmark:
    """Return one benchmark, without samples, or what a target has of it. Raises `InputError` when there is none."""
    return shape(bundle(benchmark_id), store.models(), target)


@kept(8)
def across(store: Store, benchmark_id: str, label: str) -> AcrossTargets:
    """Return a benchmark of many targets by the values of a label, or by kind of machine where that is empty."""
    found = bundle(benchmark_id)
    return across_targets(found.measurements, found.snapshots, store.models(), groups(benchmark_id, label))


@kept(8)
def groups(store: Store, benchmark_id: str, label: str) -> Mapping[str, str]:
    """Return what a benchmark's targets are put together by, by target: a label, or the kind of machine without one."""
    if label:
        return {one.name: one.labels.get(label, "") for one in store.targets()}
    return {one.target: kind_of(one.host) for one in bundle(benchmark_id).snapshots}


def answers(benchmark: WholeBenchmark) -> tuple[Answer, ...]:
    """Return which is fastest of each group that people compare; none of many targets, unless one is looked at."""
    return _answers(benchmark.id, benchmark.target) if benchmark.target else reading_answers(benchmark.id)


@kept(8)
def _answers(store: Store, benchmark_id: str, target: str) -> tuple[Answer, ...]:
    found = whole(benchmark_id, target).bundle
    return answers_of(store, found.benchmark, found.measurements, store.models())


@kept(8)
def relatives(store: Store, benchmark_id: str) -> Relatives:
    """Return a benchmark's re-runs, and others that it can be compared with."""
    return store.relatives(benchmark_id)


@kept(8)
def trend(store: Store, measurement_id: str) -> tuple[TrendPoint, ...]:
    """Return a measurement and its like in all benchmarks, oldest first."""
    return store.trend(measurement_id)


@kept(8)
def left_out_of_trend(store: Store, measurement_id: str) -> str | None:
    """Return, in a sentence, what trends of the model of a measurement leave out, as a wrong clock dated it."""
    measured = store.measurement(measurement_id)
    return left_out_words(store.misdated(measured.model_digest, measured.target))


@kept(8)
def trend_alerts(store: Store, measurement_id: str) -> Findings:
    """Return where histories of the configuration of a measurement changed, with what gates said of that."""
    measured = store.measurement(measurement_id)  # a copy for a batch where the page shows its original
    histories = store.histories(measured.model_digest, measured.target)
    return findings(home_to_read(), [one for one in histories if _is_shown(one, measured)])


def _is_shown(history: TrendHistory, measurement: Measurement) -> bool:
    """Whether a history is of the configuration of a measurement, on whatever engine and with whatever options."""
    chosen, asked = history.configuration, measurement.configuration
    axes = ("device", "batch", "cores", "cluster", "streams", "precision", "hint", "load", "requests", "arrivals")
    return all(getattr(chosen, axis) == getattr(asked, axis) for axis in axes)


def curves(wanted: Sequence[str], benchmark: WholeBenchmark) -> Mapping[str, LatencyCurve]:
    """Return the reduced latencies of measurements, by id; those without samples are left out."""
    there = _curves()
    ahead = [one.id for one in benchmark.measurements] if benchmark.samples <= READ_AHEAD_SAMPLES else []
    excluded = {one.id: one.excluded_blocks for one in benchmark.measurements}
    _complete(there, wanted, ahead, lambda store, ids: store.latency_curves(ids, excluded))
    return {one: found for one in wanted if (found := there[one]) is not None}


@kept(8)
def _curves(store: Store) -> dict[str, LatencyCurve | None]:
    return {}


def blocks(wanted: Sequence[str]) -> Mapping[str, tuple[BlockLatency, ...]]:
    """Return what the latencies of each block add up to, by measurement id; those without samples are left out."""
    there = _blocks()
    _complete(there, wanted, (), lambda store, ids: store.block_latencies(ids))
    return {one: found for one in wanted if (found := there[one]) is not None}


@kept(8)
def _blocks(store: Store) -> dict[str, tuple[BlockLatency, ...] | None]:
    return {}


def mean_intervals(measurements: Iterable[Measurement]) -> dict[str, Interval | None]:
    """Return the intervals of mean latencies, by measurement id."""
    timed = [one for one in measurements if one.latency is not None]
    found = blocks([one.id for one in timed])
    return {one.id: mean_interval(found.get(one.id, ()), one.excluded_blocks) for one in timed}


def store() -> Store:
    """Return the store, for what is not kept in memory."""
    return store_at(place()[0])


def _complete(
    there: MutableMapping[str, R | None],
    wanted: Sequence[str],
    ahead: Sequence[str],
    read: Callable[[Store, list[str]], Mapping[str, R]],
) -> None:
    """Read what is not there yet; what has no samples is there as None, so that it is asked for once."""
    if not (missing := [one for one in wanted if one not in there]):
        return
    if len(there) > _MOST_KEPT:
        there.clear()
        missing = list(wanted)
    asked = list(dict.fromkeys([*missing, *(one for one in ahead if one not in there)]))
    found = read(store(), asked)
    there.update({one: found.get(one) for one in asked})
