"""Student's t distribution against SciPy's."""

import math

import pytest
from scipy import stats

from enginebench_proto.agreed import student_t

DEGREES = (0.7, 1, 2, 5.5, 39, 1234.5, 1e7, 1e12)


@pytest.mark.parametrize("degrees", DEGREES)
@pytest.mark.parametrize("value", [0.0, 1e-200, 1e-3, 0.5, 1.0, 2.24, 8.0, 40.0, 1e6, 1e150, math.inf])
def test_a_tail_is_scipys(value: float, degrees: float) -> None:
    assert student_t.tail(value, degrees) == pytest.approx(stats.t.sf(value, degrees), rel=1e-7, abs=1e-300)


@pytest.mark.parametrize("degrees", DEGREES[1:])  # of fewer than 1, no number is that far out
@pytest.mark.parametrize("probability", [1e-290, 1e-9, 0.0125, 0.3, 0.5, 0.975, 1 - 1e-9])
def test_a_quantile_has_its_probability_below_it(probability: float, degrees: float) -> None:
    value = student_t.quantile(probability, degrees)
    below = student_t.tail(-value, degrees) if value < 0 else 1 - student_t.tail(value, degrees)
    assert below == pytest.approx(probability, rel=1e-6)
