"""Expansion of cohorts."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import MAX_INT64
from blis_core.workload.cohorts import HOUR_US, cohort_windows, expand_cohort, expand_cohorts
from blis_core.workload.spec import (
    Arrival,
    Client,
    Cohort,
    Distribution,
    Diurnal,
    Drain,
    MultiTurn,
    Reasoning,
    Spike,
    Window,
)

# Lengths in us of the hourly windows, peak at 14, ratio 4 (specification 04b, section 9).
PEAK_14_RATIO_4 = [
    1080865704, 946000134, 900000000, 946000134, 1080865704, 1295405845, 1575000000, 1900594289,
    2250000000, 2599405710, 2925000000, 3204594154, 3419134295, 3553999865, 3600000000, 3553999865,
    3419134295, 3204594154, 2925000000, 2599405710, 2250000000, 1900594289, 1575000000, 1295405845,
]  # fmt: skip


def lengths(windows: tuple[Window, ...]) -> list[int]:
    return [window.end_us - window.start_us for window in windows]


def day(peak: int, ratio: float) -> tuple[Window, ...]:
    return cohort_windows(Cohort(diurnal=Diurnal(peak_hour=peak, peak_to_trough_ratio=ratio)))


def test_recorded_day() -> None:
    windows = day(14, 4.0)
    assert lengths(windows) == PEAK_14_RATIO_4
    assert [window.start_us for window in windows] == [hour * HOUR_US for hour in range(24)]


@pytest.mark.parametrize("peak", range(24))
def test_a_day_depends_on_the_distance_from_the_peak(peak: int) -> None:
    shifted = [PEAK_14_RATIO_4[(hour - peak + 14) % 24] for hour in range(24)]
    # Cosines of whole turns apart differ in the last bit, which truncation can show.
    assert lengths(day(peak, 4.0)) == pytest.approx(shifted, abs=1, rel=0)


@given(st.integers(0, 23), st.floats(1, 1e12))
def test_any_day(peak: int, ratio: float) -> None:
    found = lengths(day(peak, ratio))
    assert len(found) == 24
    assert found[peak] == HOUR_US
    assert all(1 <= length <= HOUR_US for length in found)
    assert min(found) == found[(peak + 12) % 24] == pytest.approx(max(1, HOUR_US / ratio), abs=2)


def test_recorded_drain() -> None:
    drain = Drain(start_time_us=2_000_000_000, ramp_duration_us=1_000_000_007)
    before, *segments = cohort_windows(Cohort(drain=drain))
    assert before == Window(start_us=0, end_us=2_000_000_000)
    assert [w.start_us for w in segments] == [2_000_000_000 + i * 10**8 for i in range(10)]
    assert [w.end_us for w in segments] == [2_100_000_000 + i * 90_000_000 for i in range(10)]


def test_a_drain_from_the_start_and_a_short_one() -> None:
    windows = cohort_windows(Cohort(drain=Drain(ramp_duration_us=3)))
    assert windows == tuple(Window(start_us=i, end_us=i + 1) for i in range(10))


def test_patterns_add_up() -> None:
    diurnal = Diurnal(peak_hour=3, peak_to_trough_ratio=2.0)
    spike = Spike(start_time_us=5, duration_us=10)
    drain = Drain(start_time_us=100, ramp_duration_us=1000)
    windows = cohort_windows(Cohort(diurnal=diurnal, spike=spike, drain=drain))
    assert windows[:24] == day(3, 2.0)
    assert windows[24:26] == (Window(start_us=5, end_us=15), Window(start_us=0, end_us=100))
    assert len(windows) == 24 + 1 + 11


@given(st.integers(0, MAX_INT64), st.integers(1, MAX_INT64))
def test_windows_stay_within_time(start: int, length: int) -> None:
    windows = cohort_windows(
        Cohort(
            spike=Spike(start_time_us=start, duration_us=length),
            drain=Drain(start_time_us=start, ramp_duration_us=length),
        )
    )
    assert all(0 <= w.start_us <= w.end_us <= MAX_INT64 for w in windows)


def test_members_inherit_everything() -> None:
    cohort = Cohort(
        id="k",
        population=3,
        tenant_id="t",
        slo_class="batch",
        model="m",
        arrival=Arrival(process="gamma", cv=2.0),
        input_distribution=Distribution(type="constant", params={"value": 1.0}),
        output_distribution=Distribution(type="exponential", params={"mean": 2.0}),
        prefix_group="g",
        prefix_length=7,
        streaming=True,
        rate_fraction=0.1,
        reasoning=Reasoning(multi_turn=MultiTurn(max_rounds=2)),
        closed_loop=False,
        timeout=0,
    )
    members = expand_cohort(cohort)
    assert [m.id for m in members] == ["k-0", "k-1", "k-2"]
    for member in members:
        assert member.rate_fraction == 0.1 / 3
        assert member.lifecycle is None
        for field in attrs.fields(Cohort):
            if field.name in {f.name for f in attrs.fields(Client)} - {"id", "rate_fraction"}:
                assert getattr(member, field.name) == getattr(cohort, field.name), field.name


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(1e-6, 1e6)), max_size=4))
def test_expansion_keeps_order_and_total(cohorts: list[tuple[int, float]]) -> None:
    given_cohorts = [
        Cohort(id=f"c{i}", population=n, rate_fraction=share)
        for i, (n, share) in enumerate(cohorts)
    ]
    members = expand_cohorts(given_cohorts)
    assert [m.id for m in members] == [
        f"c{i}-{j}" for i, (n, _) in enumerate(cohorts) for j in range(n)
    ]
    total = sum(share for _, share in cohorts)
    assert math.fsum(m.rate_fraction for m in members) == pytest.approx(total)
