"""Benchmarks: what a person asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Benchmark:
    """What a person asked for. `plan` is the versioned document it can be run from again."""

    id: str
    name: str
    created_at_unix_ns: int
    plan: Mapping[str, Any]
    rerun_of: str | None = None
    imported: bool = False
