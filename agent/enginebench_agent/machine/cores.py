"""The processors: which share a core, which are of one kind, how many may be used, where their frequency is set.

`root` is the file system's root everywhere, so that tests can bring their own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor
from pathlib import Path

from enginebench_proto.agreed.processor import arm_cores, rank

CPU_FOLDER = "sys/devices/system/cpu"


@dataclass(frozen=True)
class TurboSwitch:
    """The file that lets processors go beyond their base frequency, and what to write into it."""

    path: Path
    on: str
    off: str


def policies(root: Path, cpus: Iterable[int] | None = None) -> tuple[Path, ...]:
    """The folders with the frequency settings of these logical processors, each once; by default of all of them."""
    if cpus is None:
        return tuple(sorted((root / CPU_FOLDER / "cpufreq").glob("policy[0-9]*"), key=_number))
    folders = (root / CPU_FOLDER / f"cpu{cpu}" / "cpufreq" for cpu in cpus)
    # Processors that change their frequency together link to one folder.
    return tuple(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))


def turbo_switch(root: Path) -> TurboSwitch | None:
    """The switch of this machine's frequency driver; None where it has none."""
    folder = root / CPU_FOLDER
    switches = (
        TurboSwitch(folder / "intel_pstate" / "no_turbo", on="0", off="1"),
        TurboSwitch(folder / "cpufreq" / "boost", on="1", off="0"),
    )
    return next((switch for switch in switches if switch.path.is_file()), None)


def _number(policy: Path) -> int:
    return int(policy.name.removeprefix("policy"))


INTEL_KINDS = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""The kernel's names of the counters of P cores, E cores and those of the low-power island, the fastest first."""

ANOTHER_KIND = 0.85
"""Cores that are slower than this share of the next faster ones are of another kind: what the best cores of a kind
reach beyond the others (AMD's preferred ones, RK3588's better bins) is less than a tenth."""


def physical_cores(cpus: Iterable[int], root: Path = Path("/")) -> list[int]:
    """One of these logical processors of every physical core, the fastest kind of core first, then by package.

    Where the kernel does not tell, each logical processor counts as a core.
    """
    return [cpu for kind in kinds_of_cores(cpus, root) for cpu in kind]


def kinds_of_cores(cpus: Iterable[int], root: Path = Path("/")) -> list[list[int]]:
    """One logical processor of each physical core, by kind, the fastest kind first; of a kind, package by package.

    Some machines number the cores of two sockets in turn, and half a run's cores would reach its memory through the
    other socket. Where the kernel does not tell which share a core, each is one.
    """
    first_of_core: dict[frozenset[int], int] = {}
    for cpu in sorted(cpus, key=lambda cpu: (_package(root, cpu), cpu)):
        first_of_core.setdefault(siblings(root, cpu) or frozenset({cpu}), cpu)
    cores = first_of_core.values()
    # Where the kernel knows speeds, a lower frequency is in them already; where it does not, all cores have the same.
    capacities = {cpu: capacity(root, cpu) for cpu in cores}
    is_told = len(set(capacities.values())) > 1
    speeds = capacities if is_told else {cpu: max_frequency_hz(root, cpu) for cpu in cores}
    models, intel, steps = arm_cores(root), _intel_kinds(root), _steps(speeds.values())
    groups: dict[tuple[int, int, int, str], list[int]] = {}
    for cpu in cores:
        model = models.get(cpu, "")
        kind = intel.get(cpu, 0), steps[speeds[cpu]], rank(model), model
        groups.setdefault(kind, []).append(cpu)
    return [groups[kind] for kind in sorted(groups)]


def cores_by_kind(cpus: Iterable[int], root: Path = Path("/")) -> dict[str, list[int]]:
    """The same by the names that kinds go by: "big", "little" and those between, the fastest first; {} for one kind."""
    kinds = kinds_of_cores(cpus, root)
    if len(kinds) < 2:
        return {}
    middle = ["mid"] if len(kinds) == 3 else [f"mid{number}" for number in range(1, len(kinds) - 1)]
    return dict(zip(["big", *middle, "little"], kinds, strict=True))


def _intel_kinds(root: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for place, name in enumerate(INTEL_KINDS):
        try:
            cpus = parse_cpu_list((root / "sys/devices" / name / "cpus").read_text())
        except (OSError, ValueError):
            continue
        found |= dict.fromkeys(cpus, place)
    return found


def _steps(speeds: Iterable[int | None]) -> dict[int | None, int]:
    """The number of the kind that cores of a speed belong to, 0 for the fastest."""
    found: dict[int | None, int] = {None: 0}
    before, step = 0, 0
    for speed in sorted({one for one in speeds if one}, reverse=True):
        step += before > 0 and speed < ANOTHER_KIND * before
        found[speed], before = step, speed
    return found


def usable_cores(available: int, quota_cores: float | None) -> int:
    """How many of the physical cores available can be kept busy all the time under a quota of processor time.

    A quota of less than one core leaves one, which is then held back at times; the evidence of a block says so.
    """
    return available if quota_cores is None else min(available, max(1, floor(quota_cores)))


def siblings(root: Path, cpu: int) -> frozenset[int] | None:
    """The logical processors of this one's core, itself included; None where the kernel does not tell."""
    topology = root / CPU_FOLDER / f"cpu{cpu}" / "topology"
    for name in ("core_cpus_list", "thread_siblings_list"):  # the second is the name before Linux 5.1
        try:
            return parse_cpu_list((topology / name).read_text())
        except (OSError, ValueError):
            continue
    return None


def _package(root: Path, cpu: int) -> int:
    """The number of the socket that a processor is in; 0 where the kernel does not tell, and all are alike."""
    try:
        return int((root / CPU_FOLDER / f"cpu{cpu}" / "topology" / "physical_package_id").read_text())
    except (OSError, ValueError):
        return 0


def isolated(root: Path = Path("/")) -> frozenset[int]:
    """The logical processors that the kernel moves no thread to or from by itself (`isolcpus`); empty for none."""
    try:
        return parse_cpu_list((root / CPU_FOLDER / "isolated").read_text())
    except (OSError, ValueError):  # none are an empty line
        return frozenset()


def parse_cpu_list(text: str) -> frozenset[int]:
    """Processor numbers of a kernel list such as "0-1,64-65"."""
    spans = [span.partition("-") for span in text.strip().split(",")]
    return frozenset(cpu for low, _, high in spans for cpu in range(int(low), int(high or low) + 1))


def capacity(root: Path, cpu: int) -> int | None:
    """The kernel's measure of a core's speed (1024 is the fastest kind); None where it has none, as on x86."""
    try:
        return int((root / CPU_FOLDER / f"cpu{cpu}" / "cpu_capacity").read_text())
    except (OSError, ValueError):
        return None


def max_frequency_hz(root: Path, cpu: int) -> int | None:
    """The highest frequency of a core; None where the kernel does not tell."""
    try:
        return 1000 * int((root / CPU_FOLDER / f"cpu{cpu}" / "cpufreq" / "cpuinfo_max_freq").read_text())
    except (OSError, ValueError):
        return None
