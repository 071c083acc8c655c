"""Many runs, some of them aborted, leave nothing behind in an agent: the bounded form of `make soak`."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import soak  # noqa: E402

pytestmark = pytest.mark.slow

RUNS, ABORTED, ROUNDS = 40, 10, 5
POOL_THREADS = 8
"""Threads for blocking work are started as they are needed, up to a number, and then kept."""


@pytest.mark.slow
async def test_files_threads_and_children_are_as_many_after_many_runs_as_before(tmp_path: Path) -> None:
    with soak.started(tmp_path) as agent:
        seen = await soak.soak(agent, RUNS, ABORTED, ROUNDS)
    first, last = seen.readings[0], seen.readings[-1]
    assert last.runs == RUNS + ABORTED
    assert last.descriptors <= first.descriptors + 1, "a socket may be about to close"
    assert last.threads <= first.threads + POOL_THREADS
    assert (last.children, last.spooled) == (0, 0)
    assert last.rss_bytes - first.rss_bytes < 20_000_000
    assert len(seen.health_s) > ROUNDS and max(seen.health_s) < 1
