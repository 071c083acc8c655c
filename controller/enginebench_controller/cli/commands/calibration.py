"""`enginebench targets calibrate`: what a target's engines can reach at best."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Annotated, Any, Self

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import plain, print_json, print_table, remark, stderr
from enginebench_controller.cli.options import Json
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.files.documents import head
from enginebench_controller.home import default_home
from enginebench_controller.jobs.reporting import ProgressWriter
from enginebench_controller.jobs.telling import own_folder
from enginebench_controller.plan.options import split
from enginebench_controller.records import Peak, PeakKind
from enginebench_controller.records.cause import cause
from enginebench_controller.records.target import best_peaks
from enginebench_controller.runs.calibrating import CalibrationOrder, EngineCalibration, calibrate
from enginebench_controller.verdicts.host_words import data_words
from enginebench_controller.verdicts.words import UNKNOWN, failure_sentence

_CORES = re.compile("[1-9][0-9]{0,5}")
COLUMNS = [
    *[("engine", False), ("version", False), ("environment", False), ("device", False), ("cores", True)],
    *[("precision or data", False), ("a second", True), ("95 % interval", True), ("best at", False)],
]
"""Headings, and whether they stand over numbers."""


def calibrate_target(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="A target or HOST:PORT; by default this machine.", autocompletion=completion.targets
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Engines: NAME, NAME@ENVIRONMENT, NAME@*, or all (the default)."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Device; by default each engine's CPU.")] = None,
    cores: Annotated[
        str | None, typer.Option(metavar="N,M,…", help="Physical cores; by default 1, 2, 4 and so on, and all.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure what engines reach at best: operations a second by precision, bytes a second by size of the data.

    Runs wait for their device as others do, so that nothing else is measured meanwhile.
    """
    order = CalibrationOrder(name, tuple(split(engine) or ("all",)), device, _counts(cores))
    with _Bar() as bar:
        found = asyncio.run(calibrate(default_home(), order, bar.running, bar.left_out))
        bar.ended(found)
    if json:
        print_json(_document(found))
    else:
        _print(found)
    if any(one.failure for one in found):
        raise typer.Exit(int(ExitCode.SOME_FAILED))


def _counts(text: str | None) -> tuple[int, ...]:
    counts = split(text) or []
    if wrong := [count for count in counts if not _CORES.fullmatch(count)]:
        raise InputError(f"--cores takes whole numbers from 1 to 999999, not {wrong[0]!r}")
    return tuple(int(count) for count in counts)


def _document(found: Sequence[EngineCalibration]) -> dict[str, Any]:
    return {
        **head("calibration"),
        "peaks": [asdict(peak) for one in found for peak in one.peaks],
        "failures": [
            {"engine": asdict(one.engine), "device": one.device, "cores": one.cores, "failure": asdict(one.failure)}
            for one in found
            if one.failure is not None
        ],
    }


def _print(found: Sequence[EngineCalibration]) -> None:
    peaks = [peak for one in found for peak in best_peaks(one.peaks)]
    if peaks:
        print_table("Peaks", COLUMNS, [_row(peak) for peak in peaks])
        remark("operations count a multiplication and an addition as two, bytes are those read and written")
    if any(peak.may_be_winograd for peak in peaks):
        remark("~ where it is far above the rest: computed with fewer operations (Winograd), no bound for other layers")
    if any(peak.rate is not None and peak.rate.disturbed for peak in peaks):
        remark("* the machine did something else meanwhile: the true peak is higher; calibrate again when it is quiet")
    for one in found:
        if one.failure is not None:
            remark(f"  failed: {one.engine.name} on {one.cores} cores: {failure_sentence(one.failure)}")


def _row(peak: Peak) -> list[object]:
    engine = peak.engine
    start = [engine.name, engine.version or UNKNOWN, engine.environment, peak.device, peak.cores]
    subject = peak.precision or data_words(peak.working_set_bytes)
    if peak.rate is None:
        return [*start, subject, UNKNOWN, UNKNOWN, cause(peak.failure or "") or UNKNOWN]
    unit = "Gop" if peak.kind is PeakKind.FLOPS else "GB"
    marks = "~" * peak.may_be_winograd + "*" * peak.rate.disturbed
    interval = f"{peak.rate.low_per_s / 1e9:.1f} to {peak.rate.high_per_s / 1e9:.1f}"
    return [*start, subject, f"{marks}{peak.rate.median_per_s / 1e9:.1f} {unit}", interval, peak.what]


def _title(engine: str, cores: int) -> str:
    return plain(f"{engine}, {cores} {'core' if cores == 1 else 'cores'}").plain


class _Bar:
    """How far all calibrations are, on stderr."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
        self._progress = Progress(*columns, TimeElapsedColumn(), console=stderr(), transient=True)
        self._written = ProgressWriter(own_folder())

    def __enter__(self) -> Self:
        if self._progress.console.is_interactive:
            self._progress.start()
        self._task = self._progress.add_task("asking for the engines", total=1.0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress.live.is_started:  # stopped without a start, it would print an empty line
            self._progress.stop()

    def running(self, number: int, total: int, engine: str, cores: int, share: float) -> None:
        """See `calibrating.Running`."""
        described = _title(engine, cores)
        self._progress.update(self._task, description=described, completed=(number + share) / total)
        self._written.step(number, total, described, share)

    def left_out(self, sentence: str) -> None:
        """See `calibrating.LeftOut`."""
        told = f"left out: {sentence}"
        self._progress.console.print(plain(told), soft_wrap=True)
        self._written.note(told)

    def ended(self, found: Sequence[EngineCalibration]) -> None:
        """All is over, and this came of it."""
        failures = {_title(one.engine.name, one.cores): one.failure.message for one in found if one.failure}
        self._written.steps_ended(failures)
