"""Shares of the aggregate rate, and what comes of them."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.workload.activity import Activity
from blis_core.workload.cohorts import expand_cohort
from blis_core.workload.inference_perf import with_inference_perf
from blis_core.workload.pipeline import prepare
from blis_core.workload.rates import client_rates, overlap
from blis_core.workload.spec import (
    Client,
    Cohort,
    InferencePerf,
    Lifecycle,
    SharedPrefix,
    Spike,
    Stage,
    Window,
    WorkloadSpec,
)
from tests.workload.recorded import case_named, spec_of


def windows(*spans: tuple[int, int]) -> tuple[Window, ...]:
    return tuple(Window(start_us=a, end_us=b) for a, b in spans)


def client(fraction: float, *spans: tuple[int, int], users: int = 0) -> Client:
    lifecycle = Lifecycle(windows=windows(*spans)) if spans else None
    return Client(rate_fraction=fraction, concurrency=users, lifecycle=lifecycle)


def per_second(*clients: Client, rate: float = 10.0) -> list[float]:
    return [r * 1e6 for r in client_rates(clients, rate)]


def test_shares_need_not_sum_to_one() -> None:
    assert per_second(client(3.0), client(1.0)) == pytest.approx([7.5, 2.5])
    assert per_second(client(0.1)) == pytest.approx([10.0])


def test_division_comes_before_multiplication() -> None:
    clients = [client(f) for f in (0.1, 0.2, 0.3)]
    total = 0.1 + 0.2 + 0.3
    assert client_rates(clients, 7.3) == [7.3 * (f / total) / 1e6 for f in (0.1, 0.2, 0.3)]


def test_users_have_no_rate() -> None:
    assert per_second(client(0.0, users=3)) == [0.0]
    assert per_second(client(0.0, users=3), client(1.0)) == pytest.approx([0.0, 10.0])


def test_negative_fraction_of_users_counts() -> None:
    rates = per_second(client(-0.5, users=1), client(1.0))
    assert rates == pytest.approx([-10.0, 20.0])  # a rate below 0 means no requests


def test_phases_get_the_full_rate_each() -> None:
    rates = per_second(client(0.3, (0, 100)), client(0.5, (100, 200)), client(0.5, (150, 300)))
    assert rates == pytest.approx([10.0, 5.0, 5.0])


def test_users_with_windows_make_shares_per_phase() -> None:
    users = client(-1.0, (0, 5), users=1)
    assert per_second(users, client(1.0), client(1.0)) == pytest.approx([0.0, 5.0, 5.0])


def test_always_active_client_dilutes_disjoint_phases() -> None:
    always, a, b = client(0.5), client(0.25, (0, 10)), client(0.75, (10, 20))
    rates = per_second(always, a, b, rate=30.0)
    assert rates == pytest.approx([10.0, 10.0, 18.0])
    # The documented limit: phases then come to 20 and 28 requests per second, not 30.


@pytest.mark.parametrize(
    ("some", "others", "expected"),
    [
        ((), (), True),
        ((), ((5, 6),), True),
        (((0, 5),), ((5, 9),), False),
        (((0, 5),), ((4, 9),), True),
        (((0, 1), (8, 9)), ((2, 3), (8, 10)), True),
        (((0, 9),), ((3, 4),), True),
    ],
)
def test_overlap(
    some: tuple[tuple[int, int], ...], others: tuple[tuple[int, int], ...], expected: bool
) -> None:
    assert overlap(windows(*some), windows(*others)) is expected
    assert overlap(windows(*others), windows(*some)) is expected


SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda t: (t[0], t[0] + t[1])), max_size=3
)


@given(st.lists(st.tuples(st.floats(0.01, 100), SPANS), min_size=1, max_size=8))
def test_shares_by_definition(members: list[tuple[float, list[tuple[int, int]]]]) -> None:
    clients = [client(fraction, *spans) for fraction, spans in members]
    rates = client_rates(clients, 12.5)
    for mine, rate in zip(clients, rates, strict=True):
        total = 0.0
        for other in clients:
            if overlap(mine.windows, other.windows):
                total += other.rate_fraction
        assert rate == 12.5 * (mine.rate_fraction / total) / 1e6


@given(SPANS.filter(bool), st.integers(0, 45))
def test_activity_is_the_union_of_windows(spans: list[tuple[int, int]], time: int) -> None:
    activity = Activity(windows(*spans))
    assert (time in activity) == any(a <= time < b for a, b in spans)
    assert activity.end == max(b for _, b in spans)
    assert activity.first_start == spans[0][0]


def test_large_cohorts_are_no_burden() -> None:
    spike = Spike(start_time_us=5, duration_us=9)
    cohort = Cohort(id="c", population=20_000, rate_fraction=1.0, spike=spike)
    rates = client_rates([*expand_cohort(cohort), client(1.0, (0, 5))], 8.0)
    assert math.fsum(rates[:-1]) * 1e6 == pytest.approx(8.0)
    assert rates[-1] * 1e6 == pytest.approx(8.0)


# ------------------------------------------------------------------------------ drawn workloads


def arrivals(spec: WorkloadSpec, horizon: int) -> list[int]:
    return [r.arrival for r in prepare(spec, horizon=horizon, max_requests=0).requests]


def test_two_phase_example_has_the_full_rate_in_each_phase() -> None:
    """Clients take turns at 20 requests per second; over a longer time that shows in numbers."""
    spec = spec_of(case_named("lifecycle_two_phase"))
    assert per_second(*spec.clients, rate=spec.aggregate_rate) == pytest.approx([20.0, 20.0])
    phases = (((0, 400),), ((400, 600), (800, 1000)))  # s
    longer = tuple(
        attrs.evolve(
            c,
            lifecycle=Lifecycle(windows=windows(*((a * 10**6, b * 10**6) for a, b in spans))),
        )
        for c, spans in zip(spec.clients, phases, strict=True)
    )
    times = arrivals(attrs.evolve(spec, clients=longer), 1000 * 10**6)
    for start, end in (span for spans in phases for span in spans):
        count = sum(start * 10**6 <= t < end * 10**6 for t in times)
        # The gamma process of the second client has a deviation of twice a Poisson process.
        assert count == pytest.approx(20 * (end - start), abs=6 * 2 * math.sqrt(20 * (end - start)))
    assert not any(600 * 10**6 <= t < 800 * 10**6 for t in times)


def inference_perf(*stages: tuple[float, int], chat: bool = False) -> WorkloadSpec:
    return WorkloadSpec(
        version="2",
        seed=7,
        inference_perf=InferencePerf(
            stages=tuple(Stage(rate=rate, duration=seconds) for rate, seconds in stages),
            shared_prefix=SharedPrefix(
                num_unique_system_prompts=3,
                num_users_per_system_prompt=4,
                system_prompt_len=5,
                question_len=3,
                output_len=2,
                enable_multi_turn_chat=chat,
            ),
        ),
    )


STAGES = ((8.0, 300), (20.0, 200), (3.0, 400))


def test_stages_of_inference_perf_have_their_rates() -> None:
    spec = inference_perf(*STAGES)
    times = arrivals(spec, 2000 * 10**6)
    start = 0
    for rate, seconds in STAGES:
        end = start + seconds * 10**6
        count = sum(start <= t < end for t in times)
        assert count == pytest.approx(rate * seconds, abs=5 * math.sqrt(rate * seconds))
        start = end
    assert max(times) < start
    # By construction, not just on average: each of the 12 users has a twelfth of the stage's rate.
    clients = with_inference_perf(spec).clients
    for number, (rate, _) in enumerate(STAGES):
        members = clients[12 * number : 12 * number + 12]
        rates = [getattr(member.factory, "rate_per_us", 0.0) for member in members]
        assert math.fsum(rates) * 1e6 == pytest.approx(rate)


def test_a_single_stage_of_inference_perf_has_its_exact_number() -> None:
    times = arrivals(inference_perf((8.0, 300)), 2000 * 10**6)
    assert len(times) == 2400
    # Rounding leaves each user's last request a little before the end.
    assert 299 * 10**6 < max(times) < 300 * 10**6


def test_chat_stages_open_one_session_per_user() -> None:
    spec = inference_perf((8.0, 300), (20.0, 200), chat=True)
    workload = prepare(spec, horizon=2000 * 10**6, max_requests=0)
    assert len(workload.sessions) == 24
    assert {b.max_rounds for b in workload.sessions} == {200, 334, 333}
    assert {b.think_time_us for b in workload.sessions} == {1_500_000, 600_000}
