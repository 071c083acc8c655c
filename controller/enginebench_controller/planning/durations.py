"""How long jobs take, as far as their stop rules tell: estimates, to be said as such."""

from collections import defaultdict
from collections.abc import Iterable

from enginebench_controller.planning.expand import Job
from enginebench_controller.records import StopRule

OVERHEAD_NS = 2_000_000_000
"""A guess at reading, compiling and teardown of one process, which differ from model to model."""

Lane = tuple[str, tuple[str, ...]]
"""A target and the resources there that a job occupies: jobs of one lane follow each other, lanes run side by side."""


def lane(job: Job) -> Lane:
    """The lane a job is in."""
    return job.target, job.resources


def expected_ns(rule: StopRule) -> int:
    """The estimate for one measurement of all its processes, where nothing keeps it from ending as soon as it may."""
    return rule.min_duration_ns + rule.processes * (rule.warmup_ns + OVERHEAD_NS)


def longest_ns(rule: StopRule) -> int:
    """The estimate for one measurement that goes on for as long as it may."""
    return rule.max_duration_ns + rule.processes * (rule.warmup_ns + OVERHEAD_NS)


def expected_range_ns(jobs: Iterable[Job]) -> tuple[int, int]:
    """The estimate for all jobs: the time of the longest lane when all end as soon, and as late, as they may."""
    soonest: defaultdict[Lane, int] = defaultdict(int)
    latest: defaultdict[Lane, int] = defaultdict(int)
    for job in jobs:
        soonest[lane(job)] += expected_ns(job.configuration.stop)
        latest[lane(job)] += longest_ns(job.configuration.stop)
    return max(soonest.values(), default=0), max(latest.values(), default=0)
