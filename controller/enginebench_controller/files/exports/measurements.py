"""Measurements for programs that watch numbers: GitHub Action Benchmark, Bencher, Apache Otava, OpenMetrics, trackers.

A number keeps its name from run to run, so that it has a history there: the name says what was asked for, never a
version or an id. What is not known is left out, never 0. The formats are those of

- https://github.com/benchmark-action/github-action-benchmark, README.md and src/extract.ts: as a file of theirs has one
  direction, `gab` has what is better when smaller, and `gab-bigger` what is better when bigger;
- https://bencher.dev/docs/reference/bencher-metric-format, a JSON Schema; Bencher itself knows the measures latency, in
  nanoseconds, and throughput (lib/bencher_json/src/project/measure/built_in.rs);
- https://github.com/apache/otava, docs/CSV.md and otava/importer.py: a row a point, with a number for every metric;
- https://github.com/OpenObservability/OpenMetrics, specification/OpenMetrics.md: names end with their base units.
"""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from enginebench_controller.errors import InputError
from enginebench_controller.files.csv_cells import cell
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.sending import WRONG_OUTPUTS, MetricPoint
from enginebench_controller.files.new_file import kept
from enginebench_controller.records import Hint, Interval, LatencySummary, Measurement
from enginebench_controller.records.target import in_environment
from enginebench_controller.store.store import Store
from enginebench_controller.store.trends import TrendHistory, TrendPoint
from enginebench_controller.verdicts.disturbances import summarize_evidence
from enginebench_controller.verdicts.doubts import status_words
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.soundness import Soundness

_MOST_NAMED = 8


@dataclass(frozen=True)
class _Unit:
    """A unit in words and as our names end with it; its base unit as OpenMetrics and as UCUM have it, and how many of
    this make one of those.
    """

    words: str
    suffix: str
    base: str
    code: str
    in_base: float = 1


_NS = _Unit("ns", "ns", "seconds", "s", 1e9)
_BYTES = _Unit("bytes", "bytes", "bytes", "By")
_JOULES = _Unit("J", "j", "joules", "J")
_RATE = _Unit("items/s", "items_per_s", "items_per_second", "{item}/s")
_SHARE = _Unit("", "share", "ratio", "1")
_COUNT = _Unit("", "", "", "1")


@dataclass(frozen=True)
class _Number:
    """One number of a measurement, in its unit, with its interval where there is one."""

    name: str
    meaning: str
    unit: _Unit
    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Told:
    """A measurement as these formats tell it: what it is called by, its numbers, and how it came to them, in words.

    `problem` says what is wrong with its outputs; None where nothing is.
    """

    measurement: Measurement
    labels: Mapping[str, str]
    problem: str | None

    @property
    def name(self) -> str:
        """As one text: "resnet50 on onnxruntime (target=local, device=CPU, batch=1, …)"."""
        (_, model), (_, engine), *rest = self.labels.items()
        return f"{model} on {engine} ({', '.join(f'{name}={value}' for name, value in rest)})"

    @property
    def numbers(self) -> tuple[_Number, ...]:
        """What programs watch."""
        return _numbers(self.measurement)

    @property
    def evidence(self) -> Mapping[str, str]:
        """How it came to them, by words that no number is called by."""
        return _evidence(self.measurement, self.problem)

    @property
    def points(self) -> tuple[MetricPoint, ...]:
        """Its numbers and the ends of their intervals, each by itself, and what tells how much they are worth."""
        return tuple(_points((*self.numbers, *_circumstances(self.measurement))))


def export_measurements(
    store: Store,
    measurements: Sequence[Measurement],
    judged: Soundness,
    form: ExportFormat,
    path: Path | None,
    *,
    force: bool = False,
) -> str | None:
    """Write measurements to `path`, or return the text where there is none. `judged` knows whose outputs are wrong.

    Raises `InputError` for a format that measurements do not have, where nothing would be in it, for several histories
    in one file, and where the file cannot be written.
    """
    if form is ExportFormat.OTAVA:
        return kept(to_otava(_history(store, measurements)), path, force=force)
    if form not in _TEXTS:
        known = ", ".join((*_TEXTS, ExportFormat.OTAVA))
        way = '; `enginebench query "FROM measurements" --csv` prints a table' if form is ExportFormat.CSV else ""
        raise InputError(
            f"measurements cannot be exported as {form}, only as {known}, or as json with their benchmark{way}"
        )
    return kept(_TEXTS[form](told(measurements, judged.problems)), path, force=force)


def told(measurements: Iterable[Measurement], problems: Mapping[str, str]) -> tuple[Told, ...]:
    """Each with labels that no other has: what was asked for several times is numbered.

    `problems` says by id what is wrong with outputs.
    """
    seen: Counter[tuple[tuple[str, str], ...]] = Counter()
    found = []
    for one in measurements:
        labels = _labels(one)
        alike = tuple(labels.items())
        seen[alike] += 1
        if seen[alike] > 1:
            labels["number"] = str(seen[alike])
        found.append(Told(one, labels, problems.get(one.id)))
    return tuple(found)


def to_gab(measurements: Sequence[Told], *, bigger: bool = False) -> str:
    """An array of the numbers that are better when smaller, or when `bigger`; evidence stands in `extra`, a line each.

    `range` is the distance to the farther end of the 95 % interval. Raises `InputError` without any number.
    """
    found = _some_numbers(measurements, lambda number: (number.unit is _RATE) is bigger)
    return json.dumps([_entry(one, number) for one, number in found], indent=2, allow_nan=False) + "\n"


def _entry(one: Told, number: _Number) -> dict[str, object]:
    entry = {"name": f"{one.name} {number.name}", "unit": number.unit.words, "value": number.value}
    evidence, interval = dict(one.evidence), number.interval
    if interval is not None:
        entry["range"] = f"± {max(interval.high - number.value, number.value - interval.low):.9g}"
        ends = f"{interval.low:.9g} to {interval.high:.9g} {number.unit.words} ({interval.method})"
        evidence = {f"{100 * interval.level:g} % interval": ends, **evidence}
    return {**entry, "extra": "\n".join(f"{name}: {value}" for name, value in evidence.items())}


def to_bmf(measurements: Sequence[Told]) -> str:
    """All numbers by name and measure, the ends of their 95 % intervals as `lower_value` and `upper_value`.

    An interval that does not hold the number is left out: with five processes or more it may lie beside it. The format
    has no place for evidence. Raises `InputError` without any number.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one, number in _some_numbers(measurements):
        interval, ends = number.interval, {}
        if interval is not None and interval.low <= number.value <= interval.high:
            ends = {"lower_value": interval.low, "upper_value": interval.high}
        found.setdefault(one.name, {})[number.name] = {"value": number.value, **ends}
    return json.dumps(found, indent=2, allow_nan=False) + "\n"


def _some_numbers(
    measurements: Sequence[Told], are_wanted: Callable[[_Number], bool] = lambda _: True
) -> list[tuple[Told, _Number]]:
    """Those that are wanted. Raises `InputError` where there are none, as no reader takes an empty file."""
    found = [(one, number) for one in measurements for number in one.numbers if are_wanted(number)]
    if not found:
        raise InputError(f"there is nothing to export: of {len(measurements)} measurements none has numbers")
    return found


def to_openmetrics(measurements: Sequence[Told]) -> str:
    """A gauge for each number, two more for the ends of its 95 % interval, and `enginebench_measurement_info` with the
    evidence, also of what failed.
    """
    families: dict[str, list[str]] = {}
    for one in measurements:
        for point in (*one.points, *_points(_began(one.measurement))):
            unit = point.base
            name = "_".join(filter(None, ("enginebench", point.name, unit)))
            head = [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else [])]
            family = families.setdefault(name, [*head, f"# HELP {name} {point.meaning}"])
            family.append(f"{name}{_braced(one.labels)} {point.base_value!r}")
    info = [f"enginebench_measurement_info{_braced({**one.labels, **one.evidence})} 1" for one in measurements]
    lines = [line for family in families.values() for line in family]
    return "\n".join([*lines, "# TYPE enginebench_measurement info", *info, "# EOF", ""])


_OF_ENDS = {"": "", "low": "; lower end of its 95 % interval", "high": "; upper end of its 95 % interval"}


def _points(numbers: Iterable[_Number]) -> Iterator[MetricPoint]:
    for number in numbers:
        unit = number.unit
        for end, value in _with_ends(number):
            name = "_".join(filter(None, (_snake(number.name), end)))
            meaning = f"{number.meaning}{_OF_ENDS[end]}"
            yield MetricPoint(name, meaning, value, unit.suffix, value / unit.in_base, unit.base, unit.code)


def _with_ends(number: _Number) -> Iterator[tuple[str, float]]:
    yield "", float(number.value)
    if number.interval is not None:
        yield "low", float(number.interval.low)
        yield "high", float(number.interval.high)


def _braced(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    """As the format escapes it; other control characters, at some of which readers end a line, are replaced."""
    plain = "".join(one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text)
    return plain.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _snake(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _labels(measurement: Measurement) -> dict[str, str]:
    asked = measurement.configuration
    always = {
        "model": measurement.model_name,
        "engine": in_environment(measurement.engine.name, measurement.engine.environment),
        "target": measurement.target,
        "device": asked.device,
        "batch": str(asked.batch),
        "cores": str(asked.place),
        "precision": asked.precision,
        "load": asked.load_in_words,
    }
    where_asked = {
        "streams": str(asked.streams) if asked.streams != 1 else "",
        "hint": asked.hint.value if asked.hint is not Hint.NONE else "",
        "options": " ".join(f"{name}={value}" for name, value in sorted(asked.options.items())),
    }
    return always | {name: value for name, value in where_asked.items() if value}


def _evidence(measurement: Measurement, problem: str | None) -> dict[str, str]:
    latency, disturbed = measurement.latency, summarize_evidence(measurement.blocks).disturbed_share
    precision, failure = measurement.effective.precision, measurement.failure
    known = {
        "engine_version": measurement.engine.version,
        "effective_precision": None if precision is None else str(precision.value),
        "effective_precision_source": None if precision is None else precision.source.value,
        "status": status_words(measurement),
        "failure": None if failure is None else failure.kind.value,
        WRONG_OUTPUTS: problem,
        "statistics": latency and f"{latency.samples} samples of {len(measurement.processes)} processes",
        "disturbed": None if disturbed is None else f"{100 * disturbed:.3g} % of the time",
        "model_digest": measurement.model_digest,
        "benchmark_id": measurement.benchmark_id,
        "measurement_id": measurement.id,
    }
    return {name: value for name, value in known.items() if value}


def _numbers(measurement: Measurement) -> tuple[_Number, ...]:
    latency = measurement.latency
    if latency is None:
        return ()
    rate, its_interval = measurement.throughput_items_per_s, measurement.throughput_interval
    energy_j = measurement.energy_j_per_inference
    compile_ns = next((phase.duration_ns for phase in measurement.phases if phase.name == "compile"), None)
    return (
        *_known("latency", "Median latency of an inference", _NS, latency.median_ns, latency.median_interval),
        *_percentiles(latency),
        *_known("throughput", "Items per second of wall clock", _RATE, rate, its_interval),
        *_known("peak-memory", "The most memory of a process", _BYTES, measurement.peak_rss_bytes),
        *_known("energy", "Energy of an inference by the meter of the processor or its board", _JOULES, energy_j),
        *_known("compile", "Compiling the model, in the first process", _NS, compile_ns),
    )


def _percentiles(latency: LatencySummary) -> Iterator[_Number]:
    """Those above the median, which is a number of its own."""
    for one in latency.percentiles:
        if one.percent > 50:
            words = f"{one.percent:g}"
            meaning = f"{words} % of the inferences take no longer"
            yield from _known(f"latency-p{words}", meaning, _NS, one.value_ns, one.interval)


def _circumstances(measurement: Measurement) -> Iterator[_Number]:
    """What nobody watches, and what tells how much the other numbers are worth."""
    if measurement.latency is not None:
        yield from _known("samples", "Inferences behind the statistics", _COUNT, measurement.latency.samples)
        yield from _known("processes", "Processes behind the statistics", _COUNT, len(measurement.processes))
    disturbed = summarize_evidence(measurement.blocks).disturbed_share
    yield from _known("disturbed", "Share of the time in which others disturbed it", _SHARE, disturbed)


def _began(measurement: Measurement) -> tuple[_Number, ...]:
    """For who has no other place for an instant."""
    return _known("started-timestamp", "When it began, since 1970", _NS, measurement.started_at_unix_ns)


def _known(
    name: str, meaning: str, unit: _Unit, value: float | None, interval: Interval | None = None
) -> tuple[_Number, ...]:
    """The number, if it is one."""
    if value is None or not math.isfinite(value):
        return ()
    is_whole = interval is not None and math.isfinite(interval.low) and math.isfinite(interval.high)
    return (_Number(name, meaning, unit, value, interval if is_whole else None),)


def to_otava(history: TrendHistory) -> str:
    """A row a measurement, oldest first: its time, what it was, its metrics, and then how sure these are.

    A metric that is not known of every one has no column, since Otava takes none with an empty cell.
    """
    metrics = {name: [get(point) for point in history.points] for name, get in _METRICS.items()}
    whole = {name: column for name, column in metrics.items() if None not in column}
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*_IDENTITY, *whole, *_CERTAINTY])
    for place, point in enumerate(history.points):
        identity, certainty = ([cell(get(point)) for get in group.values()] for group in (_IDENTITY, _CERTAINTY))
        writer.writerow([*identity, *(column[place] for column in whole.values()), *certainty])
    return text.getvalue()


_Columns = Mapping[str, Callable[[TrendPoint], object]]
_IDENTITY: _Columns = {
    "time": lambda one: datetime.fromtimestamp(one.at_unix_ns / 1e9, UTC).isoformat(timespec="seconds"),
    "engine_version": lambda one: one.engine.version,
    "benchmark_id": lambda one: one.benchmark_id,
    "measurement_id": lambda one: one.measurement_id,
}
_METRICS: _Columns = {
    "median_ns": lambda one: one.median_ns,
    "mean_ns": lambda one: one.mean_ns,
    "throughput_items_per_s": lambda one: one.throughput_items_per_s,
    "reference_product_ns": lambda one: one.reference_product_ns,
    "reference_stream_ns": lambda one: one.reference_stream_ns,
}
_CERTAINTY: _Columns = {
    "median_low_ns": lambda one: one.median_interval and one.median_interval.low,
    "median_high_ns": lambda one: one.median_interval and one.median_interval.high,
    "throughput_low_items_per_s": lambda one: one.throughput_interval and one.throughput_interval.low,
    "throughput_high_items_per_s": lambda one: one.throughput_interval and one.throughput_interval.high,
    "disturbed_share": lambda one: one.disturbed,
}


def _history(store: Store, measurements: Sequence[Measurement]) -> TrendHistory:
    if len(measurements) != 1:
        named = [f"{one.id} ({engine_label(one)}, {one.configuration.size})" for one in measurements]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        raise InputError(
            f"Otava reads one history from a file, and these are {len(named)} measurements; "
            f"name one of them by its id: {', '.join(named[:_MOST_NAMED])}{more}"
        )
    (one,) = measurements
    for history in store.histories(one.model_digest, one.target, one.engine.name):
        if any(point.measurement_id == one.id for point in history.points):
            return history
    raise InputError(
        f"measurement {one.id} has no history: it has no numbers, is a gate's, was made only once, or is dated by a "
        "clock that was wrong"
    )


_TEXTS: Mapping[ExportFormat, Callable[[Sequence[Told]], str]] = {
    ExportFormat.GAB: to_gab,
    ExportFormat.GAB_BIGGER: lambda measurements: to_gab(measurements, bigger=True),
    ExportFormat.BMF: to_bmf,
    ExportFormat.OPENMETRICS: to_openmetrics,
}
