"""What a stored benchmark is run again by."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.errors import InputError
from enginebench_controller.runs.benchmarking import order_again

BENCHMARK = invented.benchmark()


def again(**said):
    """The order that repeats a benchmark whose plan says this, as an import may have brought it."""
    return order_again(replace(BENCHMARK, plan={"models": ["net"], **said}))


def test_a_benchmark_is_run_again_with_the_versions_that_its_models_were():
    assert again(digests={"net": "ab" * 32}).digests == {"net": "ab" * 32}
    assert again().digests is None


@pytest.mark.parametrize("odd", [5, ["net"], "net", {"net": 5}])
def test_versions_in_a_form_that_is_not_ours_are_a_sentence(odd):
    with pytest.raises(InputError, match="plan of benchmark b0000001 names no versions of its models"):
        again(digests=odd)
