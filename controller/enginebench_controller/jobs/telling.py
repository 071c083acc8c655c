"""The side of the command that is a job: it tells in its folder how it is coming along and how it ended."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from enginebench_controller.errors import INTERRUPTED
from enginebench_controller.home import JOB_VARIABLE
from enginebench_controller.jobs.folder import JobFolder
from enginebench_controller.jobs.record import CellState, JobEnding


def own_folder() -> JobFolder | None:
    """The folder of the job that this process is; None where it is none."""
    named = os.environ.get(JOB_VARIABLE)
    return JobFolder(Path(named)) if named else None


@contextmanager
def telling_how_it_ends() -> Iterator[None]:
    """Keep the exit code of the block's `SystemExit` in the job's folder, if this process is a job."""
    folder = own_folder()
    if folder is None:
        yield
        return
    _listen(folder)
    try:
        yield
    except SystemExit as leaving:
        _tell(folder, leaving.code if isinstance(leaving.code, int) else 0)
        raise
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        _tell(folder, INTERRUPTED if interrupted else 1, crashed=not interrupted)
        raise
    else:
        _tell(folder, 0)


def tell_wrong_outputs(problems: Mapping[str, str]) -> None:
    """Say of the cells of this job whose outputs are wrong, with the sentence by the id of what they became."""
    folder = own_folder()
    progress = folder.progress() if folder else None
    if folder is None or progress is None or not problems:
        return
    told = ((cell, problems.get(cell.outcome_id or "")) for cell in progress.cells)
    cells = (
        replace(cell, state=CellState.WRONG, reason=f"outputs: {problem}") if problem else cell
        for cell, problem in told
    )
    folder.write_progress(replace(progress, cells=tuple(cells)))


def _listen(folder: JobFolder) -> None:
    """Make Ctrl-C work: what descends from a shell's background command inherits that it is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if folder.cancel_file.exists():
        _tell(folder, INTERRUPTED)
        sys.exit(INTERRUPTED)


def _tell(folder: JobFolder, exit_code: int, *, crashed: bool = False) -> None:
    folder.write_ending(JobEnding(exit_code, time.time_ns(), crashed))
