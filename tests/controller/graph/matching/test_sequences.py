"""Alignments are what a plain table finds, only faster."""

from functools import cache
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from enginebench_controller.graph.matching.algorithms import common_subsequence, increasing

WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


def length_by_definition(one: list[str], other: list[str]) -> int:
    @cache
    def length(left: int, right: int) -> int:
        if left == len(one) or right == len(other):
            return 0
        if one[left] == other[right]:
            return 1 + length(left + 1, right + 1)
        return max(length(left + 1, right), length(left, right + 1))

    return length(0, 0)


@given(WORDS, WORDS)
def test_a_common_subsequence_is_common_in_order_and_as_long_as_can_be(one: list[str], other: list[str]) -> None:
    pairs = common_subsequence(one, other)
    assert all(one[left] == other[right] for left, right in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    assert len(pairs) == length_by_definition(one, other)


@given(st.permutations(range(9)))
def test_an_increasing_selection_is_as_long_as_can_be(values: list[int]) -> None:
    selected = increasing(list(enumerate(values)))
    assert [value for _, value in selected] == sorted(value for _, value in selected)
    assert [place for place, _ in selected] == sorted(place for place, _ in selected)
    assert len(selected) == length_by_definition([str(one) for one in values], [str(one) for one in sorted(values)])
