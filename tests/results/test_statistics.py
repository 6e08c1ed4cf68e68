"""Means and percentiles, to the last bit."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.results.statistics import (
    WeightedIntegers,
    distribution,
    mean_ms,
    percentile_ms,
    plain_sum,
)

times = st.integers(0, 10**12)


def literal_mean(values: list[float]) -> float:
    """The definition, spelled out."""
    total = 0.0
    for value in values:
        total += value
    return total / float(len(values)) / 1000.0 if values else 0.0


def literal_percentile(values: list[int], p: float) -> float:
    if not values:
        return 0.0
    rank = (p / 100.0) * float(len(values) - 1)
    low, high = floor(rank), ceil(rank)
    if low == high:
        return float(values[low]) / 1000.0
    below = float(values[low]) / 1000.0
    return below + (float(values[high] - values[low]) * (rank - float(low))) / 1000.0


def floats(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(sorted(values), dtype=np.float64)


def test_worked_example() -> None:
    e2e = floats([44399, 30790, 16266])
    assert mean_ms(e2e) == 30.485
    assert percentile_ms(e2e, 90) == 41.6772
    assert percentile_ms(e2e, 95) == 43.0381
    assert percentile_ms(e2e, 99) == 44.126819999999995
    assert percentile_ms(floats([1542, 1637, 1588]), 99) == 1.63602


def test_nothing_and_a_single_value() -> None:
    empty = np.zeros(0)
    assert mean_ms(empty) == percentile_ms(empty, 99) == 0.0
    assert mean_ms(floats([1500])) == percentile_ms(floats([1500]), 99) == 1.5
    nothing = WeightedIntegers(np.zeros(0, dtype=np.int64))
    assert (nothing.count, nothing.mean_ms(), nothing.percentile_ms(50)) == (0, 0.0, 0.0)
    unweighted = WeightedIntegers(np.array([5, 3]), np.array([0, 0]))
    assert (unweighted.count, unweighted.mean_ms(), unweighted.percentile_ms(50)) == (0, 0.0, 0.0)
    assert distribution(empty).count == 0


@given(st.lists(times))
def test_definitions(values: list[int]) -> None:
    ascending = floats(values)
    assert mean_ms(ascending) == literal_mean(ascending.tolist())
    for p in (0, 50, 90, 95, 99, 100):
        assert percentile_ms(ascending, p) == literal_percentile(sorted(values), p)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=40), st.integers(1, 10**6)
)
def test_weighted_equals_expanded(pairs: list[tuple[int, int]], scale: int) -> None:
    """Both ways of ordering (by counting, by sorting) are reached through the scale."""
    pairs = [(value * scale, weight) for value, weight in pairs]
    expanded = sorted(value for value, weight in pairs for _ in range(weight))
    weighted = WeightedIntegers(
        np.array([value for value, _ in pairs], dtype=np.int64),
        np.array([weight for _, weight in pairs], dtype=np.int64),
    )
    assert weighted.count == len(expanded)
    assert weighted.mean_ms() == literal_mean([float(value) for value in expanded])
    for p in (0, 50, 90, 95, 99, 100):
        assert weighted.percentile_ms(p) == literal_percentile(expanded, p)


def test_no_weights_means_once_each() -> None:
    weighted = WeightedIntegers(np.array([9, 1, 5, 5], dtype=np.int64))
    assert weighted.count == 4
    assert weighted.mean_ms() == 0.005
    assert weighted.percentile_ms(100) == 0.009


@pytest.mark.parametrize(
    "values", [[2**53 - 1, 2**53 - 3, 2**52 + 1, 7], [2**60 + 1] * 3 + [1] * 5]
)
def test_sums_beyond_exact_floats_round_as_the_definition_does(values: list[int]) -> None:
    weighted = WeightedIntegers(np.array(values, dtype=np.int64))
    assert weighted.mean_ms() == literal_mean([float(value) for value in sorted(values)])


@given(st.lists(times, min_size=1))
def test_distribution(values: list[int]) -> None:
    summary = distribution(np.array(values, dtype=np.float64))
    ascending = sorted(values)
    assert summary.count == len(values)
    assert summary.mean == pytest.approx(float(Fraction(sum(values), len(values))), rel=1e-15)
    for p, found in ((50, summary.p50), (95, summary.p95), (99, summary.p99)):
        rank = p / 100.0 * (len(values) - 1)
        low, high = floor(rank), ceil(rank)
        expected = float(ascending[low])
        if low != high:
            expected += (rank - low) * (float(ascending[high]) - float(ascending[low]))
        assert found == expected


def test_distribution_of_the_recorded_case() -> None:
    """Two values, between which the percentile interpolates: us, not ms."""
    summary = distribution(np.array([200.0, 100.0]))
    assert (summary.mean, summary.p50, summary.p99) == (150.0, 150.0, 199.0)


def test_plain_sum_does_not_compensate() -> None:
    assert plain_sum([0.1] * 10) == 0.9999999999999999
    assert plain_sum([]) == 0.0
