"""Blocks, anomalies and breakdowns from the raw material of instances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.results.aggregate import build_results, merge, metrics_block
from blis_core.results.breakdown import hol_blocking_events, jain_index, priority_inversions
from blis_core.results.columns import Columns
from tests.results.records import instance, record, recorded_case, with_latencies


def test_worked_example() -> None:
    """The complete run of the specification, 08 section 14."""
    rows = [(250000, 13, 6, 8869, 1542), (500000, 42, 4, 9472, 1637), (750000, 27, 2, 9160, 1588)]
    metrics = instance(
        *(
            record(f"request_{i}", at, prompt=p, output=o, ttft=t, e2e=t + (o - 1) * 7106, delay=d)
            for i, (at, p, o, t, d) in enumerate(rows)
        ),
        input_tokens=82,
        output_tokens=12,
        sim_ended=764466,
    )
    with_latencies(metrics, {7106: 9, 9999: 0})
    found = build_results([metrics], several=False).cluster
    assert found.reference_items() == {
        "instance_id": "cluster",
        "completed_requests": 3,
        "still_queued": 0,
        "still_running": 0,
        "injected_requests": 3,
        "total_input_tokens": 82,
        "total_output_tokens": 12,
        "vllm_estimated_duration_s": 0.764466,
        "responses_per_sec": 3.9243079482933187,
        "tokens_per_sec": 15.697231793173275,
        "e2e_mean_ms": 30.485,
        "e2e_p90_ms": 41.6772,
        "e2e_p95_ms": 43.0381,
        "e2e_p99_ms": 44.126819999999995,
        "ttft_mean_ms": 9.167,
        "ttft_p90_ms": 9.4096,
        "ttft_p95_ms": 9.4408,
        "ttft_p99_ms": 9.46576,
        "itl_mean_ms": 7.106,
        "itl_p90_ms": 7.106,
        "itl_p95_ms": 7.106,
        "itl_p99_ms": 7.106,
        "scheduling_delay_p99_ms": 1.63602,
        "preemption_count": 0,
        "dropped_unservable": 0,
        "length_capped_requests": 0,
        "timed_out_requests": 0,
    }
    assert (found.e2e_p50_ms, found.ttft_p50_ms, found.itl_p50_ms) == (30.79, 9.16, 7.106)


def test_recorded_case_with_time_outs() -> None:
    """First tokens of requests that timed out count, because one request completed."""
    metrics, _, _ = recorded_case("timeout-queued")
    with_latencies(metrics, {7111: 10, 10921: 1})
    block = metrics_block(metrics)
    assert block.injected_requests == 40
    assert block.ttft_mean_ms == 2773.68025
    assert block.itl_mean_ms == 7.457363636363636
    assert block.itl_p99_ms == 10.540000000000001


def test_nothing_completed() -> None:
    metrics = instance(
        record(ttft=500),
        still_running=1,
        output_tokens=7,
        sim_ended=10**6,
        kv_allocation_failures=2,
    )
    block = metrics_block(with_latencies(metrics, {100: 3}))
    assert block.vllm_estimated_duration_s == 1.0
    assert block.ttft_mean_ms == block.itl_mean_ms == block.tokens_per_sec == 0.0
    assert list(block.reference_items()).index("kv_allocation_failures") == 23


def test_no_duration_no_rates() -> None:
    block = metrics_block(instance(record(ttft=1, e2e=1), output_tokens=5))
    assert (block.responses_per_sec, block.tokens_per_sec) == (0.0, 0.0)
    assert block.e2e_mean_ms == 0.001


def test_unrecorded_times_are_left_out() -> None:
    metrics = instance(record(ttft=0, e2e=4000, delay=0), record("r1"), record("r2", ttft=2000))
    block = metrics_block(metrics)
    assert block.ttft_mean_ms == 1.0
    assert block.e2e_mean_ms == 4.0
    assert block.itl_mean_ms == 0.0


def test_merging_instances() -> None:
    first = instance(
        record(ttft=1000, e2e=3000, delay=10),
        id="instance_0",
        preemptions=2,
        sim_ended=5_000_000,
        peak_used_blocks=9,
        cache_hit_rate=0.5,
        dropped_unservable=1,
        still_queued=3,
    )
    second = instance(
        record("request_1", ttft=3000, e2e=9000, delay=20),
        record("request_2", ttft=5000),
        id="instance_1",
        sim_ended=4_000_000,
        peak_used_blocks=11,
        timed_out=1,
        length_capped=1,
        thrashing_rate=0.1,
    )
    with_latencies(first, {100: 2, 200: 1})
    second.itl_values = np.array([200, 400], dtype=np.int64)
    idle = instance(id="instance_2")
    results = build_results([first, second, idle], several=True)
    assert [block.instance_id for block in results.instances] == [
        "instance_0",
        "instance_1",
        "instance_2",
    ]
    cluster = results.cluster
    assert cluster.instance_id == "cluster"
    assert (cluster.completed_requests, cluster.injected_requests) == (2, 2 + 3 + 1 + 1)
    assert (cluster.vllm_estimated_duration_s, cluster.peak_used_blocks) == (5.0, 11)
    assert cluster.ttft_mean_ms == 3.0
    assert cluster.e2e_mean_ms == 6.0
    assert cluster.itl_mean_ms == 0.2
    assert results.kv.preemption_rate == 1.0
    assert results.kv.cache_hit_rate == 0.5 / 3
    assert results.kv.thrashing_rate == 0.1 / 3
    assert results.anomalies.dropped_unservable == 1
    assert results.anomalies.timed_out == 1
    assert results.anomalies.length_capped == 1
    assert [r.id for r in results.requests] == ["request_0", "request_1", "request_2"]


def test_one_instance_has_no_block_of_its_own() -> None:
    assert build_results([instance()], several=False).instances == []


def test_nothing_at_all() -> None:
    results = build_results([], several=False)
    assert results.cluster.injected_requests == 0
    assert results.jain == 0.0
    assert merge([]).itl_values is None


def test_rejections() -> None:
    shed = {"batch": 2, "": 1}
    assert build_results([], several=False, shed_by_class=shed).anomalies.rejected_admission == 3
    anomalies = build_results([], several=False, rejected_admission=4, rejected_routing=5).anomalies
    assert (anomalies.rejected_admission, anomalies.rejected_routing) == (4, 5)


# -------------------------------------------------------------------------------------- anomalies


def test_priority_inversions_of_the_recorded_case() -> None:
    metrics, _, stdout = recorded_case("sched-slo-based-fcfs")
    assert "Priority Inversions: 4\n" in stdout
    results = build_results([metrics], several=False, priority_policy="slo-based")
    assert results.anomalies.priority_inversions == 4
    for constant in ("constant", ""):
        results = build_results([metrics], several=False, priority_policy=constant)
        assert results.anomalies.priority_inversions == 0


def test_priority_inversions_by_class_and_instance() -> None:
    slow_then_fast = [record("a", 0, ttft=0, e2e=201), record("b", 1, ttft=0, e2e=100)]
    assert priority_inversions(Columns.of(slow_then_fast)) == 1
    slow_then_fast[0].e2e = 200
    assert priority_inversions(Columns.of(slow_then_fast)) == 0
    slow_then_fast[0].e2e = 900
    slow_then_fast[0].slo_class = "batch"
    assert priority_inversions(Columns.of(slow_then_fast)) == 0
    slow_then_fast[0].slo_class = "default"  # the same as none
    assert priority_inversions(Columns.of(slow_then_fast)) == 1
    apart = [instance(slow_then_fast[0]), instance(slow_then_fast[1])]
    found = build_results(apart, several=True, priority_policy="slo-based").anomalies
    assert found.priority_inversions == 0


@given(st.lists(st.integers(0, 20), max_size=300))
def test_priority_inversions_definition(e2e: list[int]) -> None:
    requests = [record(f"r{i:03}", i // 3, ttft=0, e2e=value) for i, value in enumerate(e2e)]
    expected = sum(e2e[i] > 2 * e2e[j] for j in range(len(e2e)) for i in range(j))
    assert priority_inversions(Columns.of(requests)) == expected


def test_head_of_line_blocking() -> None:
    assert hol_blocking_events([9.0]) == 0
    assert hol_blocking_events([9.0, 0.0]) == 0  # two instances can never differ enough
    assert hol_blocking_events([9.0, 0.0, 0.0]) == 1
    assert hol_blocking_events([6.0, 3.0, 0.0]) == 0
    assert hol_blocking_events([0.0, 0.0, 0.0]) == 0
    busy = instance(queue_sum=90, queue_samples=10)
    results = build_results([busy, instance(), instance(queue_samples=5)], several=True)
    assert results.anomalies.hol_blocking_events == 1


# -------------------------------------------------------------------------------------- breakdowns


def test_classes_models_and_tenants() -> None:
    metrics = instance(
        record("a", ttft=100, e2e=200, output=3, slo_class="batch", model="m", tenant="y"),
        record("b", ttft=300, e2e=600, output=5, tenant="x"),
        record("c", ttft=500, output=9, model="m", tenant="z"),
        record("d", slo_class="never-served", model="unseen", tenant="z"),
        record("e", ttft=100, e2e=100, output=8, slo_class="critical", tenant="y"),
        sim_ended=2_000_000,
    )
    results = build_results([metrics], several=False)
    assert [entry.name for entry in results.per_slo] == ["batch", "critical", "default"]
    default = results.per_slo[2]
    assert (default.ttft.mean, default.ttft.count, default.e2e.count) == (400.0, 2, 1)
    (model,) = results.per_model
    assert (model.name, model.ttft.p50, model.e2e.count) == ("m", 300.0, 1)
    assert (model.requests_per_sec, model.tokens_per_sec) == (0.5, 1.5)
    tenants = [(entry.name, entry.requests, entry.tokens) for entry in results.per_tenant]
    assert tenants == [("x", 1, 5), ("y", 2, 11)]
    assert results.jain == 16.0**2 / (2.0 * (25.0 + 121.0))


def test_model_throughput_without_duration() -> None:
    results = build_results([instance(record(ttft=1, e2e=1, model="m"))], several=False)
    assert results.per_model[0].tokens_per_sec == 0.0


@pytest.mark.parametrize(
    ("shares", "index"), [([], 0.0), ([0, 0], 1.0), ([5, 5, 5], 1.0), ([3, 0, 0], 1 / 3)]
)
def test_jain_index(shares: list[int], index: float) -> None:
    assert jain_index(shares) == pytest.approx(index)
