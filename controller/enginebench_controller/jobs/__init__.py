"""Jobs: commands that run on their own, in a process that outlives the page or shell that started it.

A job carries out a command line of `enginebench`, so by the same code; what it tells of itself lies in a folder,
`HOME/jobs/ID/`, where anybody may read how it is coming along. Results are not kept here: they are in the store.
"""

from enginebench_controller.jobs.ending import cancel, remove
from enginebench_controller.jobs.listing import job, jobs, log_tail
from enginebench_controller.jobs.progress import Cell, CellState, Made, MadeKind, Progress
from enginebench_controller.jobs.record import Job, JobState
from enginebench_controller.jobs.starting import start_job

__all__ = [
    "Cell",
    "CellState",
    "Job",
    "JobState",
    "Made",
    "MadeKind",
    "Progress",
    "cancel",
    "job",
    "jobs",
    "log_tail",
    "remove",
    "start_job",
]
