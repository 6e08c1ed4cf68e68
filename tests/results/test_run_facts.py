"""The facts on which the accuracy of a run depends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import Request
from blis_core.engine.metrics import InstanceMetrics
from blis_core.results.facts import run_facts


def served(arrival, waits, runs, prompt=10, output=5):
    request = Request(f"request_{arrival}", arrival, None, prompt, output)
    request.scheduling_delay = waits
    if runs is not None:
        request.e2e = waits + runs
    return request


def facts(*instances, blocks=100):
    collected = []
    for number, requests in enumerate(instances):
        metrics = InstanceMetrics(f"instance_{number}")
        metrics.requests = list(requests)
        metrics.peak_used_blocks = 10 * (number + 1)
        collected.append(metrics)
    return run_facts(
        collected, model="m/x", hardware="H100", tp=2, max_running=8, total_blocks=blocks
    )


def test_facts():
    found = facts(
        [served(0, 0, 100), served(1_000_000, 0, 100, prompt=30, output=15)],
        [served(500_000, 0, 100), served(2_000_000, 0, 100)],
    )
    assert found.rate == 3 / 2.0 / 2
    assert (found.prompt_tokens, found.output_tokens, found.longest) == (15.0, 7.5, 45)
    assert (found.peak_running, found.peak_kv_use) == (1, 0.2)


def test_nobody_was_served():
    assert facts([]) is None
    unfinished = facts([served(0, 0, None)])
    assert (unfinished.peak_running, unfinished.rate) == (0, 0.0)


spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(1, 20)), min_size=1)


@given(spans)
def test_peak_running_is_the_largest_number_at_any_moment(spans):
    moments = {arrival + waits for arrival, waits, _ in spans}
    expected = max(
        sum(arrival + waits <= moment < arrival + waits + runs for arrival, waits, runs in spans)
        for moment in moments
    )
    assert facts([served(*span) for span in spans]).peak_running == expected
