"""Bystanders: who but enginebench used a machine."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessUse:
    """Processes of one name, with those that they started and that have ended; `pid` is that of the busiest."""

    name: str
    pid: int
    count: int
    cpu_time_ns: int


@dataclass(frozen=True)
class MachineUse:
    """What others used of all `processors` of a machine in so many nanoseconds; `busiest` are those that used most."""

    duration_ns: int
    processors: int
    other_cpu_time_ns: int
    steal_ns: int = 0
    busiest: tuple[ProcessUse, ...] = ()

    @property
    def share(self) -> float:
        """Of the machine's processor time, what others used."""
        return min(1.0, self.other_cpu_time_ns / (self.duration_ns * self.processors))

    @classmethod
    def together(cls, uses: Iterable["MachineUse"]) -> "MachineUse | None":
        """What was used over several stretches of time; None of none."""
        known = [one for one in uses if one.duration_ns * one.processors > 0]
        if not known:
            return None
        return cls(
            duration_ns=sum(one.duration_ns for one in known),
            processors=max(one.processors for one in known),
            other_cpu_time_ns=sum(one.other_cpu_time_ns for one in known),
            steal_ns=sum(one.steal_ns for one in known),
            busiest=_by_name([process for one in known for process in one.busiest]),
        )


@dataclass(frozen=True)
class Bystanders:
    """What an agent saw of others: `before` a process, for which it waited `waited_ns`, and `meanwhile`.

    None where it did not look, or could not. `unseen` says what cannot be seen from where it runs.
    """

    before: MachineUse | None = None
    waited_ns: int = 0
    meanwhile: MachineUse | None = None
    quota_cores: float | None = None
    unseen: tuple[str, ...] = ()


def _by_name(processes: list[ProcessUse]) -> tuple[ProcessUse, ...]:
    found: dict[str, ProcessUse] = {}
    for one in sorted(processes, key=lambda one: -one.cpu_time_ns):
        known = found.get(one.name, ProcessUse(one.name, one.pid, 0, 0))
        count, used_ns = max(known.count, one.count), known.cpu_time_ns + one.cpu_time_ns
        found[one.name] = ProcessUse(one.name, known.pid, count, used_ns)
    return tuple(sorted(found.values(), key=lambda one: -one.cpu_time_ns))
