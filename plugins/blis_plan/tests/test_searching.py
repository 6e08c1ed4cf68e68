"""The search for the highest rate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_plan.searching import find_highest

RATES = st.floats(0.05, 5000)


def searched(make_probe, capacity, start=1.0, lowest=0.01, highest=math.inf, precision=0.02):
    def attempt(rate):
        return make_probe(value=100.0 if rate <= capacity else 300.0, rate=rate)

    return find_highest(attempt, start, lowest=lowest, highest=highest, precision=precision)


class TestBracket:
    @pytest.fixture(autouse=True)
    def remember(self, make_probe):
        type(self).made = staticmethod(make_probe)

    @given(capacity=RATES, start=RATES, precision=st.floats(0.002, 0.5))
    def test_the_answer_is_next_to_what_fails(self, capacity, start, precision):
        found = searched(self.made, capacity, start=start, precision=precision)
        assert found.best.rate <= capacity < found.beyond.rate
        assert found.beyond.rate <= found.best.rate * (1 + precision) * 1.001
        assert len(found.probes) < 40

    def test_never(self, make_probe):
        found = searched(make_probe, 0.001)
        assert found.best is None
        assert [p.rate for p in found.probes] == [1.0, 0.5, 0.125, 0.01]
        assert found.beyond.rate == 0.01

    def test_always_up_to_the_highest(self, make_probe):
        found = searched(make_probe, 1e9, highest=50.0)
        assert (found.best.rate, found.beyond) == (50.0, None)
        assert [p.rate for p in found.probes] == [1, 2, 4, 8, 16, 32, 50]

    def test_exactly_the_lowest(self, make_probe):
        found = searched(make_probe, 0.01)
        assert found.best.rate == 0.01

    def test_one_rate_only(self, make_probe):
        for capacity, met in ((5, True), (4, False)):
            found = searched(make_probe, capacity, start=9, lowest=5.0, highest=5.0)
            assert [(p.rate, p.met) for p in found.probes] == [(5.0, met)]

    def test_rates_can_be_typed(self, make_probe):
        found = searched(make_probe, 17.3)
        assert all(float(f"{p.rate:.4g}") == p.rate for p in found.probes)
