"""Compared profiles as tables for the terminal. Times are shown in milliseconds; unknown is shown as –."""

from collections.abc import Sequence

from rich.text import Text

from enginebench_controller.cli.console import UNKNOWN, print_table, remark, without_marks
from enginebench_controller.comparing import Check, LayerRow, Outcome, ProfileComparison, ProfilePair, RowSide, Verdict
from enginebench_controller.comparing.figures import summary
from enginebench_controller.comparing.layer_types import TypeSide
from enginebench_controller.comparing.profiles import how_sure, joined_sentence, precisions, verdicts
from enginebench_controller.comparing.settings import letter
from enginebench_controller.comparing.words import milliseconds, percent

STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
_UNSURE_PRINTED = 5


def print_comparison(comparison: ProfileComparison, most: int) -> None:
    """A summary of all sides, then the types and layers of each pair, then what differs."""
    _print_summary(comparison)
    for sentence in comparison.remarks:
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
        [check for check in checks if check.outcome is outcome] for outcome in (Outcome.FAILED, Outcome.INCONCLUSIVE)
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
    changed = [one for one in pair.transitions if not one.is_same]
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
    print_table(
        f"Layers, A and {other}: what makes the difference", columns, [_row(row, other) for row in largest[:most]]
    )
    remark(joined_sentence(pair, other))
    remark(f"{verdicts(pair)}; {how_sure(pair)}")
    if len(largest) > most:
        remark(f"{len(largest) - most} more rows: --most shows them")


def _row(row: LayerRow, other: str) -> list[object]:
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
        Text(outcome, style=STYLES.get(row.verdict, "") if row.verdict else "dim"),
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
