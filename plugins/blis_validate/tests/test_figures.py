"""Figures of a simulation, and the rule for overloads."""

from __future__ import annotations

import pytest

from blis_core.api import COMPLETED, TIMED_OUT, Request
from blis_validate.dataset import Measured, Stage, Statistics, Throughput
from blis_validate.figures import measured_figures, simulated_figures
from blis_validate.scenario import Arrival

SECOND = 1_000_000


def served(number, arrival, ttft_ms, e2e_ms, state=COMPLETED):
    request = Request(f"request_{number}", arrival, None, 10, 11)
    request.ttft, request.state = int(ttft_ms * 1000) if ttft_ms >= 0 else -1, state
    request.e2e = int(e2e_ms * 1000) if state == COMPLETED else -1
    request.deadline = arrival + 300 * SECOND
    return request


def run(count, rate, latencies, stage=0, start=0):
    """``count`` requests at even gaps; ``latencies(i)`` gives TTFT, E2E in ms (and the state)."""
    arrivals = [
        Arrival(stage, start + round(i * SECOND / rate), 10, 11, -1, 0) for i in range(count)
    ]
    return arrivals, [served(i, a.arrival_us, *latencies(i)) for i, a in enumerate(arrivals)]


def test_figures_of_a_run():
    arrivals, requests = run(100, 2.0, lambda i: (20 + i % 2 * 20, 520))
    whole, (stage,) = simulated_figures(arrivals, requests, [Stage(rate_rps=2.0, duration_s=50)])
    assert whole.values["ttft_mean"] == pytest.approx(30.0)
    assert whole.values["e2e_p99"] == pytest.approx(520.0)
    assert whole.values["itl_mean"] == pytest.approx((520 - 30) / 10)
    assert whole.values["throughput"] == pytest.approx(100 / (49.5 + 0.52))
    assert (whole.completed, whole.failed, whole.overloaded) == (100, 0, False)
    assert stage.values == whole.values


def test_stages_are_told_apart_and_the_pause_counts():
    first, served_first = run(20, 2.0, lambda i: (10, 100))
    second, served_second = run(40, 4.0, lambda i: (30, 300), stage=1, start=70 * SECOND)
    served_second = [served(i + 20, r.arrival, 30, 300) for i, r in enumerate(served_second)]
    stages = [Stage(rate_rps=2.0, duration_s=10), Stage(rate_rps=4.0, duration_s=10)]
    whole, parts = simulated_figures(first + second, served_first + served_second, stages)
    assert [part.values["ttft_mean"] for part in parts] == [10.0, 30.0]
    assert whole.values["throughput"] == pytest.approx(60 / (9.5 + 0.1 + 1.5 + 9.75 + 0.3))


def test_requests_that_failed_count_in_no_latency():
    def latencies(i):
        return (10, 100) if i % 2 else (5000, 0, TIMED_OUT)

    arrivals, requests = run(40, 2.0, latencies)
    whole, _ = simulated_figures(arrivals, requests, [Stage(rate_rps=2.0, duration_s=20)])
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
    arrivals, requests = run(200, 2.0, latencies)
    whole, _ = simulated_figures(arrivals, requests, [Stage(rate_rps=2.0, duration_s=100)])
    assert whole.overloaded is expected


def test_a_rate_below_the_offered_one_counts_in_long_stages_only():
    arrivals, requests = run(20, 2.0, lambda i: (30, 4000))
    whole, _ = simulated_figures(arrivals, requests, [Stage(rate_rps=2.0, duration_s=10)])
    assert not whole.overloaded  # 20 requests in 13.5 s: the last answer takes its time
    arrivals, requests = run(400, 2.0, lambda i: (30, 4000 + i * 50))
    whole, _ = simulated_figures(arrivals, requests, [Stage(rate_rps=2.0, duration_s=200)])
    assert whole.overloaded


def test_without_stages_there_is_no_overload():
    arrivals, requests = run(50, 10.0, lambda i: (i * 1000, i * 1000 + 500))
    whole, parts = simulated_figures(arrivals, requests, [])
    assert not whole.overloaded
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
