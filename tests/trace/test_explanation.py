"""Where the end-to-end error comes from: the parts tell causes apart, and add up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.trace.explanation import Pair, explain

times = st.floats(0, 1e9)
pairs = st.builds(
    lambda rt, rd, rn, st_, sd, sn: Pair(rt, rt + rd, rn, st_, st_ + sd, sn),
    times, times, st.integers(0, 5000), times, times, st.integers(0, 5000),
)  # fmt: skip


@given(st.lists(pairs, min_size=1, max_size=20))
def test_the_parts_add_up(found):
    told = explain(found)
    assert told.requests == len(found)
    size = max(max(pair[:2] + pair[3:5]) for pair in found) * 5000 + 1
    rest = told.e2e - told.workload - told.queue - told.step_time
    assert math.isclose(rest, 0, abs_tol=1e-12 * size)


@pytest.mark.parametrize(
    ("simulated", "expected"),
    [
        ((100.0, 1100.0, 11), (0, 0, 0)),
        ((150.0, 1150.0, 11), (0, 50, 0)),  # the first token came later
        ((100.0, 2100.0, 11), (0, 0, 1000)),  # steps took twice as long
        ((100.0, 2100.0, 21), (1000, 0, 0)),  # twice as many tokens, each as fast
        ((150.0, 4150.0, 21), (2000, 50, 1000)),
        ((100.0, 100.0, 1), (0, 0, -1000)),  # no time between tokens to go by
    ],
)
def test_causes_are_told_apart(simulated, expected):
    ttft, e2e, tokens = simulated
    told = explain([Pair(100.0, 1100.0, 11, ttft, e2e, tokens)])
    assert (told.workload, told.queue, told.step_time) == pytest.approx(expected)


def test_one_line():
    told = explain([Pair(100_000.0, 1_100_000.0, 11, 150_000.0, 4_150_000.0, 21)])
    assert told.summary() == (
        "e2e error in ms, simulated - measured: +3050.000 = workload (output lengths) +2000.000,"
        " queue (time to first token) +50.000, step time (between tokens) +1000.000"
    )
