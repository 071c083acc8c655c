"""The processors: which share a core, which are fastest, how many may be used, and where their frequency is set.

`root` is the file system's root everywhere, so that tests can bring their own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor
from pathlib import Path

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


_FASTEST_CAPACITY = 1024


def physical_cores(cpus: Iterable[int], root: Path = Path("/")) -> list[int]:
    """One of these logical processors of every physical core, the fastest kind of core first, then by number.

    Where the kernel does not tell, each logical processor counts as a core.
    """
    first_of_core: dict[frozenset[int], int] = {}
    for cpu in sorted(cpus):
        first_of_core.setdefault(siblings(root, cpu) or frozenset({cpu}), cpu)
    return sorted(first_of_core.values(), key=lambda cpu: (-_capacity(root, cpu), cpu))


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
            return _parse_cpu_list((topology / name).read_text())
        except (OSError, ValueError):
            continue
    return None


def _parse_cpu_list(text: str) -> frozenset[int]:
    """Processor numbers of a kernel list such as "0-1,64-65"."""
    spans = [span.partition("-") for span in text.strip().split(",")]
    return frozenset(cpu for low, _, high in spans for cpu in range(int(low), int(high or low) + 1))


def _capacity(root: Path, cpu: int) -> int:
    """The kernel's measure of a core's speed (1024 is the fastest kind); absent where all cores are alike."""
    try:
        return int((root / CPU_FOLDER / f"cpu{cpu}" / "cpu_capacity").read_text())
    except (OSError, ValueError):
        return _FASTEST_CAPACITY
