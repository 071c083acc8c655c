"""What the page of one benchmark reads, kept in memory until the store changes.

Records are frozen, so they are kept as they are: copying a benchmark of 200 cells at every click would take longer than
drawing it.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import TypeVar

from enginebench_controller.files.reports import benchmark_html
from enginebench_controller.home import home_to_read
from enginebench_controller.records import Interval, Measurement
from enginebench_controller.records.run import BlockLatency
from enginebench_controller.stats.comparison import PRACTICAL
from enginebench_controller.stats.summary import mean_interval
from enginebench_controller.store.benchmarks import Relatives
from enginebench_controller.store.samples import LatencyCurve
from enginebench_controller.store.store import Store
from enginebench_controller.store.trends import TrendPoint
from enginebench_controller.verdicts.across import AcrossTargets, across_targets, kind_of
from enginebench_controller.verdicts.alerts import Confirmation, HistoryAlerts, alerts, known
from enginebench_controller.verdicts.answers import Answer, answers_of
from enginebench_controller.verdicts.subjects import compare_benchmarks
from enginebench_controller.verdicts.words import first_failures
from enginebench_ui.pages.benchmark.shapes.whole import WholeBenchmark, shape
from enginebench_ui.shared.reading import answers as reading_answers
from enginebench_ui.shared.reading import bundle, kept, place, store_at

READ_AHEAD_SAMPLES = 500_000
"""A benchmark with no more samples is read at once: the next cell that somebody looks at is then there already."""

_MOST_KEPT = 1000

R = TypeVar("R")

Findings = tuple[tuple[HistoryAlerts, tuple[Confirmation | None, ...]], ...]


def whole(benchmark_id: str, target: str = "") -> WholeBenchmark:
    """Return one benchmark, without samples, or what a target has of it. Raises `InputError` when there is none."""
    return _whole(*place(), benchmark_id, target)


def across(benchmark_id: str, label: str) -> AcrossTargets:
    """Return a benchmark of many targets by the values of a label, or by kind of machine where that is empty."""
    return _across(*place(), benchmark_id, label)


def groups(benchmark_id: str, label: str) -> Mapping[str, str]:
    """Return what a benchmark's targets are put together by, by target: a label, or the kind of machine without one."""
    return _groups(*place(), benchmark_id, label)


def answers(benchmark: WholeBenchmark) -> tuple[Answer, ...]:
    """Return which is fastest of each group that people compare; none of many targets, unless one is looked at."""
    return _answers(*place(), benchmark.id, benchmark.target) if benchmark.target else reading_answers(benchmark.id)


def relatives(benchmark_id: str) -> Relatives:
    """Return a benchmark's re-runs, and others that it can be compared with."""
    return _relatives(*place(), benchmark_id)


def trend(measurement_id: str) -> tuple[TrendPoint, ...]:
    """Return a measurement and its like in all benchmarks, oldest first."""
    return _trend(*place(), measurement_id)


def trend_alerts(measurement_id: str) -> Findings:
    """Return where histories changed of the version that was measured, on its target, with what gates said of that."""
    return _trend_alerts(*place(), measurement_id)


def curves(wanted: Sequence[str], benchmark: WholeBenchmark) -> Mapping[str, LatencyCurve]:
    """Return the reduced latencies of measurements, by id; those without samples are left out."""
    kept = _curves(*place())
    ahead = [one.id for one in benchmark.measurements] if benchmark.samples <= READ_AHEAD_SAMPLES else []
    excluded = {one.id: one.excluded_blocks for one in benchmark.measurements}
    _complete(kept, wanted, ahead, lambda store, ids: store.latency_curves(ids, excluded))
    return {one: found for one in wanted if (found := kept[one]) is not None}


def blocks(wanted: Sequence[str]) -> Mapping[str, tuple[BlockLatency, ...]]:
    """Return what the latencies of each block add up to, by measurement id; those without samples are left out."""
    kept = _blocks(*place())
    _complete(kept, wanted, (), lambda store, ids: store.block_latencies(ids))
    return {one: found for one in wanted if (found := kept[one]) is not None}


def mean_intervals(measurements: Iterable[Measurement]) -> dict[str, Interval | None]:
    """Return the intervals of mean latencies, by measurement id."""
    timed = [one for one in measurements if one.latency is not None]
    found = blocks([one.id for one in timed])
    return {one.id: mean_interval(found.get(one.id, ()), one.excluded_blocks) for one in timed}


def report(benchmark_id: str) -> str:
    """Return a benchmark compared with itself, as a page for others that begins with its answers. Calls no page."""
    home = home_to_read()
    benchmark = home.store.benchmark(benchmark_id)
    found = compare_benchmarks(home, [benchmark], PRACTICAL)
    missing = [line.strip() for line in first_failures(found.given)]
    return benchmark_html(f"{benchmark.name} ({benchmark.id})", found.compared, missing=missing, answers=found.answers)


def store() -> Store:
    """Return the store, for what is not kept in memory."""
    return store_at(place()[0])


def _complete(
    kept: MutableMapping[str, R | None],
    wanted: Sequence[str],
    ahead: Sequence[str],
    read: Callable[[Store, list[str]], Mapping[str, R]],
) -> None:
    """Read what is not there yet; what has no samples is kept as None, so that it is asked for once."""
    if not (missing := [one for one in wanted if one not in kept]):
        return
    if len(kept) > _MOST_KEPT:
        kept.clear()
        missing = list(wanted)
    asked = list(dict.fromkeys([*missing, *(one for one in ahead if one not in kept)]))
    found = read(store(), asked)
    kept.update({one: found.get(one) for one in asked})


@kept(8)
def _whole(path: str, generation: str, benchmark_id: str, target: str) -> WholeBenchmark:
    return shape(bundle(benchmark_id), store_at(path).models(), target)


@kept(8)
def _across(path: str, generation: str, benchmark_id: str, label: str) -> AcrossTargets:
    found, own = bundle(benchmark_id), store_at(path)
    return across_targets(found.measurements, found.snapshots, own.models(), groups(benchmark_id, label))


@kept(8)
def _groups(path: str, generation: str, benchmark_id: str, label: str) -> dict[str, str]:
    if label:
        return {one.name: one.labels.get(label, "") for one in store_at(path).targets()}
    return {one.target: kind_of(one.host) for one in bundle(benchmark_id).snapshots}


@kept(8)
def _answers(path: str, generation: str, benchmark_id: str, target: str) -> tuple[Answer, ...]:
    found, own = whole(benchmark_id, target).bundle, store_at(path)
    return answers_of(own, found.benchmark, found.measurements, own.models())


@kept(8)
def _relatives(path: str, generation: str, benchmark_id: str) -> Relatives:
    return store_at(path).relatives(benchmark_id)


@kept(8)
def _trend(path: str, generation: str, measurement_id: str) -> tuple[TrendPoint, ...]:
    return store_at(path).trend(measurement_id)


@kept(8)
def _trend_alerts(path: str, generation: str, measurement_id: str) -> Findings:
    measured = store_at(path).measurement(measurement_id)  # a copy for a batch where the page shows its original
    found = [alerts(one) for one in store_at(path).histories(measured.model_digest, measured.target)]
    return tuple((one, known(home_to_read(), one.alerts)) for one in found)


@kept(8)
def _curves(path: str, generation: str) -> dict[str, LatencyCurve | None]:
    return {}


@kept(8)
def _blocks(path: str, generation: str) -> dict[str, tuple[BlockLatency, ...] | None]:
    return {}
