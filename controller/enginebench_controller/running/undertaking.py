"""A job under way: who it is to the store and to its target, and what has come of it so far."""

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from enginebench_controller.planning.expand import Job
from enginebench_controller.records import Failure
from enginebench_proto.v1 import run_pb2

ATTEMPTS = 3
"""So often a process is begun in all where the agent forgets its runs: one that a run brings down is not asked on."""


@dataclass
class Undertaking:
    """A job, the id that its measurement or profile will have, and the results of its processes or why there are none.

    Each attempt at a process is a run of its own, so that what comes late of an earlier one can never be taken for a
    result of a later one. `settled` once the outcome is in the store.
    """

    job: Job
    outcome_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    results: dict[int, run_pb2.RunResult] = field(default_factory=dict)
    failure: Failure | None = None
    settled: bool = False
    _attempts: dict[int, int] = field(default_factory=dict)

    @property
    def goes_on(self) -> bool:
        """Whether nothing has failed yet."""
        return self.failure is None and not any(result.HasField("failure") for result in self.results.values())

    @property
    def processes(self) -> tuple[int, ...]:
        """The processes that were begun."""
        return tuple(sorted(self._attempts))

    @property
    def run_ids(self) -> list[str]:
        """The runs that a target may know of, those of earlier attempts too."""
        return [self._run_id(process, one) for process in self.processes for one in range(self._attempts[process])]

    def lacks(self, process: int) -> bool:
        """Whether this process is still to be carried out."""
        return self.goes_on and not self.settled and process not in self.results and process < self._all_processes

    def attempts(self, process: int) -> int:
        """How often a process was begun."""
        return self._attempts.get(process, 0)

    def begin(self, process: int) -> str:
        """Count an attempt at a process; returns the id of its run."""
        self._attempts[process] = self.attempts(process) + 1
        return self.run_id(process)

    def run_id(self, process: int) -> str:
        """The run of the latest attempt at a process that was begun."""
        return self._run_id(process, self._attempts[process] - 1)

    def cut(self, processes: int) -> None:
        """Let so many processes be all that are asked for: each has done its share of a rule for more of them."""
        rule = self.job.configuration.stop
        each = partial(_share, parts=rule.processes, of=processes)
        rule = replace(
            rule,
            processes=processes,
            min_duration_ns=each(rule.min_duration_ns),
            max_duration_ns=each(rule.max_duration_ns),
            min_iterations=each(rule.min_iterations),
        )
        self.job = replace(self.job, configuration=replace(self.job.configuration, stop=rule))

    def recognize(self, run_ids: Iterable[str]) -> bool:
        """Take those of these runs for begun that are of this job; False where there is none."""
        for match in filter(None, map(re.compile(rf"{self.outcome_id}-(\d+)-(\d+)").fullmatch, run_ids)):
            process, attempt = int(match[1]), int(match[2])
            self._attempts[process] = max(self.attempts(process), attempt + 1)
        return bool(self._attempts)

    @property
    def _all_processes(self) -> int:
        return self.job.configuration.stop.processes

    def _run_id(self, process: int, attempt: int) -> str:
        return f"{self.outcome_id}-{process}-{attempt}"


def _share(whole: int, *, parts: int, of: int) -> int:
    """What `of` parts of a whole come to, each rounded as the processes' shares are."""
    return -(-whole // parts) * of
