"""Intervals of means, and the quantiles they are made of."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_sweep.statistics import estimate, t_quantile

# Two-sided quantiles as printed in tables of the t distribution.
TABLE = {
    0.90: {1: 6.314, 2: 2.920, 3: 2.353, 5: 2.015, 10: 1.812, 30: 1.697, 120: 1.658},
    0.95: {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 30: 2.042, 120: 1.980},
    0.99: {1: 63.657, 2: 9.925, 3: 5.841, 4: 4.604, 10: 3.169, 30: 2.750, 120: 2.617},
}


@pytest.mark.parametrize(
    ("confidence", "freedom", "value"),
    [(c, n, value) for c, row in TABLE.items() for n, value in row.items()],
)
def test_quantiles_of_the_table(confidence, freedom, value):
    assert t_quantile(confidence, freedom) == pytest.approx(value, abs=0.0006)


@given(st.floats(0.01, 0.999))
def test_quantiles_with_a_closed_form(confidence):
    assert t_quantile(confidence, 1) == pytest.approx(math.tan(math.pi / 2 * confidence))
    two = confidence * math.sqrt(2 / (1 - confidence**2))
    assert t_quantile(confidence, 2) == pytest.approx(two)


@given(st.floats(0.01, 0.999), st.integers(1, 300))
def test_quantiles_shrink_towards_those_of_the_normal_distribution(confidence, freedom):
    normal = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    assert t_quantile(confidence, freedom) > t_quantile(confidence, freedom + 1) > normal
    assert t_quantile(confidence, 2000) == pytest.approx(normal, rel=1e-2)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.floats(0.1, 0.99))
def test_an_interval_is_around_the_mean_and_grows_with_the_confidence(values, confidence):
    found = estimate(values, confidence)
    assert found.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert found.deviation == pytest.approx(statistics.stdev(values), abs=1e-3)
    assert found.low <= found.mean <= found.high
    assert found.count == len(values)
    assert estimate(values, confidence + 0.005).half_width >= found.half_width


def test_one_value_has_no_interval():
    found = estimate([5.0], 0.95)
    assert (found.mean, found.count) == (5.0, 1)
    assert all(map(math.isnan, (found.low, found.high, found.deviation, found.half_width)))
    assert estimate([], 0.95) is None


def test_equal_values_have_an_interval_without_length():
    found = estimate([0.1] * 7, 0.95)
    assert (found.low, found.mean, found.high) == (0.1, 0.1, 0.1)


def test_intervals_cover_the_true_mean_as_often_as_they_say():
    rng = random.Random(1)
    samples = [[rng.gauss(3, 2) for _ in range(4)] for _ in range(4000)]
    found = [estimate(sample, 0.9) for sample in samples]
    covered = sum(e.low <= 3 <= e.high for e in found) / len(found)
    assert covered == pytest.approx(0.9, abs=0.015)
