"""Confines this process before an engine is imported: which cores it runs on, how many threads libraries start."""

import ctypes
import os
import signal
from pathlib import Path

from enginebench_plugins.spec import UnsupportedSettingsError

SYSFS_CPU = Path("/sys/devices/system/cpu")

_PR_SET_PDEATHSIG = 1
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends. Does nothing outside Linux."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def physical_cores(allowed: set[int], sysfs: Path = SYSFS_CPU) -> list[int]:
    """One allowed logical processor of every physical core, the fastest kind of core first, then by number.

    `sysfs` is the kernel's `cpu` folder. Where it tells nothing, each logical processor counts as a core.
    """
    first_of_core: dict[frozenset[int], int] = {}
    for cpu in sorted(allowed):
        first_of_core.setdefault(_siblings(cpu, sysfs), cpu)
    return sorted(first_of_core.values(), key=lambda cpu: (-_capacity(cpu, sysfs), cpu))


def confine_to_cores(cores: int, sysfs: Path = SYSFS_CPU) -> tuple[int, ...]:
    """Bind this process and all its future threads to `cores` physical cores; returns the logical processors.

    Also limits the thread pools that read the environment when they are loaded, NumPy's among them.
    Raises `UnsupportedSettingsError` when there are fewer cores, or for none.
    """
    available = physical_cores(os.sched_getaffinity(0), sysfs)
    if not 1 <= cores <= len(available):
        raise UnsupportedSettingsError(
            f"The configuration asks for {cores} physical cores; this process may use {len(available)}."
        )
    os.sched_setaffinity(0, available[:cores])
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(cores)))
    return tuple(sorted(available[:cores]))


def _siblings(cpu: int, sysfs: Path) -> frozenset[int]:
    topology = sysfs / f"cpu{cpu}" / "topology"
    for name in ("core_cpus_list", "thread_siblings_list"):  # the second is the name before Linux 5.1
        try:
            return _parse_cpu_list((topology / name).read_text())
        except (OSError, ValueError):
            continue
    return frozenset({cpu})


def _parse_cpu_list(text: str) -> frozenset[int]:
    """Processor numbers of a kernel list such as "0-1,64-65"."""
    spans = [span.partition("-") for span in text.strip().split(",")]
    return frozenset(cpu for low, _, high in spans for cpu in range(int(low), int(high or low) + 1))


def _capacity(cpu: int, sysfs: Path) -> int:
    """The kernel's measure of a core's speed (1024 is the fastest kind); absent where all cores are alike."""
    try:
        return int((sysfs / f"cpu{cpu}" / "cpu_capacity").read_text())
    except (OSError, ValueError):
        return 1024
