"""Records as tables for the terminal. Times are shown in milliseconds; unknown is shown as –."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from enginebench_controller.cli.console import plain, print_table, remark, stdout
from enginebench_controller.instants import local_instant
from enginebench_controller.records import (
    Configuration,
    Failure,
    Hint,
    LatencySummary,
    Measurement,
    ModelVersion,
    OutputCheck,
    Readback,
    ReadbackSource,
    Status,
    TargetSnapshot,
)
from enginebench_controller.verdicts.across import AcrossTargets, across_targets, are_many
from enginebench_controller.verdicts.doubts import flags, marks, status_words
from enginebench_controller.verdicts.gate.results import GateResult
from enginebench_controller.verdicts.gate.rule import GateOutcome
from enginebench_controller.verdicts.gate.words import (
    amount,
    gate_remarks,
    headline,
    meaning,
    ratio_words,
    verdict_words,
)
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.parity import engine_label, in_reading_order, unequal_settings
from enginebench_controller.verdicts.words import (
    UNKNOWN,
    Remark,
    condensed,
    failure_sentence,
    milliseconds,
    ranges,
    rate,
    whose,
)

SOURCE_MARKS = {ReadbackSource.ENGINE_API: "", ReadbackSource.OBSERVED: "°", ReadbackSource.ASSUMED: "?"}
UNLIKE_OUTPUTS = "≠"
COLUMNS = [
    *[("target", False), ("model", False), ("engine", False), ("device", False), ("batch", True), ("cores", True)],
    *[
        ("streams", True),
        ("load", False),
        ("precision", False),
        ("threads", True),
        ("processors", False),
        ("median ms", True),
    ],
    *[("spread", True), ("p95 ms", True), ("p99 ms", True), ("items/s", True), ("status", False)],
]
"""Headings, and whether they stand over numbers."""
LEGENDS = (
    ("°", ("precision", "threads"), "° observed, not told by the engine"),
    ("?", ("precision", "threads"), "? assumed"),
    ("±", ("median ms",), "± half of the median's 95 % interval"),
    ("%", ("spread",), "spread: slowest ÷ fastest process − 1"),
    ("inconclusive", ("status",), "inconclusive: a wider interval, less time or fewer iterations than asked for"),
    ("n<", ("p95 ms", "p99 ms"), "n<130: fewer than the 130 samples that it takes"),
)
"""Marks, in which columns they stand, and what they mean."""
GATE_STYLES = {GateOutcome.WORSE: "bold red", GateOutcome.PASSES: "bold green", GateOutcome.CANNOT_TELL: "bold yellow"}
STYLES = {Status.OK: "green", Status.INCONCLUSIVE: "yellow", Status.FAILED: "red", Status.CANCELLED: "yellow"}


def print_outcomes(
    title: str,
    measurements: Sequence[Measurement],
    models: Sequence[ModelVersion],
    snapshots: Callable[[], Iterable[TargetSnapshot]],
    *,
    notes: bool = False,
) -> None:
    """A row a measurement; of many targets, unless all `notes` are wanted, a row for those that are alike.

    `snapshots` gives what the targets said of themselves, where it is needed.
    """
    if are_many(measurements) and not notes:
        print_across(title, across_targets(measurements, snapshots(), models))
    else:
        print_measurements(title, measurements, models, notes=notes)


def print_measurements(
    title: str, measurements: Sequence[Measurement], models: Iterable[ModelVersion] = (), *, notes: bool = False
) -> None:
    """A row a measurement, what to know of it and the failures below. Columns that would say nothing are left out.

    `models`, all those of the store, tell which versions are to compute the same. Remarks of one kind are a line with
    their count, or all there with `notes`.
    """
    measurements = in_reading_order(measurements)
    checks = check_outputs(measurements, models)
    rows = [_row(m, checks.get(m.id)) for m in measurements]
    columns = _columns(measurements)
    shown = print_table(title, columns, [[row[heading] for heading, _ in columns] for row in rows])
    if legend := "; ".join(_legend(rows, shown)):
        remark(legend)
    for line in _lines(measurements, checks, notes=notes):
        remark(line)


def print_across(title: str, found: AcrossTargets) -> None:
    """A row a kind of machine and configuration, and below those that stand out: a thousand targets on one screen."""
    kinds = found.groups
    headings = [("kind", False)] if len(kinds) > 1 else []
    headings += [("model", False), ("engine", False), ("configuration", False), ("targets", True), ("median ms", True)]
    headings += [("10 % … 90 % of targets", True), ("doubtful", True), ("failed", True)]
    rows: list[list[object]] = []
    for one in found.rows:
        row: list[object] = [one.group] if len(kinds) > 1 else []
        row += [one.model_name, one.engine, one.configuration, one.targets, milliseconds(one.median_ns)]
        spread = f"{milliseconds(one.low_ns)} … {milliseconds(one.high_ns)}"
        rows.append([*row, spread, len(one.doubtful) or "", len(one.failed) or ""])
    print_table(title, headings, rows)
    if len(kinds) == 1:
        remark(f"on {found.targets} targets: {kinds[0] or 'machines that have not said what they are'}")
    for sentence in found.sentences:
        remark(sentence)
    remark("a row for each measurement, with what is to be said of it: --notes")


def print_failures(measurements: Iterable[Measurement]) -> None:
    """What failed, those of the same words together, with all that the engine and its process said."""
    alike: dict[Failure, list[Measurement]] = {}
    for one in in_reading_order(measurements):
        if one.failure:
            alike.setdefault(one.failure, []).append(one)
    for failure, group in alike.items():
        for one in group:
            asked = one.configuration
            where = f"{one.target}, {asked.device}, {asked.size}, {_load(asked)}"
            _line(f"{one.model_name} on {engine_label(one)} ({where})")
        _line(f"  {failure_sentence(failure)}")
        for heading, text in (
            ("in its own words", failure.detail),
            ("what its process wrote last", failure.stderr_tail),
        ):
            if text.strip():
                _line(f"  {heading}:")
                for line in text.strip().splitlines():
                    _line(f"    {line}")
        _line("")
    if not alike:
        remark("nothing failed")


def _line(text: str) -> None:
    stdout().print(plain(text), soft_wrap=True)


def instant(unix_ns: int, *, with_zone: bool = False) -> str:
    """An instant in the reader's time zone, which the headings of tables name."""
    return local_instant(unix_ns, "%Y-%m-%d %H:%M:%S", with_zone=with_zone)


def _columns(measurements: Sequence[Measurement]) -> list[tuple[str, bool]]:
    """The headings in their order, and whether they stand over numbers; none that would say nothing."""
    tails = [m.latency.percentile_ns(99) for m in measurements if m.latency]
    sometimes = {
        "target": len({m.target for m in measurements}) > 1,
        "streams": any(m.configuration.streams != 1 for m in measurements),
        "processors": any(m.configuration.cluster for m in measurements),
        "spread": any(m.process_spread is not None for m in measurements),
        "p99 ms": any(tail is not None for tail in tails),
    }
    return [(heading, is_number) for heading, is_number in COLUMNS if sometimes.get(heading, True)]


def _legend(rows: Sequence[Mapping[str, object]], shown: Sequence[str]) -> Iterator[str]:
    """What the marks mean that are there to be seen."""
    for mark, headings, sentence in LEGENDS:
        if any(mark in str(row[heading]) for row in rows for heading in headings if heading in shown):
            yield sentence


def _row(m: Measurement, check: OutputCheck | None) -> dict[str, object]:
    chosen = m.configuration
    return {
        "target": m.target,
        "model": m.model_name,
        "engine": engine_label(m),
        "device": chosen.device,
        "batch": chosen.batch,
        "cores": chosen.place,
        "streams": chosen.streams,
        "load": _load(chosen),
        "precision": _readback(m.effective.precision),
        "threads": _readback(m.effective.threads),
        "processors": ranges(m.effective.affinity) or UNKNOWN,
        "median ms": _median(m.latency) if m.latency else UNKNOWN,
        "spread": UNKNOWN if m.process_spread is None else _percent(m.process_spread),
        "p95 ms": _percentile(m.latency, 95) if m.latency else UNKNOWN,
        "p99 ms": _percentile(m.latency, 99) if m.latency else UNKNOWN,
        "items/s": rate(m.throughput_items_per_s),
        "status": _status(m, check),
    }


def _median(latency: LatencySummary) -> str:
    half_width = latency.median_relative_half_width
    return milliseconds(latency.median_ns) + ("" if half_width is None else f" ±{_percent(half_width)}")


def _percentile(latency: LatencySummary, percent: float) -> str:
    found = next((one for one in latency.percentiles if one.percent == percent), None)
    if found is None:
        return UNKNOWN
    return f"n<{found.samples_needed}" if found.value_ns is None else milliseconds(found.value_ns)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%" if share < 0.1 else f"{100 * share:.0f}%"


def _status(m: Measurement, check: OutputCheck | None) -> Text:
    if check is not None and check.problem:
        return Text(f"{status_words(m)} {UNLIKE_OUTPUTS}", style="red")
    return Text(status_words(m), style="yellow" if marks(m) else STYLES[m.status])


def _lines(measurements: Sequence[Measurement], checks: Mapping[str, OutputCheck], *, notes: bool) -> Iterator[str]:
    """What failed and whose outputs are wrong, with whom it is of; then notes, by their kinds unless all are wanted."""
    bad: dict[str, list[Remark]] = {}
    for m in measurements:
        if m.failure:
            bad.setdefault(str(m.status), []).append(_remark(m, failure_sentence(m.failure)))
        if (check := checks.get(m.id)) is not None and check.problem:
            bad.setdefault(f"{UNLIKE_OUTPUTS} outputs", []).append(_remark(m, check.problem))
    for heading, remarks in bad.items():
        lines = map(str, remarks) if notes else condensed(remarks, len(measurements), names=True)
        yield from (f"  {heading}: {line}" for line in dict.fromkeys(lines))
    others = list(_notes(measurements, checks))
    lines = map(str, others) if notes else condensed(others, len(measurements))
    yield from (f"  note: {line}" for line in dict.fromkeys(lines))
    yield from (f"  note: {line}" for line in unequal_settings(measurements))
    if not notes and len(others) > len(condensed(others, len(measurements))):
        yield "  all of these, each with whom it is of: --notes"


def _notes(measurements: Sequence[Measurement], checks: Mapping[str, OutputCheck]) -> Iterator[Remark]:
    for m in measurements:
        check = checks.get(m.id)
        if check is not None and check.remark:
            yield _remark(m, check.remark)
        for flag in flags(m):
            yield _remark(m, flag)
        if m.effective.prepared:
            yield Remark(f"{m.model_name} on {engine_label(m)}", m.effective.preparation)


def _remark(m: Measurement, sentence: str) -> Remark:
    return Remark(whose(m), sentence, of=m.id)


def _load(chosen: Configuration) -> str:
    load = chosen.load_in_words
    return load if chosen.hint is Hint.NONE else f"{load}, {chosen.hint}"


def _readback(readback: Readback | None) -> str:
    return UNKNOWN if readback is None else f"{readback.value}{SOURCE_MARKS[readback.source]}"


def print_gate(result: GateResult) -> None:
    """The verdict, a line a metric, and what to know."""
    text = plain(headline(result))
    text.stylize(GATE_STYLES[result.outcome], 0, text.plain.index(":"))
    stdout().print(text, soft_wrap=False)
    for problem in result.problems:
        line = plain(f"≠ {problem}")
        line.stylize("bold red")
        stdout().print(line)
    _print_metrics(result)
    remark(f"  * decides; × is head ÷ base with its 95 % interval. {meaning(result)}")
    for line_ in gate_remarks(result):
        if line_ not in result.problems:
            remark(f"  {line_}")
    remark(f"  `enginebench show {result.benchmark.id}` shows it again")


def _print_metrics(result: GateResult) -> None:
    """A row a metric that is known or decides."""
    columns = [("metric", False), ("verdict", False), ("×", True), ("95 % interval", False)]
    rows: list[list[object]] = []
    for one in result.judged.metrics:
        if one.base is not None or one.head is not None or one.decides:
            ratio, interval = ratio_words(one)
            sides = (amount(one.metric, side) for side in (one.base, one.head))
            rows.append([f"{'* ' if one.decides else ''}{one.metric}", verdict_words(one), ratio, interval, *sides])
    print_table("", [*columns, ("base", True), ("head", True)], rows)
