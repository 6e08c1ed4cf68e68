"""The engine with a tiered KV store against the naive one, on random small configurations."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blis_core.engine.formation import Limits
from blis_core.errors import BlisError
from tests.engine.compare import expected, naive, outcome, product
from tests.engine.regression import ContextSensitive, Regression

EXAMPLES = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def scenario_of(rng, count):
    """Requests and settings; memory is short, prefixes overlap, prompts come back."""
    size = rng.choice([1, 2, 4, 4, 16])
    blocks = rng.choice([6, 8, 12, 20, 40, 100])
    capacity = size * blocks
    limits = Limits(
        max_running=rng.choice([1, 2, 3, 8, 20]),
        max_tokens=rng.choice([1, 2, 5, 16, 64, 2048, 2048]),
        long_prefill=rng.choice([0, 0, 0, 2, 7]),
        max_model_len=rng.choice([0, 0, 0, min(40, capacity)]),
    )
    vocabulary = rng.choice([2, 3, 1_000_000, 1_000_000])
    words = lambda n: [rng.randrange(vocabulary) for _ in range(n)]  # noqa: E731
    prefixes = [words(rng.choice([0, 4, 9, capacity // 3])) for _ in range(3)]
    requests, now = [], 0
    for i in range(count):
        now += rng.choice([0, 0, 1, 30, 100, 400, 3000])
        prompt = words(rng.randrange(1, rng.choice([4, 12, 40])))
        if rng.random() < 0.6:
            prompt = rng.choice(prefixes) + prompt
        if requests and rng.random() < 0.3:  # a follow-up turn
            earlier = rng.choice(requests)
            prompt = (earlier[2] + earlier[3])[: rng.randrange(1, 90)]
        if requests and rng.random() < 0.2:  # the same prompt again
            prompt = list(rng.choice(requests)[2])
        output = words(rng.randrange(0, rng.choice([2, 6, 30, 90])))
        deadline = now + rng.randrange(1, 3000) if rng.random() < 0.2 else 0
        budget = rng.choice([0, len(output), len(output), 5])
        if len(prompt) > capacity or len(prompt) + len(output) <= capacity:  # else it never ends
            requests.append((f"r{i}", now, prompt, output, deadline, budget))
    options = {
        "blocks": blocks,
        "size": size,
        "limits": limits,
        "scheduler": rng.choice(["fcfs", "fcfs", "sjf", "priority-fcfs", "reverse-priority"]),
        "priority": rng.choice(["constant", "slo-based", "inverted-slo"]),
        # finite: blocks that refusals have left may keep each other from finishing for ever
        "horizon": rng.choice([60_000, 60_000, 60_000, 2000, 9000]),
        "tier": (
            rng.choice([1, 3, blocks // 2, blocks, 2 * blocks, 1000]),
            rng.choice([0.05, 1.5, 100.0]),
            rng.choice([0, 0, 5]),
        ),
    }
    return requests, rng.choice([Regression, ContextSensitive])(after=rng.choice([0, 7])), options


scenarios = partial(st.builds, scenario_of, st.randoms(use_true_random=False), st.integers(1, 24))


@EXAMPLES
@given(scenarios())
def test_equals_the_naive_engine(scenario):
    """Every observable figure, the contents of the CPU tier and their order included."""
    requests, latency, options = scenario
    assert outcome(*product(requests, latency, **options)) == expected(
        *naive(requests, latency, **options)
    )


@EXAMPLES
@given(scenarios(), st.lists(st.integers(0, 20_000), max_size=30))
def test_runs_and_interruptions_leave_no_trace(scenario, cuts):
    """Step by step, in runs, or in pieces: the same state at the end."""
    requests, latency, options = scenario
    whole = outcome(*product(requests, latency, **options))
    assert whole == outcome(*product(requests, latency, cuts=sorted(cuts), **options))
    assert whole == outcome(*product(requests, latency, fast_forward=False, **options))


def crowd(seed, blocks):
    """Requests of which each fits, but that get in each other's way."""
    rng = Random(seed)
    words = lambda n: [rng.randrange(1_000_000) for _ in range(n)]  # noqa: E731
    prefix, requests, now = words(rng.randrange(3, 8)), [], 0
    for i in range(rng.randrange(4, 14)):
        now += rng.choice([0, 0, 10, 200])
        prompt = (prefix if rng.random() < 0.6 else []) + words(rng.randrange(1, 4))
        if len(prompt) < blocks:
            output = words(rng.randrange(1, blocks - len(prompt) + 1))
            requests.append((f"r{i}", now, prompt, output, 0, len(output)))
    return requests


BLOCKED = [
    ("r0", 210, [101, 102, 103], [1, 2, 3], 0, 3),
    ("r1", 210, [111, 112, 113], [4], 0, 1),
    ("r2", 210, [91, 92, 93, 94, 95, 96, 121, 122], [5], 0, 1),
    ("r3", 220, [91, 92, 93, 94, 95, 96, 131], [6], 0, 1),
    ("r4", 230, [141, 142, 143], [11, 12, 13, 14, 15], 0, 5),
    ("r5", 430, [151, 152], [16], 0, 1),
    ("r6", 430, [91, 92, 93, 94, 95, 96, 161, 162], [17], 0, 1),
    ("r7", 430, [171], [21, 22, 23, 24, 25], 0, 5),
    ("r8", 630, [181, 182], [26, 27], 0, 2),
]
"""The last ones of these wait for blocks that one of them holds."""


@pytest.mark.parametrize(
    ("requests", "blocks", "complaint"),
    [(crowd(134, 12), 12, "preempt each other"), (BLOCKED, 8, "none can be admitted")],
    ids=["preempted in turn", "not admitted"],
)
def test_requests_that_keep_each_other_from_finishing_are_an_error(requests, blocks, complaint):
    """With an end in sight it goes on as in the reference, without one it stops."""
    options = {
        "blocks": blocks,
        "size": 1,
        "limits": Limits(max_running=8, max_tokens=10, long_prefill=0, max_model_len=0),
        "tier": (200, 100.0, 5),
    }
    with pytest.raises(BlisError, match=complaint):
        product(requests, Regression(), **options)
    options["horizon"] = 30_000
    assert outcome(*product(requests, Regression(), **options)) == expected(
        *naive(requests, Regression(), **options)
    )
