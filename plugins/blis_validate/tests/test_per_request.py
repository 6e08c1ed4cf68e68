"""Single requests against their own simulations."""

from __future__ import annotations

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.api import COMPLETED, TIMED_OUT, Request
from blis_validate.per_request import Listed, compare_requests, rank_correlation

SECOND = 1_000_000


def listed(arrival_s, ttft_s, e2e_s):
    start = round(arrival_s * SECOND)
    return Listed(start, 10, 5, start + round(ttft_s * SECOND), start + round(e2e_s * SECOND))


def simulated(number, ttft_s, e2e_s, state=COMPLETED):
    request = Request(f"request_{number}", 0, (), 10, 5)
    request.state = state
    request.ttft, request.e2e = round(ttft_s * SECOND), round(e2e_s * SECOND)
    return request


def test_errors_are_those_of_each_request():
    measured = [listed(0, 1, 10), listed(1, 1, 20), listed(2, 2, 40)]
    own = [simulated(2, 1.5, 50), simulated(0, 1, 9), simulated(1, 2, 20)]
    found = compare_requests(measured, own)
    assert (found.count, found.missing) == (3, 0)
    assert found.e2e_mean == pytest.approx((10 + 0 + 25) / 3)
    assert found.e2e_median == pytest.approx(10)
    assert found.e2e_p95 == pytest.approx(23.5)
    assert found.ttft_mean_ms == pytest.approx((0 + 1000 + 500) / 3)
    assert found.rank_e2e == pytest.approx(1.0)
    assert found.rank_ttft == pytest.approx(0.0)  # ranks 1.5, 1.5, 3 against 1, 3, 2


def test_means_that_agree_hide_nothing():
    found = compare_requests(
        [listed(0, 1, 10), listed(0, 1, 20)], [simulated(0, 1, 20), simulated(1, 1, 10)]
    )
    assert found.e2e_mean == pytest.approx(75)
    assert found.rank_e2e == pytest.approx(-1.0)
    assert found.rank_ttft is None  # all are equal


def test_those_that_failed_do_not_count_and_are_counted():
    measured = [listed(0, 1, 10), Listed(0, 10, 5), listed(0, 1, 10), listed(0, 3, 2)]
    own = [simulated(0, 1, 10), simulated(1, 1, 1), simulated(2, 1, 1, TIMED_OUT)]
    found = compare_requests(measured, own)
    assert (found.count, found.missing, found.e2e_mean) == (1, 1, 0.0)


def test_nothing_measured():
    assert compare_requests([Listed(0, 10, 5)], [simulated(0, 1, 10)]) is None
    assert compare_requests([listed(0, 1, 10)], []) is None


def test_ranks_by_hand():
    assert rank_correlation([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    assert rank_correlation([1, 1], [1, 2]) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=40))
def test_rank_correlation_is_pearson_of_mean_ranks(pairs):
    left, right = zip(*pairs, strict=True)
    found = rank_correlation(left, right)
    if min(left) == max(left) or min(right) == max(right):
        assert found is None
        return

    def ranks(values):
        places = {
            value: statistics.fmean(place for place, _ in members)
            for value, members in itertools.groupby(
                enumerate(sorted(values), start=1), key=lambda entry: entry[1]
            )
        }
        return [places[value] for value in values]

    assert found == pytest.approx(statistics.correlation(ranks(left), ranks(right)), abs=1e-9)
    assert found == pytest.approx(rank_correlation([v**3 for v in left], right), abs=1e-9)
