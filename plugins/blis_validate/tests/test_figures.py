"""Figures of a simulation, and the rule for overloads."""

from __future__ import annotations

import pytest

from blis_core.api import COMPLETED, TIMED_OUT, Request
from blis_validate.dataset import Measured, Stage, Statistics, Throughput
from blis_validate.figures import measured_figures, simulated_figures

SECOND = 1_000_000


def served(number, arrival, ttft_ms, e2e_ms, state=COMPLETED):
    request = Request(f"request_{number}", arrival, None, 10, 11)
    request.ttft, request.state = int(ttft_ms * 1000) if ttft_ms >= 0 else -1, state
    request.e2e = int(e2e_ms * 1000) if state == COMPLETED else -1
    request.deadline = arrival + 300 * SECOND
    return request


def run(count, rate, latencies, first=0, start=0):
    """``count`` requests at even gaps; ``latencies(i)`` gives TTFT, E2E in ms (and the state)."""
    return [
        served(first + i, start + round(i * SECOND / rate), *latencies(i)) for i in range(count)
    ]


def figures(requests, rate, duration):
    """Of a run with one stage."""
    stage = Stage(rate_rps=rate, duration_s=duration)
    return simulated_figures(requests, [len(requests)], [stage])


def test_figures_of_a_run():
    requests = run(100, 2.0, lambda i: (20 + i % 2 * 20, 520))
    whole, (stage,) = figures(requests, 2.0, 50)
    assert whole.values["ttft_mean"] == pytest.approx(30.0)
    assert whole.values["e2e_p99"] == pytest.approx(520.0)
    assert whole.values["itl_mean"] == pytest.approx((520 - 30) / 10)
    assert whole.values["throughput"] == pytest.approx(100 / (49.5 + 0.52))
    assert (whole.completed, whole.failed, whole.overloaded) == (100, 0, False)
    assert stage.values == whole.values


def test_stages_are_told_apart_and_the_pause_counts():
    first = run(20, 2.0, lambda i: (10, 100))
    second = run(40, 4.0, lambda i: (30, 300), first=20, start=70 * SECOND)
    stages = [Stage(rate_rps=2.0, duration_s=10), Stage(rate_rps=4.0, duration_s=10)]
    whole, parts = simulated_figures(second + first, [20, 40], stages)
    assert [part.values["ttft_mean"] for part in parts] == [10.0, 30.0]
    assert whole.values["throughput"] == pytest.approx(60 / (9.5 + 0.1 + 1.5 + 9.75 + 0.3))


def test_requests_that_failed_count_in_no_latency():
    def latencies(i):
        return (10, 100) if i % 2 else (5000, 0, TIMED_OUT)

    whole, _ = figures(run(40, 2.0, latencies), 2.0, 20)
    assert (whole.completed, whole.failed) == (20, 20)
    assert whole.values["ttft_mean"] == pytest.approx(10.0)


OVERLOADS = {
    "a growing queue": (lambda i: (i * 10, 2000 + i * 10), True),
    "late first tokens at the end only": (lambda i: (10 if i < 150 else 1100, 2000), True),
    "late first tokens at the start only": (lambda i: (10 if i > 50 else 1500, 2000), False),
    "steady": (lambda i: (30, 2000), False),
    "most give up": (lambda i: (10, 2000) if i % 4 else (10, 0, TIMED_OUT), True),
    "the last ones are aborted": (
        lambda i: (10, 2000) if i < 190 else (-1, 0, TIMED_OUT),
        True,
    ),
    "nobody is served": (lambda i: (0, 0, TIMED_OUT), True),
}


@pytest.mark.parametrize("case", OVERLOADS)
def test_overload(case):
    latencies, expected = OVERLOADS[case]
    whole, _ = figures(run(200, 2.0, latencies), 2.0, 100)
    assert whole.overloaded is expected


def test_a_rate_below_the_offered_one_counts_in_long_stages_only():
    whole, _ = figures(run(20, 2.0, lambda i: (30, 4000)), 2.0, 10)
    assert not whole.overloaded  # 20 requests in 13.5 s: the last answer takes its time
    whole, _ = figures(run(400, 2.0, lambda i: (30, 4000 + i * 50)), 2.0, 200)
    assert whole.overloaded


def test_without_stages_there_is_no_overload():
    requests = run(50, 10.0, lambda i: (i * 1000, i * 1000 + 500))
    whole, parts = simulated_figures(requests, [], [])
    assert not whole.overloaded
    assert "throughput" not in whole.values
    assert whole.values["capacity"] == pytest.approx(50 / (4.9 + 49.5))
    assert len(parts) == 1


def test_measured_figures():
    measured = Measured(
        ttft_ms=Statistics(mean=5.0, p99=9.0),
        itl_ms=Statistics(mean=2.0),
        throughput=Throughput(requests_per_s=3.0),
    )
    assert measured_figures(measured) == {
        "ttft_mean": 5.0,
        "ttft_p99": 9.0,
        "itl_mean": 2.0,
        "throughput": 3.0,
    }
    assert measured_figures(measured, burst=True)["capacity"] == 3.0
