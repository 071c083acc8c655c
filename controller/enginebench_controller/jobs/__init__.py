"""Jobs: commands that run on their own, in a process that outlives the page or shell that started it.

A job carries out a command line of `enginebench`, so by the same code; what it tells of itself lies in a folder,
`HOME/jobs/ID/`, where anybody may read how it is coming along. Results are not kept here: they are in the store.
"""

from enginebench_controller.jobs.control import cancel, job, jobs, log_tail, remove, start_job
from enginebench_controller.jobs.record import Cell, CellState, Job, JobProgress, JobState, Made, MadeKind

__all__ = [
    "Cell",
    "CellState",
    "Job",
    "JobProgress",
    "JobState",
    "Made",
    "MadeKind",
    "cancel",
    "job",
    "jobs",
    "log_tail",
    "remove",
    "start_job",
]
