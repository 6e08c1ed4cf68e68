"""What a run says: values as ``blis run`` prints them, failures, and whether it can go on."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.api import BlisError, simulate
from blis_plan.measuring import _Times, measure
from blis_plan.slo import parse_slos

SHORT = {
    "model": "qwen/qwen3-14b",
    "output_tokens": 20,
    "output_tokens_stdev": 5,
    "num_requests": 300,
    "rate": 20.0,
}
EVERY = parse_slos(
    ["ttft_mean=1s,ttft_p50=1s,ttft_p99=1s,itl_mean=1s,itl_p95=1s,e2e_mean=1s,e2e_p90=1s"]
)


def measured(texts, **options):
    return measure(simulate(**{**SHORT, **options}), parse_slos(texts), 42)


def test_values_are_those_of_the_results():
    results = simulate(**SHORT)
    run = measure(results, EVERY, 42)
    assert run.values == tuple(getattr(results.cluster, f"{slo.name}_ms") for slo in EVERY)
    assert (run.sent, run.completed, run.failed) == (300, 300, ())


def test_time_per_output_token():
    results = simulate(**SHORT)
    (value,) = measure(results, parse_slos(["tpot_mean=1s"]), 42).values
    times = [r.mean_itl_us() for r in results.requests if r.output_len > 1]
    assert value == pytest.approx(sum(times) / len(times) / 1000)


@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("rejected at admission", {"admission_policy": "reject-all"}),
        ("rejected at admission", {"admission_policy": "token-bucket"}),
        ("too large for KV cache or model", {"max_model_len": 400}),
        ("timed out", {"timeout": 1, "rate": 5000.0, "num_requests": 3000}),
        ("unfinished at the end", {"horizon": 3_000_000}),
        (
            "shed at the gateway",
            {
                "flow_control": True,
                "saturation_detector": "concurrency",
                "max_concurrency": 1,
                "max_gateway_queue_depth": 1,
            },
        ),
    ],
)
def test_whatever_fails_is_infinitely_slow(reason, options):
    """A run in which a good part fails must not meet a tail, nor a mean."""
    options = {"rate": 100.0, **options}
    run = measured(["ttft_p99=10s,e2e_mean=10s,itl_p99=10s,completed=50%"], **options)
    failed = dict(run.failed)[reason]
    assert failed > 0.02 * run.sent
    assert run.values[:3] == (math.inf,) * 3
    assert run.values[3] == pytest.approx(run.completed / run.sent)
    assert run.completed + sum(count for _, count in run.failed) == run.sent


def test_every_failure_has_a_name():
    """The counters of the results are either failures, or told apart from them here."""
    results = simulate(**SHORT)
    changed = attrs.evolve(
        results,
        in_transit=2,
        anomalies=attrs.evolve(
            results.anomalies,
            rejected_admission=3,
            rejected_routing=5,
            gateway_depth=7,
            gateway_shed=11,
            lost_in_drain=13,
        ),
    )
    assert measure(changed, EVERY, 42).sent == 300 + 2 + 3 + 5 + 7 + 11 + 13


def test_a_percentile_bears_what_it_leaves_out():
    results = simulate(**SHORT)
    few = attrs.evolve(results, anomalies=attrs.evolve(results.anomalies, rejected_admission=2))
    p90, p99, mean, itl = parse_slos(["ttft_p90=1s,ttft_p99.9=1s,ttft_mean=1s,itl_p99=1s"])
    values = measure(few, (p90, p99, mean, itl), 42).values
    assert math.isfinite(values[0])
    assert values[1:3] == (math.inf, math.inf)
    assert math.isfinite(values[3])  # 2 of 302 are less than one in a hundred


@given(
    st.lists(st.integers(1, 10**7), min_size=1, max_size=60),
    st.integers(0, 5),
    st.floats(0, 99.9),
)
def test_percentiles_have_failures_at_their_end(times, failed, p):
    found = _Times([], failed)
    found.ttft = np.array(times, dtype=float)
    never = 1e18  # numpy makes a NaN of 0 times infinity
    value = found.percentile_ms("ttft", p)
    if math.isfinite(value):
        assert value == pytest.approx(np.percentile(times + [never] * failed, p) / 1000)
    else:
        assert math.ceil(p / 100 * (len(times) + failed - 1)) >= len(times)


def test_attainment_counts_requests_that_keep_every_limit():
    results = simulate(**SHORT, num_instances=1)
    slo = parse_slos(["ttft=45ms,e2e=250ms,attainment=90%"])
    kept = sum(r.ttft <= 45_000 and r.e2e <= 250_000 for r in results.requests)
    assert 0 < kept < 300
    assert measure(results, slo, 42).values == (kept / 300,)
    assert measure(results, slo, 42).misses == (pytest.approx(300 - kept),)


def test_nothing_to_measure():
    with pytest.raises(BlisError, match="no request"):
        measured(["ttft_p99=1s"], horizon=1, num_requests=0)


def test_one_request():
    run = measured(["ttft_p99=1s"], num_requests=1)
    assert (run.sent, run.offered, run.achieved) == (1, 0.0, 0.0)
    assert not run.long_enough


@pytest.mark.parametrize(("rate", "sustained"), [(2.0, True), (10.0, True), (25.0, False)])
def test_a_growing_queue_is_seen(rate, sustained):
    """The capacity is 17.5 requests/s."""
    options = {"model": "qwen/qwen3-14b", "num_requests": 2000, "timeout": -1}
    run = measure(simulate(**options, rate=rate), EVERY, 42)
    assert run.sustained(steady=True) is sustained
    assert run.achieved == pytest.approx(min(rate, 17.5), rel=0.03)


def test_growth_of_latencies_is_the_surplus():
    """Service of 100/s against 150/s: latencies grow by half a second every second."""
    requests = [_Served(i, 6_667 * i, 10_000 * (i + 1)) for i in range(2000)]
    growth, noise = _Times(requests, 0).growth()
    assert growth == pytest.approx(0.5, rel=0.01)
    assert noise < 0.02
    half = _Times(requests, 0).second_half(np.array([r.arrival for r in requests], dtype=float))
    assert half.achieved == pytest.approx(100, rel=0.01)
    assert half.backlog == pytest.approx(1 / 3, rel=0.02)
    assert half.noise == pytest.approx(0.0, abs=1e-6)  # nothing is left to chance


class _Served:
    """A request as a server with one place leaves it."""

    def __init__(self, number, arrival, end):
        self.id, self.arrival, self.ttft, self.e2e = str(number), arrival, 1, end - arrival
        self.output_len = self.prompt_len = 1

    def mean_itl_us(self):
        return 0.0
