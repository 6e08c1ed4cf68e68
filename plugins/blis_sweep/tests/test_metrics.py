"""The figures of a run, and common random numbers."""

from __future__ import annotations

import attrs
import pytest

from blis_core.api import simulate
from blis_core.results.model import MetricsBlock
from blis_sweep.metrics import METRICS, TROUBLE, USUAL, check_metrics, columns, measure, metric
from blis_sweep.metrics import traffic_digest as digest

SMALL = {"model": "qwen/qwen3-14b", "rate": 20, "num_requests": 30, "output_tokens": 50}
SMALL |= {"output_tokens_stdev": 20}
CLASSES = """
version: "2"
aggregate_rate: 5
num_requests: 20
clients:
- &client
  id: a
  slo_class: critical
  tenant_id: t
  rate_fraction: 0.5
  arrival: {process: poisson}
  input_distribution: {type: constant, params: {value: 50}}
  output_distribution: {type: constant, params: {value: 5}}
- {<<: *client, id: b, slo_class: batch}
"""


def test_every_figure_of_a_metrics_block_is_known():
    figures = {f.name for f in attrs.fields(MetricsBlock)} - {"instance_id"}
    assert figures <= set(METRICS)
    assert {*USUAL, TROUBLE} <= set(METRICS)


def test_figures_of_a_run():
    results = simulate(**SMALL, num_instances=2)
    found = measure(results)
    assert found["ttft_p99_ms"] == results.cluster.ttft_p99_ms
    assert found["completed_requests"] == 30
    assert found["incomplete_requests"] == found["rejected_requests"] == 0
    assert found["offered_rps"] == results.offered_rps
    assert set(found) <= set(METRICS)
    assert not {"cost", "fitness_score", "mean_regret", "pd_disaggregated"} & set(found)


@pytest.mark.parametrize(
    ("options", "incomplete", "rejected"),
    [
        ({"admission_policy": "reject-all"}, 30, 30),
        ({"horizon": 500_000}, None, 0),
        ({"max_model_len": 100}, None, 0),
    ],
)
def test_requests_that_did_not_complete(options, incomplete, rejected):
    found = measure(simulate(**SMALL, **options))
    expected = incomplete or found["injected_requests"] - found["completed_requests"]
    assert found["incomplete_requests"] == expected > 0
    assert found["rejected_requests"] == rejected


def test_figures_that_not_every_run_has():
    options = {"prefill_instances": 1, "decode_instances": 1, "pd_decider": "always"}
    found = measure(
        simulate(
            **SMALL,
            **options,
            num_instances=2,
            fitness_weights="throughput:1",
            trace_level="decisions",
        )
    )
    assert found["pd_disaggregated"] == 30
    assert found["pd_transfer_mean_ms"] > 0
    assert found["fitness_score"] > 0
    assert found["mean_regret"] == 0


def test_figures_of_groups(tmp_path):
    (tmp_path / "w.yaml").write_text(CLASSES)
    found = measure(simulate(model=SMALL["model"], workload_spec=str(tmp_path / "w.yaml")))
    extra = [name for name in found if name not in METRICS]
    assert {name.rpartition(".")[0] for name in extra} >= {"slo.critical", "slo.batch", "tenant.t"}
    check_metrics(extra, "here")
    check_metrics(["slo.critical.ttft_p99_ms", "model.a/b.responses_per_sec"], "here")
    check_metrics(["tenant.a.b.completed_requests"], "here")
    assert metric("slo.critical.ttft_p99_ms").label == "p99 TTFT of critical"
    assert metric("slo.critical.ttft_p99_ms").better == "lower"


def test_order_of_columns():
    runs = [{"cost": 1, "slo.b.e2e_mean_ms": 1}, {"ttft_mean_ms": 1, "slo.a.e2e_mean_ms": 2}]
    assert columns(runs) == ["ttft_mean_ms", "cost", "slo.a.e2e_mean_ms", "slo.b.e2e_mean_ms"]


# ------------------------------------------------------------------------ common random numbers


def traffic(**options):
    requests = simulate(**{**SMALL, **options}, trace_output="-").generated
    return [(r.arrival, r.prompt_len, r.output_len) for r in requests], digest(requests)


@pytest.mark.parametrize(
    "options",
    [
        {"num_instances": 4},
        {"num_instances": 3, "routing_policy": "weighted", "scheduler": "sjf"},
        {"latency_model": "trained-physics", "hardware": "A100-80"},
        {"admission_policy": "reject-all"},
        {"total_kv_blocks": 300},
        {"tp": 2},
    ],
)
def test_the_same_seed_gives_the_same_requests_to_every_point(options):
    requests, found = traffic(seed=5)
    others, other = traffic(seed=5, **options)
    assert len(requests) == 30
    assert others == requests
    assert other == found
    assert traffic(seed=6, **options)[1] != found


def test_another_rate_gives_the_same_lengths_at_other_times():
    (slow, one), (fast, other) = traffic(rate=10), traffic(rate=20)
    assert [r[1:] for r in slow] == [r[1:] for r in fast]
    assert one != other


def test_users_who_wait_for_answers_bring_the_same_conversations():
    closed = {"rate": None, "concurrency": 4, "num_requests": 20}
    first, second = traffic(**closed), traffic(**closed, num_instances=2)
    assert first[0] != second[0]  # later rounds arrive when there was an answer
    assert first[1] == second[1]
