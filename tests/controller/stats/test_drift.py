"""A latency that still moves while it is measured is told; one that only scatters is not."""

import numpy as np
import pytest

from enginebench_controller.records import BlockSamples
from enginebench_controller.stats.summary import FEWEST_BLOCKS, compare_halves, drifts

MS = 1_000_000


def blocks(process: int, medians_ms: np.ndarray, spread: float = 0.01) -> list[BlockSamples]:
    generator = np.random.default_rng(process)
    return [
        BlockSamples(process, index, (median * MS * (1 + spread * generator.standard_normal(50))).astype(np.int64))
        for index, median in enumerate(medians_ms)
    ]


def test_a_process_that_drifts_is_named_with_its_change() -> None:
    falling = blocks(0, np.linspace(2, 1, 40))
    level = blocks(1, np.full(40, 1.5))
    found = drifts([*falling, *level])
    assert set(found) == {0}
    assert found[0] == pytest.approx(1.25 / 1.75 - 1, abs=0.02)


def test_a_small_drift_is_passed_over_and_so_is_one_by_chance() -> None:
    assert drifts(blocks(0, np.linspace(1.01, 1, 40))) == {}
    generator = np.random.default_rng(1)
    called = sum(
        compare_halves(list(np.exp(0.1 * generator.standard_normal(20)))).is_drift  # type: ignore[union-attr]
        for _ in range(1000)
    )
    assert called <= 25  # 1 % of them, and what chance adds


def test_excluded_blocks_do_not_drift() -> None:
    slow_at_first = blocks(0, np.array([3.0] * 10 + [1.0] * 14))
    assert 0 in drifts(slow_at_first)
    assert drifts(slow_at_first, excluded={(0, index) for index in range(10)}) == {}


def test_few_blocks_and_constant_ones() -> None:
    assert compare_halves([1.0] * (FEWEST_BLOCKS - 1)) is None
    constant = compare_halves([1.0] * FEWEST_BLOCKS)
    assert constant is not None and not constant.is_drift
    step = compare_halves([2.0] * 6 + [1.0] * 6)
    assert step is not None and step.is_drift
