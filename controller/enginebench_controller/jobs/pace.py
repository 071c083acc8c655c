"""How long the rest of a job will take, judged by how long its first cells took."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from enginebench_controller.planning.durations import Lane, expected_ns, lane
from enginebench_controller.planning.expand import Job


@dataclass
class _Course:
    """What is known of one lane, in seconds: what its jobs were expected to take, and what those that ended took."""

    since_s: float
    open_s: float = 0.0
    begun_s: dict[int, float] = field(default_factory=dict)
    worked_expected_s: float = 0.0
    worked_s: float = 0.0

    @property
    def pace(self) -> float | None:
        """Seconds taken a second expected; None before the first job that worked."""
        return self.worked_s / self.worked_expected_s if self.worked_expected_s else None


class Pace:
    """Follows the jobs of each lane, which come one after the other or all together in turns; `clock` is in seconds.

    A measurement may go on for as long as its interval takes, so what the stop rules promise is corrected by what the
    jobs that worked really took. One that failed says nothing about the others.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self._courses: defaultdict[Lane, _Course] = defaultdict(lambda: _Course(clock()))

    def add(self, jobs: Sequence[Job]) -> None:
        """These are to come."""
        for job in jobs:
            self._courses[lane(job)].open_s += _expected_s(job)

    def begun(self, job: Job) -> None:
        """This one is being carried out."""
        self._courses[lane(job)].begun_s[id(job)] = _expected_s(job)

    def finished(self, job: Job, *, worked: bool) -> None:
        """This one has ended."""
        course, now = self._courses[lane(job)], self._clock()
        course.open_s -= _expected_s(job)
        course.begun_s.pop(id(job), None)
        if worked:
            course.worked_expected_s += _expected_s(job)
            course.worked_s += now - course.since_s
        course.since_s = now

    def seconds_left(self) -> float:
        """Until the last lane is empty; what takes longer than it should counts as nearly done."""
        return max((self._left(course) for course in self._courses.values()), default=0.0)

    def seconds_left_at(self, share: float) -> float | None:
        """As for a job of equal steps, of which this share is done; None before any is."""
        return (self._clock() - self._began_s) * (1 - share) / share if share > 0 else None

    def _left(self, course: _Course) -> float:
        usual = self._usual(course)
        begun_s = min(usual * sum(course.begun_s.values()), self._clock() - course.since_s)
        return max(0.0, usual * course.open_s - begun_s)

    def _usual(self, course: _Course) -> float:
        """The pace of this lane, or of the others as long as it has none of its own."""
        if course.pace is not None:
            return course.pace
        known = [one.pace for one in self._courses.values() if one.pace is not None]
        return sum(known) / len(known) if known else 1.0


def _expected_s(job: Job) -> float:
    return expected_ns(job.configuration.stop) / 1e9
