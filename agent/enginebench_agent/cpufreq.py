"""Where the kernel keeps the frequency settings of the processors: read as evidence, set by `tune`.

`root` is the file system's root everywhere, so that tests can bring their own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
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
