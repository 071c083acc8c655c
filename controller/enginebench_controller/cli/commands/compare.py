"""`enginebench compare`: benchmarks, measurements or profiles against the first of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import (
    concluded,
    print_answers,
    print_json,
    print_table,
    remark,
    without_marks,
    write_asked,
)
from enginebench_controller.cli.options import Json, Notes, Stores
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.files.reports import (
    Contents,
    benchmark_html,
    benchmark_markdown,
    profile_html,
    profile_markdown,
)
from enginebench_controller.files.verdicts.comparisons import benchmarks_document, comparison_document
from enginebench_controller.files.verdicts.junit import junit
from enginebench_controller.home import Home, home_to_read
from enginebench_controller.plan.plan import parse_percent
from enginebench_controller.records import Configuration, Load
from enginebench_controller.stats.comparison import LAYERS_PRACTICAL, PRACTICAL, Verdict
from enginebench_controller.verdicts.conditions import (
    Check,
    Condition,
    ConditionOutcome,
    check_measurements,
    check_profiles,
    parse_conditions,
)
from enginebench_controller.verdicts.gate.rule import exit_code
from enginebench_controller.verdicts.layers.profiles import (
    ProfileComparison,
    ProfilePair,
    TypeSide,
    how_sure,
    joined_sentence,
    precisions,
    told_remarks,
    verdicts,
    whole_sentence,
)
from enginebench_controller.verdicts.layers.rows import LayerRow, LayerVerdict, RowSide
from enginebench_controller.verdicts.layers.summary import letter, summary
from enginebench_controller.verdicts.pairing import Compared, pair_remarks
from enginebench_controller.verdicts.soundness import Soundness
from enginebench_controller.verdicts.subjects import (
    BenchmarkComparison,
    Subjects,
    compare_benchmarks,
    compare_measurements,
    compare_whole_profiles,
    find_subjects,
)
from enginebench_controller.verdicts.words import (
    MOST_WHOLE,
    UNKNOWN,
    asked_words,
    condensed,
    first_failures,
    milliseconds,
    model_words,
    percent,
    sides_words,
    unmatched_lines,
)

STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.SAME: "bold", Verdict.INCONCLUSIVE: "yellow"}


def print_compared(title: str, comparing: BenchmarkComparison, *, notes: bool = False) -> None:
    """The answers, a row a pair, then what limits the verdicts, and what could not be compared.

    Remarks of one kind are a line with their count, or all there with `notes`.
    """
    compared = comparing.compared
    print_answers(comparing.answers)
    columns = [("model", False), ("device", False), ("batch", True), ("cores", True), ("load", False)]
    columns += [("first", False), ("second", False), ("ratio", True), ("95 % interval", False), ("p", True)]
    shown = print_table(title, [*columns, ("the second is", False)], [_row(one) for one in compared])
    corrected = "; p is corrected for the number of comparisons" if "p" in shown else ""
    of_latency = " of latency, also where the answer is by throughput" if any(map(_overlaps, compared)) else ""
    how = "the middle of the pairs of what took turns, else median ÷ median"
    remark(f"ratio: second ÷ first{of_latency}, {how}{corrected}")
    said = list(pair_remarks(compared))
    lines = map(str, said) if notes else condensed(said, len(compared))
    alone = unmatched_lines(comparing.unmatched, len(comparing.unmatched) if notes else MOST_WHOLE)
    for line in dict.fromkeys([*(f"  note: {one}" for one in (*lines, *alone)), *first_failures(comparing.given)]):
        remark(line)


def _overlaps(compared: Compared) -> bool:
    return compared.first.configuration.load is not Load.SYNC


_ASKED: tuple[Callable[[Configuration], object], ...] = (
    lambda asked: asked.device,
    lambda asked: asked.batch,
    lambda asked: asked.place,
    lambda asked: asked.load_in_words,
)


def _row(compared: Compared) -> list[object]:
    found = compared.comparison
    interval = UNKNOWN if found.low is None or found.high is None else f"{found.low:.3f} to {found.high:.3f}"
    return [
        model_words(compared),
        *(asked_words(compared, told) for told in _ASKED),
        *sides_words(compared),
        UNKNOWN if found.ratio is None else f"{found.ratio:.3f}",
        interval,
        UNKNOWN if found.p_value is None else f"{found.p_value:.3g}",
        Text(found.verdict, style=STYLES[found.verdict]),
    ]


LAYER_STYLES = {LayerVerdict.BETTER: "green", LayerVerdict.WORSE: "red"}
_UNSURE_PRINTED = 5


def print_comparison(comparison: ProfileComparison, most: int) -> None:
    """A summary of all sides, then the types and layers of each pair, then what differs."""
    for place, pair in enumerate(comparison.pairs, start=1):
        remark(whole_sentence(pair, letter(place)))
    _print_summary(comparison)
    for sentence in (*comparison.remarks, *told_remarks(comparison.pairs)):
        remark(f"  note: {sentence}")
    for place, pair in enumerate(comparison.pairs, start=1):
        _print_types(pair, letter(place))
        _print_transitions(pair, letter(place))
        _print_rows(pair, letter(place), most)
    _print_settings(comparison)
    for advice in comparison.advice:
        side = letter([one.id for one in comparison.profiles].index(advice.profile_id))
        remark(f"  {advice.severity} on {side}: {advice.sentence}; {without_marks(advice.remedy)}")


def print_checks(checks: Sequence[Check]) -> None:
    """What came of the conditions: those that failed, some of those that noise hides, and how many there were."""
    failed, unsure = (
        [check for check in checks if check.outcome is outcome]
        for outcome in (ConditionOutcome.FAILED, ConditionOutcome.INCONCLUSIVE)
    )
    for check in [*failed, *unsure[:_UNSURE_PRINTED]]:
        remark(f"{check.outcome}: {check.condition}: {check.subject}, {check.pair}: {check.sentence}")
    if len(unsure) > _UNSURE_PRINTED:
        remark(f"{len(unsure) - _UNSURE_PRINTED} more are inconclusive")
    passed = len(checks) - len(failed) - len(unsure)
    remark(f"--fail-if: {len(failed)} failed, {passed} passed, {len(unsure)} inconclusive")


def _print_summary(comparison: ProfileComparison) -> None:
    sides = [letter(place) for place in range(len(comparison.profiles))]
    rows: list[list[object]] = [[figure.name, *figure.values] for figure in summary(comparison.profiles)]
    print_table("Profiles compared", [("", False), *((side, False) for side in sides)], rows)


def _print_types(pair: ProfilePair, other: str) -> None:
    columns = [("operator", False)]
    for side in ("A", other):
        columns += [(f"{side} ms", True), (f"{side} %", True), (f"{side} layers", False)]
    rows: list[list[object]] = [[one.type, *_type(one.first), *_type(one.second)] for one in pair.types]
    print_table(f"Layer types, A and {other}", columns, rows)


def _type(side: TypeSide) -> list[object]:
    if side.time_ns is None:
        return [UNKNOWN, UNKNOWN, "none"]
    return [milliseconds(side.time_ns), percent(side.share), precisions(side.precisions)]


def _print_transitions(pair: ProfilePair, other: str) -> None:
    changed = [one for one in pair.transitions if one.is_change]
    if changed:
        columns = [("operator", False), ("precision", False), ("rows", True), ("A ms", True), (f"{other} ms", True)]
        rows: list[list[object]] = [
            [
                one.operator,
                f"{one.first or UNKNOWN} → {one.second or UNKNOWN}",
                one.rows,
                milliseconds(one.first_ns),
                milliseconds(one.second_ns),
            ]
            for one in changed
        ]
        print_table("Precisions that changed", columns, rows)


def _print_rows(pair: ProfilePair, other: str, most: int) -> None:
    columns = [("layer", False), ("operator", False), ("A ms", True), ("A precision", False), (f"{other} ms", True)]
    columns += [(f"{other} precision", False), ("Δ ms", True), ("ratio", True), (f"{other} is", False)]
    timed = [row for row in pair.rows if row.slowest_ns]
    largest = sorted(timed, key=lambda row: -abs(row.contribution_ns))
    shown = [_layer_row(row, other) for row in largest[:most]]
    print_table(f"Layers, A and {other}: what makes the difference", columns, shown, of=len(largest))
    remark(joined_sentence(pair, other))
    remark(f"{verdicts(pair)}; {how_sure(pair)}")
    if len(largest) > most:
        remark(f"{len(largest) - most} more rows: --most shows them")


def _layer_row(row: LayerRow, other: str) -> list[object]:
    outcome = row.outcome.replace("in B", f"in {other}")
    return [
        row.name,
        row.operator,
        _time(row.first),
        row.first.precision or UNKNOWN,
        _time(row.second),
        row.second.precision or UNKNOWN,
        f"{row.contribution_ns / 1e6:+.3f}",
        UNKNOWN if row.ratio is None else f"{row.ratio:.3f}",
        Text(outcome, style=LAYER_STYLES.get(row.verdict, "") if row.verdict else "dim"),
    ]


def _time(side: RowSide) -> str:
    if side.time_ns is None:
        return UNKNOWN
    known = side.half_width_ns is not None and side.time_ns
    return milliseconds(side.time_ns) + (f" ±{side.half_width_ns / side.time_ns:.0%}" if known else "")  # type: ignore[operator]


def _print_settings(comparison: ProfileComparison) -> None:
    if comparison.settings:
        sides = [(letter(place), False) for place in range(len(comparison.profiles))]
        rows: list[list[object]] = [
            [one.setting, *(UNKNOWN if value is None else value for value in one.values)] for one in comparison.settings
        ]
        print_table("Settings that differ", [("setting", False), *sides], rows)


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("compare")(compare)


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="A [B…]",
            help="Ids, starts of ids, or names: of benchmarks, of profiles, or ids of measurements. Each is compared "
            "with A; a benchmark alone with itself, engine against engine, and so the profiles of one name.",
            autocompletion=completion.results,
        ),
    ],
    practical: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help=f"The smallest difference worth speaking of: {PRACTICAL:.0%}, of layers {LAYERS_PRACTICAL:.0%}.",
        ),
    ] = None,
    fail_if: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Exit with code 4 if it holds beyond noise: 'slower>3%', see the docs."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 5 where it cannot be told whether it holds.")
    ] = False,
    most: Annotated[int, typer.Option(min=0, help="How many layers to print, the largest differences first.")] = 20,
    json: Json = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report: one file that needs no net.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a summary for a CI job's page.")] = None,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write what came of --fail-if as JUnit XML.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    notes: Notes = False,
    stores: Stores = None,
) -> None:
    """Say which is faster, by how much, and how sure that is. Ratios below 1 mean that the second takes less time."""
    conditions = () if fail_if is None else parse_conditions(fail_if)
    if not conditions and (strict or junit_file):
        raise InputError(f"{'--strict' if strict else '--junit'} goes with --fail-if, which says on what condition")
    share = None if practical is None else _share(practical)
    home = home_to_read(stores or ())
    subjects = find_subjects(home.store, names)
    for note in subjects.notes:
        remark(f"note: {note}")
    if subjects.profiles:
        contents, judged = _profiles(home, subjects, share, conditions, most, json=json)
    else:
        contents, judged = _benchmarks(home, subjects, share, conditions, json=json, notes=notes)
    for path, text in ((html, contents.html), (markdown, contents.markdown), (junit_file, contents.junit)):
        write_asked(path, text, force=force)
    if conditions:
        print_checks(contents.checks)
    raise typer.Exit(_exit_code(contents.checks, judged, strict=strict))


def _share(practical: str) -> float:
    try:
        return parse_percent(practical)
    except ValueError as error:
        raise InputError(f"--practical: {error}") from None


def _profiles(
    home: Home, subjects: Subjects, practical: float | None, conditions: Sequence[Condition], most: int, *, json: bool
) -> tuple[Contents, Soundness]:
    found, judged = compare_whole_profiles(
        home, subjects.profiles, LAYERS_PRACTICAL if practical is None else practical
    )
    checks = check_profiles(found, conditions)
    if json:
        print_json({**comparison_document(found, checks if conditions else None), "outcome": judged.document})
    else:
        print_comparison(found, most)
    contents = Contents(
        checks=checks,
        html=lambda: profile_html(found, checks),
        markdown=lambda: profile_markdown(found, checks),
        junit=lambda: junit(checks),
    )
    return contents, judged


def _benchmarks(
    home: Home, subjects: Subjects, practical: float | None, conditions: Sequence[Condition], *, json: bool, notes: bool
) -> tuple[Contents, Soundness]:
    margin = PRACTICAL if practical is None else practical
    if subjects.benchmarks:
        found = compare_benchmarks(home, subjects.benchmarks, margin)
    else:
        found = compare_measurements(home, subjects.measurements, margin)
    compared, alone = found.compared, unmatched_lines(found.unmatched)
    missing = [*map(str.strip, first_failures(found.given)), *alone]
    checks = check_measurements(compared, conditions, found.unmatched)
    title = " against ".join(f"{one.name} ({one.id})" for one in subjects.benchmarks) or "Measurements"
    if json:
        told = checks if conditions else None
        print_json(benchmarks_document(subjects.benchmarks, found, told))
    else:
        print_compared(title, found, notes=notes)
    contents = Contents(
        checks=checks,
        html=lambda: benchmark_html(title, compared, checks, missing, found.answers),
        markdown=lambda: benchmark_markdown(title, compared, checks, missing, found.answers),
        junit=lambda: junit(checks),
    )
    return contents, found.soundness


def _exit_code(checks: Sequence[Check], judged: Soundness, *, strict: bool) -> int:
    failed = concluded(judged) != ExitCode.OK
    found = {check.outcome for check in checks}
    worse, cannot_tell = ConditionOutcome.FAILED in found, ConditionOutcome.INCONCLUSIVE in found
    return int(exit_code(worse=worse, failed=failed, cannot_tell=cannot_tell, strict=strict))
