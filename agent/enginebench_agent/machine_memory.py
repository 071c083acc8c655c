"""How much memory this machine has for an agent and its children."""

import re
from pathlib import Path

from enginebench_agent.cgroup import memory_limit_bytes


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
