"""The kill storm in small: `make storm` has the long one, whose figures are in docs/reference/reliability.md."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.storm import storm  # noqa: E402


@pytest.mark.slow
@pytest.mark.fault(3)
@pytest.mark.fault(34)
def test_nothing_is_lost_doubled_or_half_written_whatever_is_killed(tmp_path: Path) -> None:
    found = storm(tmp_path, kills=8, seed=20, pause_s=1.0, agents=2)

    assert sum(found.kills.values()) == 8 and found.told and found.spooled and found.pages_drawn
    assert found.is_clean, found
