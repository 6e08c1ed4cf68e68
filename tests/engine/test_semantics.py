"""The rules of vLLM, one by one, on engines small enough to follow by hand; then laws of all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.contracts import COMPLETED, TIMED_OUT, BatchShape, KVSetup, LatencyModel, Request
from blis_core.engine.formation import Limits
from blis_core.engine.instance import Instance
from blis_core.engine.schedulers import PRIORITY_POLICIES, Fcfs
from blis_core.errors import UsageError
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore
from blis_core.semantics import REFERENCE, RULES, VLLM, Semantics, parse_semantics


class PerToken(LatencyModel):
    """10 ms a step, 1 us for each prompt token, 1 ns for each token of context (in whole us)."""

    def __init__(self) -> None:
        self.shapes: list[BatchShape] = []

    def step_time(self, shape: BatchShape) -> int:
        self.shapes.append(shape)
        prompt = sum(chunk.new_tokens for chunk in shape.prefills)
        context = sum(chunk.context for chunk in shape.prefills) + shape.decode_context_sum
        return 10_000 + prompt + context // 1000


def engine(
    semantics: Semantics, blocks: int = 1000, running: int = 100, fast: bool = True
) -> tuple[Instance, PerToken]:
    latency = PerToken()
    chains = ChainTable(16)
    return (
        Instance(
            "it",
            latency=latency,
            store=PagedKVStore(KVSetup(total_blocks=blocks, block_size=16)),
            chains=chains,
            scheduler=Fcfs(PRIORITY_POLICIES["constant"]),
            limits=Limits(max_running=running, max_tokens=4096),
            semantics=semantics,
            fast_forward=fast,
        ),
        latency,
    )


def request(name: str, arrival: int, prompt: int, output: int, seed: int = 0, **more) -> Request:
    tokens = np.random.default_rng(seed).integers(0, 30_000, prompt + output).astype(np.int32)
    return Request(name, arrival, tokens, prompt, output, max_output=output, **more)


def run(instance: Instance, *requests: Request) -> None:
    for one in requests:
        instance.inject(one, one.arrival)
    instance.advance()


def only(name: str) -> Semantics:
    return parse_semantics(f"reference,+{name}")


# ------------------------------------------------------------------------------- the switches


def test_sets_and_single_rules():
    assert parse_semantics("reference") == REFERENCE == Semantics()
    assert parse_semantics("vllm") == VLLM
    assert parse_semantics("vllm, -recompute").recompute is False
    assert parse_semantics("reference,+schedule-lag") == Semantics(schedule_lag=True)
    for name in RULES:
        assert only(name) != REFERENCE


@pytest.mark.parametrize("text", ["", "vLLM", "vllm,recompute", "vllm,+nothing", "reference,"])
def test_unknown_rules_are_refused_with_those_that_there_are(text):
    with pytest.raises(UsageError, match=r"reference, vllm|schedule-lag"):
        parse_semantics(text)


# --------------------------------------------------------------------------------- schedule lag


def test_who_arrives_during_a_step_waits_for_the_choice_after_the_next():
    for semantics, first in ((REFERENCE, 30_000), (only("schedule-lag"), 40_000)):
        instance, _ = engine(semantics)
        late = request("late", 13_000, 0, 5, seed=2)
        run(instance, request("long", 0, 0, 50, seed=1), late)
        assert late.arrival + late.ttft == first


def test_an_idle_engine_begins_at_once():
    instance, _ = engine(only("schedule-lag"))
    a, b = request("a", 0, 16, 1, seed=1), request("b", 500_000, 16, 1, seed=2)
    run(instance, a, b)
    assert (a.ttft, b.ttft) == (10_016, 10_016)


def test_who_finishes_keeps_the_slot_for_one_choice_more():
    for semantics, start in ((REFERENCE, 30_000), (only("schedule-lag"), 40_000)):
        instance, _ = engine(semantics, running=2)
        stays, leaves = request("stays", 0, 0, 50, seed=1), request("leaves", 0, 0, 3, seed=2)
        third = request("third", 1_000, 0, 2, seed=3)
        run(instance, stays, leaves, third)
        assert leaves.ttft + leaves.itl_sum == 30_000
        assert third.arrival + third.scheduling_delay == start


def test_who_finishes_keeps_the_blocks_for_one_choice_more():
    for semantics, start in ((REFERENCE, 20_096), (only("schedule-lag"), 30_096)):
        instance, _ = engine(semantics, blocks=8)
        stays, leaves = request("stays", 0, 16, 50, seed=1), request("leaves", 0, 80, 2, seed=2)
        third = request("third", 1_000, 64, 2, seed=3)
        run(instance, stays, leaves, third)
        assert third.arrival + third.scheduling_delay == start
        assert instance.store.used_blocks == 0


# ------------------------------------------------------------------------------------ preemption


def preempted(semantics: Semantics) -> tuple[list[Request], Instance, PerToken]:
    """Two requests of which the second has to give way while both decode."""
    instance, latency = engine(semantics, blocks=6)
    both = [request("a", 0, 32, 40, seed=1), request("b", 0, 32, 40, seed=2)]
    run(instance, *both)
    assert instance.metrics.preemptions >= 1
    assert all(one.state is COMPLETED for one in both)
    return both, instance, latency


def test_a_preempted_request_generates_nothing_twice():
    (a, b), instance, latency = preempted(only("recompute"))
    back = [shape for shape in latency.shapes if shape.prefills][1]
    # 32 + 17 tokens when the seventh block was missing; what is cached need not be computed
    (chunk,) = back.prefills
    assert chunk.prompt_len == 49
    assert chunk.new_tokens < 49
    assert b.itl_count == 39
    metrics = instance.finish()
    assert int(metrics.itl_weights.sum()) == 2 * 39
    assert int((metrics.itl_values * metrics.itl_weights).sum()) == a.itl_sum + b.itl_sum


def test_times_across_a_preemption_add_up():
    (_, b), instance, _ = preempted(only("recompute"))
    assert b.e2e == b.ttft + b.itl_sum
    assert b.arrival + b.e2e == instance.clock  # the last to finish
    (_, again), reference, _ = preempted(REFERENCE)
    assert again.e2e < reference.clock  # which leaves the wait out
    assert b.e2e < reference.clock  # and takes longer


def test_the_first_token_after_the_preemption_may_count():
    (_, b), instance, _ = preempted(only("late-first-token"))
    assert b.e2e == b.ttft + b.itl_sum == instance.clock
    (_, frozen), _, _ = preempted(REFERENCE)
    assert frozen.ttft < b.ttft


# --------------------------------------------------------------------------------- cached prompts


@pytest.mark.parametrize(("rule", "computed"), [("cached-context", 0), ("compute-last-token", 16)])
def test_a_full_hit(rule, computed):
    instance, latency = engine(only(rule))
    run(instance, request("first", 0, 64, 1), request("again", 100_000, 64, 2))
    prefills = [shape.prefills for shape in latency.shapes]
    again = sum(chunk.new_tokens for chunk in prefills[1])
    assert again == computed


def test_the_cached_prefix_is_context():
    for semantics, context in ((REFERENCE, 0), (only("cached-context"), 48)):
        instance, latency = engine(semantics)
        run(instance, request("first", 0, 60, 1), request("again", 100_000, 60, 2))
        (chunk,) = latency.shapes[1].prefills
        assert (chunk.context, chunk.new_tokens) == (context, 12)


# --------------------------------------------------------------------------------------- time-outs


def test_an_aborted_request_leaves_no_latency():
    for semantics, recorded in ((REFERENCE, True), (only("abort-timeouts"), False)):
        instance, _ = engine(semantics)
        late = request("late", 0, 16, 50, deadline=100_000)
        run(instance, late)
        assert late.state is TIMED_OUT
        assert (late.ttft >= 0) is recorded
        assert instance.metrics.timed_out == 1


# -------------------------------------------------------------------------------------------- laws

workloads = st.lists(
    st.tuples(
        st.integers(0, 300_000),  # arrival
        st.integers(0, 90),  # prompt
        st.integers(1, 60),  # output
        st.integers(0, 3),  # equal seeds share prefixes
        st.sampled_from([0, 0, 250_000]),  # patience
    ),
    min_size=1,
    max_size=14,
)
rules = st.builds(Semantics, **{name.replace("-", "_"): st.booleans() for name in RULES})


def outcome(semantics: Semantics, workload, *, blocks: int, running: int, fast: bool):
    instance, _ = engine(semantics, blocks, running, fast)
    requests = [
        request(str(i), arrival, prompt, output, seed, deadline=arrival + wait if wait else 0)
        for i, (arrival, prompt, output, seed, wait) in enumerate(sorted(workload))
    ]
    run(instance, *requests)
    metrics = instance.finish()
    figures = [(r.state, r.ttft, r.itl_sum, r.itl_count, r.e2e) for r in requests]
    counts = [metrics.completed, metrics.timed_out, metrics.dropped_unservable, metrics.preemptions]
    tokens = int(metrics.itl_weights.sum())
    return instance, requests, figures, [*counts, metrics.queue_sum, tokens]


@settings(max_examples=150)
@given(rules, workloads, st.integers(12, 30), st.integers(1, 6))
def test_laws_of_all_rules(semantics, workload, blocks, running):
    """Nobody and no block is lost, times add up, and leaping ahead changes nothing."""
    instance, requests, figures, counts = outcome(
        semantics, workload, blocks=blocks, running=running, fast=True
    )
    assert sum(counts[:3]) == len(requests)
    assert instance.store.used_blocks == 0
    for one in requests:
        if one.state is COMPLETED:
            assert one.itl_count == max(one.output_len - 1, 0)
            assert one.e2e == one.ttft + one.itl_sum
    _, _, single, single_counts = outcome(
        semantics, workload, blocks=blocks, running=running, fast=False
    )
    assert (figures, counts) == (single, single_counts)
