"""The processor's full name, for engines that have a CPU device and no name for it."""

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def processor_name(cpuinfo: Path = CPUINFO) -> str:
    """The name the kernel gives the first processor ("AMD EPYC 7763"), else the machine's architecture (ARM)."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    fields = (line.partition(":") for line in lines)
    names = (value.strip() for key, _, value in fields if key.strip() in {"model name", "Model"})
    return next((name for name in names if name), platform.machine())
