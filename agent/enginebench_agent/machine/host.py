"""What is known about this machine, from /proc and /sys. What cannot be read stays absent.

`root` is the file system's root, so that tests can bring their own.
"""

import importlib.metadata
import os
import platform
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from enginebench_agent.data_folder import DataFolder
from enginebench_agent.errors import SetupError
from enginebench_agent.machine import tuning
from enginebench_agent.machine.cgroup import cpu_quota_cores, memory_bytes
from enginebench_agent.machine.cores import (
    CPU_FOLDER,
    capacity,
    cores_by_kind,
    max_frequency_hz,
    physical_cores,
    siblings,
)
from enginebench_proto.agreed import processor
from enginebench_proto.v1.host_pb2 import Cache, CoreCluster, HostFacts, WireRevision

# In the order of the kernel's own documentation: x86 first, then 32-bit and 64-bit Arm.
INFERENCE_ISA = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx_vnni_int8", "avx_ne_convert"),
    *("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("neon", "vfpv4", "asimd", "fphp", "asimdhp", "asimddp", "i8mm", "bf16"),
    *("sve", "sve2", "svei8mm", "svebf16", "sme", "sme2"),
)


def read_host_facts(
    root: Path = Path("/"), cpus: Iterable[int] | None = None, folder: DataFolder | None = None, machine: str = ""
) -> HostFacts:
    """Gather the facts. `cpus` are the logical processors to count, by default those of this process's affinity.

    `folder` is where what was tuned is recorded; a record that cannot be read tells nothing. `machine` is what programs
    here are made for, by default what this one is.
    """
    usable = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
    machine = machine or platform.machine()
    present = processor.instruction_sets(root, machine)
    return HostFacts(
        hostname=platform.node(),
        os=_os_name(root) or platform.system(),
        kernel=_read(root / "proc/sys/kernel/osrelease") or platform.release(),
        architecture=machine,
        cpu_model=processor.processor_name(root, machine),
        physical_cores=_physical_cores(root, usable),
        logical_cores=len(usable),
        cpu_quota_cores=cpu_quota_cores(root),
        isa=[name for name in INFERENCE_ISA if name in present],
        memory_bytes=memory_bytes(root),
        agent_version=importlib.metadata.version("enginebench"),
        python_version=platform.python_version(),
        wire_revision=WireRevision.Name(max(WireRevision.values())),
        tuned=[] if folder is None else _tuned(folder, root),
        emulation=processor.emulation(root, machine),
        virtualization=processor.virtualization(root),
        clusters=_clusters(root, usable),
        caches=[] if processor.emulation(root, machine) else _caches(root, usable),
    )


def _physical_cores(root: Path, cpus: list[int]) -> int | None:
    """How many cores these logical processors belong to; None where the kernel does not tell.

    ARM's have one thread each, but for a few server processors, whose kernels do tell.
    """
    known = processor.arm_cores(root) or all(siblings(root, cpu) is not None for cpu in cpus)
    return len(physical_cores(cpus, root)) or None if known else None


def _clusters(root: Path, cpus: list[int]) -> list[CoreCluster]:
    """The kinds of cores of a machine whose cores are not alike, the fastest first; none where all are.

    Big and little ones, Intel's P and E, AMD's dense ones; of those that these logical processors belong to.
    """
    return [_cluster(root, name, cores) for name, cores in cores_by_kind(cpus, root).items()]


def _cluster(root: Path, name: str, cores: list[int]) -> CoreCluster:
    known = processor.arm_cores(root)
    models = {known.get(cpu) for cpu in cores}
    frequencies = [hertz for cpu in cores if (hertz := max_frequency_hz(root, cpu))]
    return CoreCluster(
        name=name,
        physical_cores=len(cores),
        model=models.pop() if len(models) == 1 else None,
        capacity=capacity(root, cores[0]),
        max_frequency_hz=max(frequencies, default=None),
    )


def _caches(root: Path, cpus: list[int]) -> list[Cache]:
    """Each cache once, however many of these processors share it; those of one kind and size together."""
    found = set()
    for folder in (one for cpu in cpus for one in (root / CPU_FOLDER / f"cpu{cpu}" / "cache").glob("index[0-9]*")):
        level, kind, size, sharers = (_read(folder / name) for name in ("level", "type", "size", "shared_cpu_list"))
        if level and kind and size and size.endswith("K"):  # the kernel writes no other unit
            found.add((int(level), kind.lower(), int(size[:-1]) * 1024, sharers))
    counted = Counter((level, kind, size_bytes) for level, kind, size_bytes, _ in found)
    return [
        Cache(level=level, type=kind, size_bytes=size_bytes, count=count)
        for (level, kind, size_bytes), count in sorted(counted.items())
    ]


def _tuned(folder: DataFolder, root: Path) -> list[str]:
    try:
        return tuning.in_effect(folder, root)
    except SetupError:  # `tune` itself says what is wrong with it
        return []


def _os_name(root: Path) -> str | None:
    for name in ("etc/os-release", "usr/lib/os-release"):
        found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', _read(root / name) or "", re.MULTILINE)
        if found:
            return found[1]
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip("\0\n ") or None
    except OSError:
        return None
