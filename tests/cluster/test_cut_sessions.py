"""A session whose request is turned away ends silently in the figures; the results say so."""

from __future__ import annotations

from blis_core.api import simulate

SPEC = """
version: "2"
seed: 3
aggregate_rate: 20
num_requests: 30
clients:
  - id: talk
    rate_fraction: 1
    slo_class: batch
    arrival: {process: constant}
    input_distribution: {type: constant, params: {value: 40}}
    output_distribution: {type: constant, params: {value: 20}}
    reasoning:
      reason_ratio_distribution: {type: constant, params: {value: 1}}
      multi_turn: {max_rounds: 3, think_time_us: 1000}
"""


def run(tmp_path, **options):
    path = tmp_path / "talk.yaml"
    path.write_text(SPEC)
    return simulate(model="qwen/qwen3-14b", workload_spec=str(path), **options)


def test_every_session_is_accounted_for(tmp_path):
    full = run(tmp_path)
    cut = run(tmp_path, admission_policy="token-bucket", token_bucket_capacity=100.0)
    assert full.sessions["cut"] == 0
    assert full.sessions["completed"] == sum(full.sessions.values())
    assert cut.sessions["cut"] == cut.anomalies.rejected_admission > 0
    assert sum(cut.sessions.values()) == sum(full.sessions.values())
    assert cut.cluster.completed_requests < full.cluster.completed_requests


def test_nothing_is_said_without_sessions():
    assert simulate(model="qwen/qwen3-14b", num_requests=2).sessions == {}


def test_a_warning_tells_it_where_the_text_does_not(tmp_path, capsys):
    run(tmp_path)
    assert "sessions were cut" not in capsys.readouterr().err
    counts = run(tmp_path, admission_policy="token-bucket", token_bucket_capacity=100.0).sessions
    told = f"{counts['cut']} of {sum(counts.values())} sessions were cut"
    assert told in capsys.readouterr().err


def test_who_is_on_the_way_at_the_horizon_is_counted():
    """At admission, at routing, and on the way into a wait queue."""
    for latencies in ({}, {"admission_latency": 700_000}, {"routing_latency": 700_000}):
        results = simulate(
            model="qwen/qwen3-14b",
            rate=20.0,
            num_requests=40,
            horizon=1_000_000,
            latency_model="blackbox",
            alpha_coeffs=[200_000.0, 0.0, 0.0],
            beta_coeffs=[5000.0, 20.0, 50.0],
            total_kv_blocks=2000,
            **latencies,
        )
        arrived = 20  # at 50 ms, 100 ms and so on, up to the horizon
        assert results.in_transit > 0
        assert results.cluster.injected_requests + results.in_transit == arrived
