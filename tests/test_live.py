"""A live instance does what a simulation of the same arrivals does, and can run for ever."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.api import BlisError, LiveInstance, LiveRequest, Request, RunConfig, simulate
from blis_core.planning import generate_workload

SMALL = {"model": "qwen/qwen3-14b", "latency_model": "trained-physics", "num_requests": 60}


def play(
    config: RunConfig, *, streaming: bool, delay: int = 0
) -> tuple[LiveInstance, list[LiveRequest]]:
    """Submit the workload of ``config`` when it arrives; time goes in steps of ``delay`` us, or
    from change to change."""
    live = LiveInstance(config)
    workload = generate_workload(config).workload
    requests = list(workload.requests)
    submitted: list[LiveRequest] = []
    while True:
        change = live.next_change
        if requests and (change is None or requests[0].arrival <= change):
            request = requests.pop(0)
            request.deadline = 0
            live.advance(request.arrival - 1)
            submitted.append(live.submit(request, request.arrival, streaming=streaming))
        elif change is None:
            return live, submitted
        else:
            live.advance(change + delay if not requests else change)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"rate": 20.0},
        {"rate": 100.0, "max_num_running_reqs": 8},
        {"rate": 50.0, "total_kv_blocks": 600, "max_model_len": 9000},  # preemptions
        {"rate": 50.0, "prefix_tokens": 300, "scheduler": "sjf"},
        {"rate": 60.0, "max_num_scheduled_tokens": 256},
        {"rate": 30.0, "latency_model": "blackbox", "alpha_coeffs": (1500.5, 3.25, 900.75),
         "beta_coeffs": (6200.25, 17.5, 5.75)},  # an overhead for every token
    ],
    ids=str,
)  # fmt: skip
def test_equals_the_simulation(options: dict[str, Any], streaming: bool) -> None:
    config = RunConfig(**{**SMALL, **options, "timeout": -1})
    expected = simulate(attrs.evolve(config, trace_output="x")).generated
    _, played = play(config, streaming=streaming)
    assert [(r.ttft, r.itl_sum, r.e2e) for r in expected] == [
        (live.request.ttft, live.request.itl_sum, live.request.e2e) for live in played
    ]
    assert all(live.finished and live.tokens == live.request.output_len for live in played)


def test_tokens_come_when_the_simulation_says() -> None:
    """First token, last token and end of a request that streams, to the microsecond."""
    config = RunConfig(
        **{**SMALL, "latency_model": "blackbox", "rate": 30.0, "num_requests": 5},
        alpha_coeffs=(1500.5, 3.25, 900.75),
        beta_coeffs=(6200.25, 17.5, 5.75),
    )
    live = LiveInstance(config)
    seen: list[tuple[int, int, bool]] = []
    one = live.submit(request("a", 100, 20), 5000)
    other = live.submit(request("b", 300, 40), 5000)
    while (change := live.next_change) is not None:
        if one in live.advance(change):
            seen.append((change, one.tokens, one.finished))
    assert other.finished
    done = one.request
    assert seen[0] == (5000 + done.ttft, 1, False)
    assert [tokens for _, tokens, _ in seen[:20]] == list(range(1, 21))
    times = [time for time, tokens, _ in seen if tokens <= 20]
    assert times == sorted(times)
    assert seen[19][0] == 5000 + done.ttft + done.itl_sum
    assert seen[-1] == (5000 + done.e2e, 20, True)


def request(name: str, prompt: int, output: int, *, seed: int = 1) -> Request:
    tokens = np.random.default_rng(seed).integers(0, 2**31 - 1, prompt + output, dtype=np.int32)
    return Request(name, 0, tokens, prompt, output)


@given(
    st.lists(
        st.tuples(st.integers(0, 60_000), st.integers(1, 300), st.integers(1, 60)),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.integers(1, 200_000), min_size=1, max_size=10),
)
def test_any_pace_gives_the_same(arrivals: list[tuple[int, int, int]], paces: list[int]) -> None:
    """However rarely the clock is looked at, no token is lost and none comes early."""
    live = LiveInstance(RunConfig(**SMALL, total_kv_blocks=200, max_model_len=600))
    now, lives = 0, []
    for number, (gap, prompt, output) in enumerate(arrivals):
        now += gap
        live.advance(now)
        lives.append(live.submit(request(f"r{number}", prompt, output, seed=number), now))
    pace = itertools.cycle(paces)
    while live.next_change is not None:
        now += next(pace)
        for touched in live.advance(now):
            done = touched.request
            if touched.tokens:
                assert now >= done.arrival + done.ttft
            if touched.finished:
                assert now >= done.arrival + done.e2e
    assert all(one.finished and one.tokens == one.request.output_len for one in lives)
    assert live.running == live.waiting == 0
    assert live.kv_utilization == 0


@given(st.data())
def test_who_leaves_frees_everything(data: st.DataObject) -> None:
    """Withdrawn at any time, in any state: places and blocks come back, others are served."""
    live = LiveInstance(RunConfig(**SMALL, max_num_running_reqs=3, total_kv_blocks=200,
                                  max_model_len=600))  # fmt: skip
    lives = [live.submit(request(f"r{n}", 50 + n, 20, seed=n), n * 100) for n in range(8)]
    leaving = data.draw(st.lists(st.sampled_from(lives), unique=True))
    now = 700
    for one in leaving:
        now += data.draw(st.integers(0, 100_000))
        live.advance(now)
        gone = one.finished
        live.withdraw(one, now)
        live.advance(now)
        assert gone or one.withdrawn or one.request.e2e >= 0
        live.withdraw(one, now)  # again: nothing
    while (change := live.next_change) is not None:
        live.advance(change)
    assert all(one.finished for one in lives)
    assert all(one.tokens == 20 for one in lives if one not in leaving)
    assert live.kv_utilization == 0
    assert live.running == live.waiting == 0


@pytest.mark.parametrize(("prompt", "output"), [(0, 5), (599, 2), (601, 1), (10_000, 1)])
def test_what_can_never_be_served(prompt: int, output: int) -> None:
    live = LiveInstance(RunConfig(**SMALL, total_kv_blocks=200, max_model_len=600))
    with pytest.raises(BlisError, match="does not fit"):
        live.submit(request("r", prompt, output), 0)
    assert live.next_change is None


def test_memory_has_a_bound() -> None:
    """Prompts that are cached no longer are forgotten; those that are still hit."""
    live = LiveInstance(RunConfig(**SMALL, total_kv_blocks=100, max_model_len=500))
    chains = live._engine._chains
    now, most = 0, 0
    for number in range(600):
        live.submit(request(f"r{number}", 165, 8, seed=number), now, streaming=number % 2 == 0)
        while (change := live.next_change) is not None:
            now = change
            live.advance(now)
        most = max(most, len(chains._roots))
    # 600 prompts of 10 blocks went through a cache of 100 blocks
    assert most < 60
    assert len(live._engine.metrics.requests) < 1024
    before = live.cache_hit_rate
    live.submit(request("again", 165, 8, seed=599), now)
    while (change := live.next_change) is not None:
        live.advance(change)
    assert live.cache_hit_rate > before
