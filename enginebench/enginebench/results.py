"""What calls hand back, and how they are carried out: answers first, then rows, records, and the command's document."""

import asyncio
import logging
import signal
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from os import PathLike
from typing import Any, ClassVar, TypeVar

from enginebench_controller.errors import InputError
from enginebench_controller.files.answers import answers_document
from enginebench_controller.files.benchmarks import benchmark_document
from enginebench_controller.files.csv_tables import measurement_rows
from enginebench_controller.files.exports.log_to import live_log
from enginebench_controller.files.verdicts.comparisons import benchmarks_document, comparison_document
from enginebench_controller.files.verdicts.gates import gate_document
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.plan.plan import Plan, parse_percent
from enginebench_controller.records import Benchmark, Failure, Measurement, Status
from enginebench_controller.runs.gate import Unwatched
from enginebench_controller.runs.remote_run import Reporter, SendOn
from enginebench_controller.stats.comparison import LAYERS_PRACTICAL, PRACTICAL
from enginebench_controller.store.sql_query import QueryResult
from enginebench_controller.targets.choosing import to_measure
from enginebench_controller.targets.local_agent import remark
from enginebench_controller.typed_paths import typed_path
from enginebench_controller.verdicts.answers import answers_of
from enginebench_controller.verdicts.doubts import flags, status_words
from enginebench_controller.verdicts.gate.results import GateResult, Judged
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.stored import gate_of
from enginebench_controller.verdicts.gate.words import gate_remarks, headline
from enginebench_controller.verdicts.layers.profiles import ProfilePair, joined_sentence, whole_sentence
from enginebench_controller.verdicts.layers.profiles import verdicts as layer_verdicts
from enginebench_controller.verdicts.layers.summary import letter
from enginebench_controller.verdicts.pairing import Compared
from enginebench_controller.verdicts.soundness import of_benchmark
from enginebench_controller.verdicts.subjects import (
    Subjects,
    compare_benchmarks,
    compare_measurements,
    compare_whole_profiles,
    find_subjects,
)
from enginebench_controller.verdicts.words import (
    UNKNOWN,
    first_failures,
    model_words,
    side_words,
    unmatched_lines,
    whose,
)

Row = Mapping[str, Any]
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Result:
    """What came of a call.

    `answers` are the sentences that the command prints first, each with what must not be missed in lines below it; a
    line a measurement where nothing is compared.
    `problem` says what cannot be used, and is "" where all can. `rows` are those of the table, None where something is
    unknown, and `document` is what the command prints with `--json`: docs/reference/schemas.
    """

    answers: tuple[str, ...]
    problem: str
    rows: tuple[Row, ...] = field(repr=False)
    document: Mapping[str, Any] = field(repr=False)

    shown: ClassVar[tuple[str, ...]] = ()
    """The columns that a notebook shows; the table has all."""

    def table(self) -> Any:
        """The rows as a DataFrame of pandas, else of polars; a list of dicts where neither is installed."""
        return frame(self.rows)

    def __str__(self) -> str:
        return "\n".join((*self.answers, *self._unsaid))

    @property
    def _unsaid(self) -> tuple[str, ...]:
        """What cannot be used, unless an answer has that already."""
        return () if any(self.problem in one for one in self.answers) else tuple(filter(None, (self.problem,)))

    def _repr_html_(self) -> str:
        """What a notebook shows. Names are other people's, so that all of it is escaped."""
        said = "".join(f"<p>{escape(one).replace(chr(10), '<br>')}</p>" for one in self.answers)
        wrong = "".join(f"<p><strong>{escape(one).replace(chr(10), '<br>')}</strong></p>" for one in self._unsaid)
        columns = [one for one in self.shown if any(row.get(one) is not None for row in self.rows)]
        head = "".join(f"<th>{escape(_heading(one))}</th>" for one in columns)
        rows = ("".join(f"<td>{escape(_cell(one, row.get(one)))}</td>" for one in columns) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"{said}{wrong}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, eq=False)
class Run(Result):
    """A benchmark that was measured: a row a measurement. `id` names it for `compare` and for commands."""

    id: str
    measurements: tuple[Measurement, ...] = field(repr=False)

    shown: ClassVar = (
        *("model", "engine", "engine_version", "batch", "cores", "effective_precision"),
        *("median_ns", "throughput_items_per_s", "status", "marks", "failure", "output_problem"),
    )


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """What was compared with the first: a row a pair of measurements, or a layer of two profiles.

    Ratios below 1 mean that the second takes less time. Batch, cores and load are those of the first measurement, and
    `remarks` say in what the second is unlike, and what else limits the verdict; None where nothing does.
    """

    shown: ClassVar = (
        *("model", "layer", "batch", "cores", "first", "second", "first_ns", "second_ns"),
        *("ratio", "ratio_low", "ratio_high", "verdict", "remarks"),
    )


@dataclass(frozen=True, eq=False)
class Gate(Result):
    """Whether head is worse than base: a row a metric, in its own unit. `id` is that of its benchmark."""

    id: str
    outcome: GateOutcome
    is_better: bool

    shown: ClassVar = ("metric", "decides", "outcome", "base", "head", "unit", "ratio", "ratio_low", "ratio_high")


def measured(home: Home, benchmark: Benchmark) -> Run:
    """What there is to say of a benchmark that is in the store."""
    measurements, models = home.store.measurements(benchmark.id), home.store.models()
    answers = answers_of(home.store, benchmark, measurements, models)
    snapshots, told = home.store.benchmark_snapshots(benchmark.id), answers_document(answers)
    said = tuple("\n".join(one.lines) for one in answers) or tuple(filter(None, map(_line, measurements)))
    wrong = of_benchmark(benchmark, measurements, models).sentence
    return Run(
        answers=said,
        problem="\n".join(filter(None, (wrong, *first_failures(measurements)))),
        rows=tuple(measurement_rows(measurements, models)),
        document=benchmark_document(benchmark, measurements, snapshots, models, answers=told),
        id=benchmark.id,
        measurements=measurements,
    )


def _line(one: Measurement) -> str:
    """A measurement that nothing is compared with, and what is to be known of it; "" without numbers."""
    if one.latency is None:
        return ""
    rate = "" if one.throughput_items_per_s is None else f", {one.throughput_items_per_s:,.1f} items/s"
    told = "".join(f"\n  {flag}" for flag in flags(one))
    return f"{whose(one)}: median {one.latency.median_ns / 1e6:.3f} ms{rate}, {status_words(one)}{told}"


def stored(home: Home, name: str) -> Run | Gate:
    """What there is to say of what this name means. Raises `InputError` for no benchmark."""
    benchmark = home.store.benchmark(name)
    found = gate_of(home, benchmark) if benchmark.plan.get("gate") else None
    return measured(home, benchmark) if found is None else gated(found)


def compared(home: Home, names: Sequence[str], practical: float | str | None) -> Comparison:
    """What is named, compared. Raises `InputError`."""
    if not names:
        raise InputError("there is nothing to compare: name a benchmark, or two measurements or profiles")
    try:
        share = (
            None if practical is None else parse_percent(practical if isinstance(practical, str) else f"{practical}%")
        )
    except ValueError as error:
        raise InputError(f"practical: {error}") from None
    subjects = find_subjects(home.store, names)
    found = (_profiles if subjects.profiles else _benchmarks)(home, subjects, share)
    return replace(found, answers=(*found.answers, *(f"note: {note}" for note in subjects.notes)))


def _benchmarks(home: Home, subjects: Subjects, share: float | None) -> Comparison:
    margin = PRACTICAL if share is None else share
    if subjects.benchmarks:
        found = compare_benchmarks(home, subjects.benchmarks, margin)
    else:
        found = compare_measurements(home, subjects.measurements, margin)
    return Comparison(
        answers=(*("\n".join(one.lines) for one in found.answers), *unmatched_lines(found.unmatched)),
        problem=found.soundness.sentence,
        rows=tuple(map(_pair_row, found.compared)),
        document=benchmarks_document(subjects.benchmarks, found),
    )


def _pair_row(one: Compared) -> Row:
    asked, found = one.first.configuration, one.comparison
    return {
        "model": model_words(one),
        "device": asked.device,
        "batch": asked.batch,
        "cores": asked.cores,
        "load": asked.load_in_words,
        "first": side_words(one.first),
        "second": side_words(one.second),
        "ratio": found.ratio,
        "ratio_low": found.low,
        "ratio_high": found.high,
        "p_value": found.p_value,
        "verdict": found.verdict.value,
        "remarks": "; ".join(filter(None, (*one.remarks, found.note))) or None,
    }


def _profiles(home: Home, subjects: Subjects, share: float | None) -> Comparison:
    found, judged = compare_whole_profiles(home, subjects.profiles, LAYERS_PRACTICAL if share is None else share)
    sides = [(pair, letter(place)) for place, pair in enumerate(found.pairs, start=1)]
    return Comparison(
        answers=tuple(
            "\n".join(
                (
                    f"{whole_sentence(pair, side)}; {layer_verdicts(pair)}",
                    joined_sentence(pair, side),
                    *found.remarks,
                    *pair.remarks,
                )
            )
            for pair, side in sides
        ),
        problem=judged.sentence,
        rows=tuple(row for pair, side in sides for row in _layer_rows(pair, side)),
        document={**comparison_document(found), "outcome": judged.document},
    )


def _layer_rows(pair: ProfilePair, side: str) -> Iterable[Row]:
    for row in pair.rows:
        yield {
            "layer": row.name,
            "operator": row.operator,
            "first": "A",
            "second": side,
            "first_ns": row.first.time_ns,
            "second_ns": row.second.time_ns,
            "contribution_ns": row.contribution_ns,
            "ratio": row.ratio,
            "ratio_low": row.ratio_low,
            "ratio_high": row.ratio_high,
            "verdict": row.verdict.value if row.verdict else None,
        }


def gated(result: GateResult) -> Gate:
    """What there is to say of a gate."""
    document = gate_document(result)
    return Gate(
        answers=(headline(result), *(line for line in gate_remarks(result) if line not in result.problems)),
        problem="; ".join((*result.problems, *result.failures)),
        rows=tuple(document["metrics"]),
        document=document,
        id=result.benchmark.id,
        outcome=result.outcome,
        is_better=result.is_better,
    )


def frame(rows: Iterable[Row] | QueryResult) -> Any:
    """See `enginebench.table`."""
    columns: Sequence[str] = ()
    if isinstance(rows, QueryResult):
        for remark in rows.remarks:
            warnings.warn(remark, stacklevel=3)
        columns = _told_apart([column.name for column in rows.columns])
        rows = (dict(zip(columns, values, strict=True)) for values in rows.rows)
    found = [dict(row) for row in rows]
    for library, named, options in (("pandas", "columns", {}), ("polars", "schema", {"infer_schema_length": None})):
        with suppress(ImportError):
            empty = {named: list(columns)} if columns and not found else {}  # else it would have no columns either
            return import_module(library).DataFrame(found, **options, **empty)
    return found


def _told_apart(names: Sequence[str]) -> list[str]:
    """Names of columns, the second of a name with a number: "id", "id_1"."""
    found: list[str] = []
    for name in names:
        free = (f"{name}_{number}" if number else name for number in range(len(names)))
        found.append(next(one for one in free if one not in found))
    return found


def _heading(column: str) -> str:
    return f"{column.removesuffix('_ns')} ms" if column.endswith("_ns") else column.replace("_", " ")


def _cell(column: str, value: object) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, int | float) and column.endswith("_ns"):
        return f"{value / 1e6:.3f}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def listed(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a plan that were said, with one value where the plan has a list as a list of one."""
    return {name: _as_listed(name, value) for name, value in asked.items() if value is not None}


def _as_listed(name: str, value: Any) -> Any:
    value = _python_value(value)
    has_many = name in Plan.model_fields and isinstance(Plan.model_fields[name].default, tuple)
    if not has_many:
        return value
    return tuple(map(_python_value, value)) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)


def _python_value(value: Any) -> Any:
    """What a number or an array of NumPy stands for, or a path."""
    if isinstance(value, PathLike):
        return str(typed_path(value))
    return value.tolist() if callable(getattr(value, "tolist", None)) else value


def model_named(value: Any) -> str:
    """A model as a command takes it: no shell has seen its `~`. Raises `InputError` for what names none."""
    if not isinstance(value, str | PathLike):
        kind = type(value).__name__
        raise InputError(f"a model is a file, a name, a digest or zoo:NAME, and not of type {kind}: save it to a file")
    return str(typed_path(value)) if str(value).startswith("~") else str(value)


def chosen(home: Home, words: Sequence[str], say: Callable[[str], object]) -> tuple[str, ...]:
    """The targets to measure on, as the commands choose them: see `targets.choosing.to_measure`."""
    # In a thread, as it asks the targets in a loop of its own, and a notebook has one here.
    return through(asyncio.to_thread(to_measure, home, words, None, say), say)


def through(work: Coroutine[Any, Any, T], say: Callable[[str], object] | None = None) -> T:
    """Carry this out to its end, also where a loop runs already, as in a notebook; Ctrl-C cancels it.

    What was finished by then is stored, as after a command. `say` is told what a command prints meanwhile.
    """
    context = copy_context()
    if say is not None:
        context.run(remark.set, say)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return context.run(asyncio.run, work)
    begun: list[asyncio.Task[T]] = []

    async def cancellable() -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine that runs is one
        begun.append(task)
        return await work

    with ThreadPoolExecutor(1) as pool, _interrupted_at_once():
        ended = pool.submit(context.run, asyncio.run, cancellable())
        try:
            return ended.result()
        except BaseException:  # of Ctrl-C, or whatever a handler of the caller's own raises
            for task in begun:
                with suppress(RuntimeError):  # it has ended meanwhile
                    task.get_loop().call_soon_threadsafe(task.cancel)
            raise  # once the thread has ended, and with it the agent that it started


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Ctrl-C raises here: what asyncio has in its place waits for the loop that waits for this call.

    A handler of the caller's own stays, but for one that is the loop's.
    """
    found = signal.getsignal(signal.SIGINT)
    # `asyncio.run` has a method of its runner there, and `add_signal_handler` a function that does nothing.
    of_runner = isinstance(getattr(getattr(found, "func", None), "__self__", None), asyncio.Runner)
    waits = of_runner or (getattr(found, "__module__", None) or "").startswith("asyncio.")
    if threading.current_thread() is not threading.main_thread() or not waits:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, found)


def sent_on(home: Home, log_to: str | Iterable[str]) -> SendOn | None:
    """What sends results to trackers, None without any; one that fails later is logged. Raises `InputError`."""
    said = (log_to,) if isinstance(log_to, str) else tuple(log_to)
    return through(live_log(home.store, said, _log.warning)) if said else None


class Progress(Unwatched):
    """Tells of a benchmark or a gate in sentences."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def announce(self, expansion: Expansion, benchmark_id: str | None) -> Reporter:
        """See `remote_run.Announce`."""
        for note in expansion.notes:
            self.said(f"note: {note}")
        return self

    def said(self, sentence: str) -> None:
        """See `GateWatcher`. Who cannot be told costs no measurement: that is logged, once."""
        try:
            self._tell(sentence)
        except Exception:
            _log.exception("`progress` has failed, and is told nothing more")
            self._tell = lambda _: None

    def looked(self, judged: Judged, seconds_left: float) -> None:
        """See `GateWatcher`."""
        self.said(f"{judged.pairs} process pairs, {max(seconds_left, 0):.0f} s left")

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        why = f": {failure.message}" if failure else ""
        self.said(f"{case.target} · {case.title} · {status}{why}")
