"""What disturbed a measurement, and who, in words; that a block is disturbed is the worker's to say."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Block, DisturbanceKind, Evidence, MachineUse, Measurement, Profile


@dataclass(frozen=True)
class EvidenceSummary:
    """Disturbed blocks among all; how many of them each kind of disturbance befell; why evidence is missing, by field.

    A block may be disturbed in several ways, so the counts may add up to more than `disturbed_blocks`.
    `disturbed_share` is that of the time in which the process did not stand still, None without any, and where nobody
    told of others: neither what they used nor what the hypervisor took.
    """

    blocks: int
    disturbed_blocks: int
    disturbed_share: float | None
    disturbances: Mapping[DisturbanceKind, int]
    missing: Mapping[str, str]


def summarize_evidence(blocks: Sequence[Block]) -> EvidenceSummary:
    """Summarize the evidence of a measurement's blocks, over all its processes."""
    disturbed = [block for block in blocks if block.disturbances]
    kinds = Counter(kind for block in disturbed for kind in dict.fromkeys(one.kind for one in block.disturbances))
    going_on = [block for block in blocks if not block.paused_ns]
    whole_ns = sum(block.duration_ns for block in going_on)
    disturbed_ns = sum(block.duration_ns for block in going_on if block.disturbances)
    is_known = any(block.disturbances or _tells_of_others(block.evidence) for block in going_on)
    return EvidenceSummary(
        blocks=len(blocks),
        disturbed_blocks=len(disturbed),
        disturbed_share=disturbed_ns / whole_ns if whole_ns and is_known else None,
        disturbances=dict(kinds.most_common()),
        missing={field: reason for block in blocks for field, reason in block.evidence.missing.items()},
    )


def _tells_of_others(evidence: Evidence) -> bool:
    return evidence.other_cpu_time_ns is not None or evidence.steal_ns is not None


WORTH_A_WORD = 0.05
"""Of the machine: a block is disturbed from this share of its own cores on."""

BESIDE_A_PASS = 0.1
"""Of the cores of a profile: a pass is short, and what is counted in ticks is coarse."""

LEAST_TOLD = 0.005
"""Of the machine: less is told as 0 %, of which nobody used most."""

MOST = 0.5
"""Beyond this share of what others used, somebody used most of it."""


def meanwhile(measurement: Measurement) -> MachineUse | None:
    """Return what others used while a measurement's processes were timed; None where nobody could tell."""
    seen = (process.bystanders for process in measurement.processes if process.bystanders is not None)
    return MachineUse.together(one.meanwhile for one in seen if one.meanwhile is not None)


def unseen(measurement: Measurement) -> tuple[str, ...]:
    """Return what could not be seen of others from where the agent runs."""
    seen = (process.bystanders for process in measurement.processes if process.bystanders is not None)
    return tuple(dict.fromkeys(phrase for one in seen for phrase in one.unseen))


def own_share(measurement: Measurement) -> float:
    """Which share of the machine processes of enginebench used beside blocks, as pages and other commands do.

    They are none of those whom an agent tells of others, but blocks count whatever ran beside them. 0 where it is not
    worth a word, or others used as much. What is counted beside a block that nobody disturbed is mostly rounding.
    """
    use = meanwhile(measurement)
    counted = [one for one in measurement.blocks if not one.paused_ns and one.evidence.other_cpu_time_ns is not None]
    if use is None or use.share >= WORTH_A_WORD or not counted:
        return 0.0
    disturbed = (one for one in counted if DisturbanceKind.OTHER_PROCESSES in {each.kind for each in one.disturbances})
    beside_ns = sum(one.evidence.other_cpu_time_ns or 0 for one in disturbed)
    share = beside_ns / (use.processors * sum(one.duration_ns for one in counted)) - use.share
    return share if share >= WORTH_A_WORD else 0.0


def own_used(share: float) -> str:
    """Say how much of the machine processes of enginebench used beside blocks."""
    return f"enginebench's own processes used {100 * share:.0f} % of the machine beside it"


def others_used(use: MachineUse, unseen: tuple[str, ...] = ()) -> str:
    """Say how much others used, and who: "other processes used 31 % of the machine, most of it `pip` (pid 812)"."""
    return f"other processes used {100 * use.share:.0f} % of the machine{_by_whom(use, unseen)}"


def beside_pass(profile: Profile) -> MachineUse | None:
    """Return what others used while a profile was made; None where it was little, or nobody can tell."""
    use = profile.bystanders.meanwhile if profile.bystanders else None
    little = BESIDE_A_PASS * profile.configuration.cores
    return None if use is None or use.other_cpu_time_ns <= little * use.duration_ns else use


def beside_words(profile: Profile, use: MachineUse) -> str:
    """Say that others used the machine while a profile was made, and who."""
    return f"while it was profiled, {others_used(use, profile.bystanders.unseen if profile.bystanders else ())}"


def waiting_for(use: MachineUse, at_most_ns: int) -> str:
    """Say whom a run waits for, and how long: "waiting for `pip` (pid 812), 31 % of the machine, up to 10 s"."""
    who = busiest(use) or "other processes"
    if not use.other_cpu_time_ns:
        who = "other guests of the hypervisor"
    share = max(use.share, use.steal_ns / max(1, use.duration_ns * use.processors))
    return f"waiting for {who}, {100 * share:.0f} % of the machine, up to {at_most_ns / 1e9:g} s"


def busiest(use: MachineUse) -> str:
    """Name who used most: "`pip` (pid 812)"; "" where it cannot be told."""
    if not use.busiest:
        return ""
    one = use.busiest[0]
    count = f"{one.count} processes, " if one.count > 1 else ""
    return f"`{one.name}` ({count}pid {one.pid})"


def remedy(use: MachineUse) -> str:
    """Say what to do about those who used the machine."""
    if not _used_most(use) or use.busiest[0].name.startswith("["):  # a thread of the kernel's
        return "close what is not needed"
    name = use.busiest[0].name
    if name.startswith("enginebench"):
        return "another agent measures here: wait for it"
    return f"close `{name}`, or measure when it has ended"


def _used_most(use: MachineUse) -> bool:
    return bool(use.busiest) and use.busiest[0].cpu_time_ns > MOST * use.other_cpu_time_ns


def _by_whom(use: MachineUse, unseen: tuple[str, ...]) -> str:
    named_ns = sum(one.cpu_time_ns for one in use.busiest)
    if named_ns <= MOST * use.other_cpu_time_ns:
        of_whom = [phrase for phrase in unseen if "process" in phrase or "Windows" in phrase]
        return f", most of it by {of_whom[0]}" if of_whom else ""
    return f", most of it {busiest(use)}" if _used_most(use) else f", {busiest(use)} more than any other"
