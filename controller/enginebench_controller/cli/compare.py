"""`enginebench compare`: benchmarks, measurements or profiles against the first of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from enginebench_controller.cli.benchmark_comparison import (
    compare_benchmarks,
    compare_measurements,
    failures,
    print_compared,
)
from enginebench_controller.cli.compare_tables import print_checks, print_comparison
from enginebench_controller.cli.console import print_json, remark
from enginebench_controller.cli.exit_codes import concluded
from enginebench_controller.cli.options import Json, Notes
from enginebench_controller.comparing import (
    Check,
    Condition,
    Outcome,
    check_measurements,
    check_profiles,
    compare_profiles,
    exit_code,
    parse_conditions,
)
from enginebench_controller.comparing.benchmark_document import benchmarks_document
from enginebench_controller.comparing.document import comparison_document
from enginebench_controller.comparing.reports import (
    Contents,
    benchmark_html,
    benchmark_markdown,
    junit,
    profile_html,
    profile_markdown,
)
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.exports.new_file import new_file
from enginebench_controller.home import Home, default_home
from enginebench_controller.planning.plan import parse_percent
from enginebench_controller.stats.comparison import LAYERS_PRACTICAL, PRACTICAL
from enginebench_controller.subjects import Subjects, find_subjects
from enginebench_controller.trust.soundness import Soundness, soundness


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
        bool, typer.Option("--strict", help="Exit with code 5 where noise hides whether it holds.")
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
) -> None:
    """Say which is faster, by how much, and how sure that is. Ratios below 1 mean that the second takes less time."""
    conditions = () if fail_if is None else parse_conditions(fail_if)
    if not conditions and (strict or junit_file):
        raise InputError(f"{'--strict' if strict else '--junit'} goes with --fail-if, which says on what condition")
    share = None if practical is None else _share(practical)
    home = default_home()
    subjects = find_subjects(home.store, names)
    if subjects.also:
        remark(f"note: {subjects.also}")
    if subjects.profiles:
        contents, judged = _profiles(home, subjects, share, conditions, most, json=json)
    else:
        contents, judged = _benchmarks(home, subjects, share, conditions, json=json, notes=notes)
    for path, text in ((html, contents.html), (markdown, contents.markdown), (junit_file, contents.junit)):
        if path is not None:
            with new_file(path, force=force) as partial:
                partial.write_text(text(), encoding="utf-8")
            remark(f"wrote {path}")
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
    judged = soundness(subjects.profiles)
    layered = [one for one in subjects.profiles if one.layers]
    missing = failures(subjects.profiles)
    if missing and len(layered) < 2:
        raise InputError("\n".join(["a comparison needs two profiles with layers", *missing]))
    margin = LAYERS_PRACTICAL if practical is None else practical
    found = compare_profiles(layered, home.store.peaks(), margin)
    found = replace(found, remarks=(*map(str.strip, missing), *found.remarks))
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
    compared, missing = found.compared, [*map(str.strip, failures(found.given))]
    checks = check_measurements(compared, conditions)
    title = " against ".join(f"{one.name} ({one.id})" for one in subjects.benchmarks) or "Measurements"
    if json:
        told = checks if conditions else None
        print_json(benchmarks_document(subjects.benchmarks, compared, told, found.soundness, found.answers))
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
    worse, cannot_tell = Outcome.FAILED in found, Outcome.INCONCLUSIVE in found
    return int(exit_code(worse=worse, failed=failed, cannot_tell=cannot_tell, strict=strict))
