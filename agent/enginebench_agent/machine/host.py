"""What is known about this machine, from /proc and /sys. What cannot be read stays absent.

`root` is the file system's root, so that tests can bring their own.
"""

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from enginebench_agent.data_folder import DataFolder
from enginebench_agent.errors import SetupError
from enginebench_agent.machine import tuning
from enginebench_agent.machine.cgroup import cpu_quota_cores, memory_bytes
from enginebench_agent.machine.cores import physical_cores, siblings
from enginebench_proto.v1.host_pb2 import HostFacts, WireRevision

# In the order of the kernel's own documentation: x86 first, then 32-bit and 64-bit Arm.
INFERENCE_ISA = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx_vnni_int8", "avx_ne_convert"),
    *("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("neon", "vfpv4", "asimd", "fphp", "asimdhp", "asimddp", "i8mm", "bf16"),
    *("sve", "sve2", "svei8mm", "svebf16", "sme", "sme2"),
)


def read_host_facts(
    root: Path = Path("/"), cpus: Iterable[int] | None = None, folder: DataFolder | None = None
) -> HostFacts:
    """Gather the facts. `cpus` are the logical processors to count, by default those of this process's affinity.

    `folder` is where what was tuned is recorded; a record that cannot be read tells nothing.
    """
    usable = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
    return HostFacts(
        hostname=platform.node(),
        os=_os_name(root) or platform.system(),
        kernel=_read(root / "proc/sys/kernel/osrelease") or platform.release(),
        architecture=platform.machine(),
        cpu_model=_cpu_model(root),
        physical_cores=_physical_cores(root, usable),
        logical_cores=len(usable),
        cpu_quota_cores=cpu_quota_cores(root),
        isa=_isa(root),
        memory_bytes=memory_bytes(root),
        agent_version=importlib.metadata.version("enginebench"),
        python_version=platform.python_version(),
        wire_revision=WireRevision.Name(max(WireRevision.values())),
        tuned=[] if folder is None else _tuned(folder, root),
    )


def _physical_cores(root: Path, cpus: list[int]) -> int | None:
    """How many cores these logical processors belong to; None where the kernel does not tell."""
    known = all(siblings(root, cpu) is not None for cpu in cpus)
    return len(physical_cores(cpus, root)) or None if known else None


def _tuned(folder: DataFolder, root: Path) -> list[str]:
    try:
        return tuning.in_effect(folder, root)
    except SetupError:  # `tune` itself says what is wrong with it
        return []


def _cpu_model(root: Path) -> str | None:
    # Arm kernels give no model name; the board's, from the device tree, is what its owner knows it by.
    from_cpuinfo = _cpuinfo(root, "model name") or _cpuinfo(root, "Model") or _cpuinfo(root, "Hardware")
    return from_cpuinfo or _read(root / "proc/device-tree/model")


def _isa(root: Path) -> list[str]:
    present = set((_cpuinfo(root, "flags") or _cpuinfo(root, "Features") or "").split())
    return [name for name in INFERENCE_ISA if name in present]


def _os_name(root: Path) -> str | None:
    for name in ("etc/os-release", "usr/lib/os-release"):
        found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', _read(root / name) or "", re.MULTILINE)
        if found:
            return found[1]
    return None


def _cpuinfo(root: Path, key: str) -> str | None:
    found = re.search(rf"^{key}\s*:[ \t]*(\S.*)$", _read(root / "proc/cpuinfo") or "", re.MULTILINE)
    return found[1].strip() if found else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip("\0\n ") or None
    except OSError:
        return None
