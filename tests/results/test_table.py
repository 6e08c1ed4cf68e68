"""The summary for a terminal: what it shows, and that it fits."""

import io
import re

from rich.console import Console

from blis_core.cluster.decisions import DecisionLog
from blis_core.config import RunConfig
from blis_core.contracts import RoutingDecision
from blis_core.results.aggregate import build_results
from blis_core.results.model import Results
from blis_core.results.table import print_table
from tests.cluster.fleets import FixedFleet
from tests.results.records import instance, record, with_latencies


def shown(results: Results) -> str:
    """The table as plain text, 80 columns wide."""
    stream = io.StringIO()
    print_table(results, Console(file=stream, width=80, highlight=False))
    text = stream.getvalue()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    return text


def test_a_smooth_run_is_short() -> None:
    metrics = instance(
        record(ttft=12_345, e2e=1_234_567), sim_ended=2_000_000, input_tokens=10, output_tokens=5
    )
    results = build_results(
        [with_latencies(metrics, {7106: 4})], several=False, config=RunConfig(model="acme/small")
    )
    text = shown(results)
    assert "acme/small  1 of 1 requests completed in 2.00 s" in text
    assert "Time to first token" in text
    assert "12.3" in text
    assert "1,235" in text
    assert "7.11" in text
    for absent in (
        *("Troubles", "Instance", "SLO class", "Tenant", "Settings", "Model"),
        *("Fitness", "Decisions"),
    ):
        assert absent not in text


def test_everything_at_once_fits() -> None:
    instances = [
        instance(
            record(f"r{i}", ttft=10**7, e2e=10**9, tenant=f"tenant-{i}", model="m", slo_class="a"),
            record(f"s{i}", ttft=10**7, e2e=10**9, slo_class="a-rather-long-class-name"),
            id=f"instance_{i}",
            sim_ended=10**10,
            preemptions=3,
            timed_out=2,
            dropped_unservable=1,
        )
        for i in range(3)
    ]
    decisions = DecisionLog()
    decisions.admission(record(), 0, None)
    decisions.routing(
        record(), 0, RoutingDecision(2, ""), FixedFleet(*([0, 0, 0, 0] for _ in range(3)))
    )
    results = build_results(
        instances,
        several=True,
        rejected_routing=4,
        shed_by_class={"batch": 1200, "": 4, "a-rather-long-class-name": 30},
        gateway_depth=5,
        gateway_shed=6,
        fitness_weights={"throughput": 1.0, "tokens_per_sec": 0.0},
        decisions=decisions,
        config=RunConfig(model="an-organisation/with-a-long-name", summarize_trace=True),
        resolution=[("total_kv_blocks", "61048", "computed from the model and the GPU's memory")],
    )
    text = shown(results)
    for present in ("instance_2", "tenant-1", "Preemptions", "Rejected at routing", "61048"):
        assert present in text
    for present in (
        "Shed at the gateway",
        "Still waiting at the gateway",
        "Rejected at admission                      1,234   standard 4,",
        "Routed to instance_2",
        "throughput",
    ):
        assert present in text
    assert "Jain fairness index" in text
    assert "6 of 1,264 requests" in text


def on_a_terminal(results: Results) -> str:
    stream = io.StringIO()
    print_table(
        results, Console(file=stream, width=80, highlight=False, force_terminal=True, no_color=True)
    )
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def test_pictures_on_a_terminal_only() -> None:
    requests = [record(f"r{i}", i * 10**6, ttft=10_000 + i, e2e=10**6, delay=0) for i in range(10)]
    metrics = with_latencies(instance(*requests, sim_ended=20 * 10**6), {5000: 90, 9000: 10})
    results = build_results([metrics], several=False)
    text = on_a_terminal(results)
    assert "smallest to p99" in text
    assert re.search(r"Between tokens .* █ {22}▁", text)
    assert re.search(r"Arrivals +[█▄ ]+ +0 to 20.0 s", text)
    assert re.search(r"Completions  +[█▄ ]+\n", text)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "█" not in shown(results)
    assert "Arrivals" not in shown(results)


def test_no_pictures_of_nothing() -> None:
    assert "Arrivals" not in on_a_terminal(build_results([instance(record())], several=False))
    one = build_results([instance(record(ttft=5, e2e=9))], several=False)
    assert "End to end" in on_a_terminal(one)


def test_nothing_completed() -> None:
    text = shown(build_results([instance(record(), still_queued=1)], several=False))
    assert "0 of 1 requests completed" in text
    assert "Still queued at the end" in text
    assert "Latency" not in text
