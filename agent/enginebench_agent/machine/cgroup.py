"""What the agent's control group allows and has seen, in both versions of its interface, and how much memory.

`root` is the file system's root everywhere, so that tests can bring their own.
"""

import re
from collections.abc import Iterator
from pathlib import Path

_V1_UNLIMITED_BYTES = 1 << 60
"""Version 1 writes "no limit" as a number near 2^63."""


def cpu_quota_cores(root: Path) -> float | None:
    """Processor time granted, in cores; the tightest of all enclosing groups, None when unlimited or unknown."""
    quotas = [*_v2_quotas(root), *_v1_quotas(root)]
    return min(quotas, default=None)


def memory_limit_bytes(root: Path) -> int | None:
    """Memory granted, in bytes; the tightest of all enclosing groups, None when unlimited or unknown."""
    v2 = _texts(root, "", "memory.max")
    v1 = _texts(root, "memory", "memory.limit_in_bytes")
    limits = map(_number, [*v2, *v1])
    return min((limit for limit in limits if limit is not None and limit < _V1_UNLIMITED_BYTES), default=None)


def oom_kills(root: Path) -> int | None:
    """How many processes the kernel has killed for want of memory: in this group, else on this machine."""
    own = [*_texts(root, "", "memory.events"), *_texts(root, "memory", "memory.oom_control")]
    for text in [*own[:1], _read(root / "proc/vmstat") or ""]:
        for line in text.splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and (kills := _number(count)) is not None:
                return kills
    return None


def cpu_stat_files(root: Path) -> list[Path]:
    """The files that count how often and how long this process's group, and those around it, were held back."""
    folders = [*_folders(root, ""), *_folders(root, "cpu")]
    return [file for folder in folders if (file := folder / "cpu.stat").is_file()]


def throttled_ns(cpu_stat: bytes) -> int | None:
    """The time a group was held back for its quota, from its `cpu.stat`; None where it has no quota to count for."""
    for line in cpu_stat.splitlines():
        name, _, value = line.partition(b" ")
        if name == b"throttled_usec":
            return int(value) * 1000
        if name == b"throttled_time":  # version 1 counts nanoseconds
            return int(value)
    return None


def _v2_quotas(root: Path) -> Iterator[float]:
    for text in _texts(root, "", "cpu.max"):
        quota, _, period = text.partition(" ")
        yield from _cores(quota, period)


def _v1_quotas(root: Path) -> Iterator[float]:
    quotas = _texts(root, "cpu", "cpu.cfs_quota_us")
    periods = _texts(root, "cpu", "cpu.cfs_period_us")
    for quota, period in zip(quotas, periods, strict=False):
        yield from _cores(quota, period)


def _cores(quota: str, period: str) -> Iterator[float]:
    """The quota in cores; nothing for none, "max" or -1, and for what is written in no known form."""
    if (granted := _number(quota)) and (of := _number(period)):
        yield granted / of


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None


def _texts(root: Path, controller: str, file: str) -> Iterator[str]:
    """The file's content in this process's group and in every enclosing one, innermost first."""
    for folder in _folders(root, controller):
        if (text := _read(folder / file)) is not None:
            yield text


def _folders(root: Path, controller: str) -> Iterator[Path]:
    # A container often sees its own group at the mount point, while /proc tells the host's path: both are tried.
    if (path := _group_path(root, controller)) is None:
        return
    mounts = ("sys/fs/cgroup/unified", "sys/fs/cgroup") if not controller else (f"sys/fs/cgroup/{controller}",)
    for mount in mounts:
        inner = root / mount / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if folder == root / "sys/fs" or not folder.is_relative_to(root / mount):
                break
            yield folder


def _group_path(root: Path, controller: str) -> str | None:
    for line in (_read(root / "proc/self/cgroup") or "").split("\n"):  # a name may hold other ends of lines
        _, _, group = line.partition(":")
        controllers, colon, path = group.partition(":")
        if colon and controller in controllers.split(","):
            return path
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="surrogateescape")  # a group's name is any bytes, and is to open its folder
    except OSError:
        return None


def memory_bytes(root: Path) -> int | None:
    """Installed memory, or what the control group grants of it; None where neither is told.

    `root` is the file system's root, so that tests can bring their own.
    """
    found = re.search(r"^MemTotal:\s+(\d+) kB", _meminfo(root), re.MULTILINE)
    known = [int(found[1]) * 1024] if found else []
    if (limit_bytes := memory_limit_bytes(root)) is not None:
        known.append(limit_bytes)
    return min(known, default=None)


def _meminfo(root: Path) -> str:
    try:
        return (root / "proc/meminfo").read_text()
    except OSError:
        return ""
