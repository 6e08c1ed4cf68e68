"""The language of SLOs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.api import UsageError
from blis_plan.slo import METRICS, Slo, parse_slos, shown_ms, wanted_requests


def test_statistics_of_latencies():
    ttft, e2e, itl = parse_slos(["ttft_p99.5=0.5s, e2e_mean=4s", "itl_p95=200us"])
    assert ttft == Slo("ttft_p99.5", 500.0, "ttft", 99.5)
    assert e2e == Slo("e2e_mean", 4000.0, "e2e", None)
    assert itl == Slo("itl_p95", 0.2, "itl", 95.0)


def test_limits_of_single_requests():
    completed, attainment = parse_slos(["ttft=500ms,completed=99.9%,tpot=30ms,attainment=99%"])
    assert completed == Slo("completed", 0.999)
    assert attainment == Slo("attainment", 0.99, bounds=(("ttft", 500.0), ("tpot", 30.0)))
    assert str(attainment) == "attainment >= 0.99 (ttft 500 ms, tpot 30 ms)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected METRIC_STATISTIC=LIMIT"),
        ("ttft_p99", "expected METRIC_STATISTIC=LIMIT"),
        ("ttft_p99=500", "write 500ms, 5s or 200us"),
        ("ttft_p99=0ms", "no time above 0"),
        ("ttft_p99=-1s", "no time above 0"),
        ("ttft_p99=fast", "no time above 0"),
        ("ttft_p100=1s", "not known"),
        ("ttft_max=1s", "not known"),
        ("tft_p99=1s", "a metric out of ttft, itl, tpot, e2e"),
        ("itl_p99.9=1s", "of itl there are"),
        ("completed=99", "write a share"),
        ("completed=101%", "up to 100%"),
        ("completed=0%", "above 0%"),
        ("attainment=99%", "give at least one of ttft"),
        ("ttft=500ms", "needs attainment=SHARE%"),
        ("ttft_p99=1s,ttft_p99=2s", "given twice"),
        ("ttft=1s,attainment=9%,attainment=8%", "given twice"),
        ("itl=5ms,attainment=99%", "not known"),
    ],
)
def test_what_is_wrong_is_said(text, problem):
    with pytest.raises(UsageError, match=problem):
        parse_slos([text])


def test_none_at_all():
    with pytest.raises(UsageError, match="required"):
        parse_slos([])


@given(st.sampled_from(METRICS), st.integers(1, 99), st.floats(0.001, 1e6))
def test_a_value_is_met_if_it_uses_no_more_than_all(metric, percentile, value):
    slo = Slo("any", 500.0, metric, float(percentile))
    assert slo.met(value) == (slo.use(value) <= 1)
    assert not slo.met(math.inf)


@given(st.integers(0, 10_000), st.integers(1, 9999))
def test_the_same_of_shares(met, limit):
    slo = Slo("completed", limit / 10_000)
    assert slo.met(met / 10_000) == (slo.use(met / 10_000) <= 1 + 1e-9)


def test_all_of_them_leaves_no_room():
    slo = Slo("completed", 1.0)
    assert (slo.use(1.0), slo.use(0.9999)) == (0.0, math.inf)


def test_runs_are_long_enough_for_the_rarest():
    assert wanted_requests(parse_slos(["ttft_mean=1s"])) == 2000
    assert wanted_requests(parse_slos(["ttft_mean=1s,e2e_p99.5=1s"])) == 4000
    assert wanted_requests(parse_slos(["completed=100%"])) == 2000
    assert wanted_requests(parse_slos(["ttft=1s,attainment=99.9%"])) == 20_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.25, "0.25 ms"), (53.44, "53.4 ms"), (512.6, "513 ms"), (4934.0, "4.93 s"),
     (31_060.0, "31.1 s"), (math.inf, "never")],
)  # fmt: skip
def test_times_for_people(ms, text):
    assert shown_ms(ms) == text
