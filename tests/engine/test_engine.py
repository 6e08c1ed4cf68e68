"""The engine against the naive one, and its laws, on random small configurations."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blis_core.contracts import MAX_INT64
from blis_core.engine.formation import Limits
from tests.engine.compare import expected, naive, outcome, product
from tests.engine.regression import ContextSensitive, Regression

COUNTS = [1, 2, 3, 8, 20]


@st.composite
def scenarios(draw):
    """Requests and settings; sequences overlap often, and memory is often short."""
    rng = draw(st.randoms(use_true_random=False))
    size = rng.choice([1, 2, 4, 4, 16])
    blocks = rng.choice([6, 10, 20, 60, 200])
    capacity = size * blocks
    limits = Limits(
        max_running=rng.choice(COUNTS),
        max_tokens=rng.choice([1, 2, 5, 16, 64, 2048]),
        long_prefill=rng.choice([0, 0, 0, 2, 7]),
        max_model_len=rng.choice([0, 0, 0, min(40, capacity)]),
    )
    vocabulary = rng.choice([2, 3, 1_000_000])
    words = lambda n: [rng.randrange(vocabulary) for _ in range(n)]  # noqa: E731
    prefix = words(rng.choice([0, 4, 9]))
    requests, now = [], 0
    for i in range(draw(st.integers(1, 24))):
        now += rng.choice([0, 0, 1, 30, 100, 400, 3000])
        prompt = words(rng.randrange(1, rng.choice([4, 12, 40])))
        if rng.random() < 0.5:
            prompt = prefix + prompt
        if requests and rng.random() < 0.2:  # a follow-up turn
            earlier = rng.choice(requests)
            prompt = (earlier[2] + earlier[3])[: rng.randrange(1, 60)]
        if requests and rng.random() < 0.1:  # the same prompt again
            prompt = list(rng.choice(requests)[2])
        output = words(rng.randrange(0, rng.choice([2, 6, 30])))
        deadline = now + rng.randrange(1, 3000) if rng.random() < 0.3 else 0
        budget = rng.choice([0, len(output), len(output), 5])
        if len(prompt) > capacity or len(prompt) + len(output) <= capacity:  # else it never ends
            requests.append((f"r{i}", now, prompt, output, deadline, budget))
    options = {
        "blocks": blocks,
        "size": size,
        "limits": limits,
        "scheduler": rng.choice(["fcfs", "fcfs", "sjf", "priority-fcfs", "reverse-priority"]),
        "priority": rng.choice(["constant", "slo-based", "inverted-slo"]),
        "horizon": rng.choice([MAX_INT64, MAX_INT64, MAX_INT64, 2000, 9000]),
    }
    return requests, rng.choice([Regression, ContextSensitive])(after=rng.choice([0, 7])), options


EXAMPLES = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@EXAMPLES
@given(scenarios())
def test_equals_the_naive_engine(scenario):
    """Every observable figure, the final free list included."""
    requests, latency, options = scenario
    assert outcome(*product(requests, latency, **options)) == expected(
        *naive(requests, latency, **options)
    )


@EXAMPLES
@given(scenarios())
def test_fast_forward_equals_step_by_step(scenario):
    """Runs of decode steps change nothing but the time it takes."""
    requests, latency, options = scenario
    fast = outcome(*product(requests, latency, **options))
    assert fast == outcome(*product(requests, latency, fast_forward=False, **options))


@EXAMPLES
@given(scenarios(), st.lists(st.integers(0, 20_000), max_size=30))
def test_interruptions_leave_no_trace(scenario, cuts):
    """Advancing in pieces, at any times, ends in the same state."""
    requests, latency, options = scenario
    whole = outcome(*product(requests, latency, **options))
    assert whole == outcome(*product(requests, latency, cuts=sorted(cuts), **options))


@EXAMPLES
@given(scenarios())
def test_requests_and_blocks_are_conserved(scenario):
    """Each request ends in one state; each block is free or held, and none twice."""
    requests, latency, options = scenario
    instance, made = product(requests, latency, **options)
    m = instance.metrics
    entered = sum(r[1] + latency.queueing_time(len(r[2])) <= options["horizon"] for r in requests)
    assert entered == (
        m.completed + m.still_queued + m.still_running + m.dropped_unservable + m.timed_out
    )
    store = instance.store
    assert len(store.free_keys()) == store.free_blocks
    assert 0 <= store.used_blocks <= options["blocks"]
    if options["horizon"] == MAX_INT64:
        assert not store.used_blocks
    assert all(r.arrival <= m.sim_ended for r in made if r.state == "completed")
