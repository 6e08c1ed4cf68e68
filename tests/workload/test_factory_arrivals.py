"""Arrivals of clients with a factory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import ArrivalSetup
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.workload.arrivals import PoissonArrivals
from blis_core.workload.factory_arrivals import make_sampler
from blis_core.workload.spec import FactoryPoisson, NormalisedExponential


def test_normalised_gaps_come_from_a_stream_of_their_own() -> None:
    rng = GoRand(7)
    sampler = make_sampler(NormalisedExponential(4, 1_000_000), 12345)
    assert sampler.sample(rng, 6) == [243396, 251322, 389026, 116255, 0, 0]
    assert rng.int63() == GoRand(7).int63()


@given(st.integers(1, 300), st.integers(0, 10**9), st.integers(-(2**63), 2**63 - 1))
def test_normalised_gaps_fill_the_duration(count: int, spare: int, seed: int) -> None:
    duration = count + spare
    sampler = make_sampler(NormalisedExponential(count, duration), seed)
    gaps = sampler.sample(GoRand(1), count)
    assert sampler.next(GoRand(1)) == 0
    assert min(gaps) >= 1
    # Each gap loses less than one us by truncation, and gains less than one where it is raised.
    assert abs(sum(gaps) - duration) <= count


def test_impossible_gaps() -> None:
    with pytest.raises(BlisError, match="too short for 5 requests"):
        make_sampler(NormalisedExponential(5, 4), 1)


@given(st.floats(1e-14, 10), st.integers(0, 2**32), st.integers(0, 40))
def test_exact_rates_are_poisson(rate: float, seed: int, n: int) -> None:
    sampler = make_sampler(FactoryPoisson(rate), 99)
    ours, theirs, single = GoRand(seed), GoRand(seed), GoRand(seed)
    gaps = sampler.sample(ours, n)
    assert gaps == PoissonArrivals(ArrivalSetup(rate_per_us=rate)).sample(theirs, n)
    assert gaps == [sampler.next(single) for _ in range(n)]
    assert ours.int63() == theirs.int63() == single.int63()


def test_tiny_rates_have_no_floor() -> None:
    slow = make_sampler(FactoryPoisson(1e-17), 0).next(GoRand(3))
    floor = PoissonArrivals(ArrivalSetup(rate_per_us=1e-17)).next(GoRand(3))
    assert slow == pytest.approx(100 * floor)
    assert make_sampler(FactoryPoisson(0.0), 0).next(GoRand(3)) == 1
    assert make_sampler(FactoryPoisson(0.0), 0).sample(GoRand(3), 3) == [1, 1, 1]
