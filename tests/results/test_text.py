"""The exact text on stdout."""

import attrs

from blis_core.cluster.decisions import DecisionLog, TraceSummary
from blis_core.config import RunConfig
from blis_core.contracts import RoutingDecision
from blis_core.results.aggregate import build_results
from blis_core.results.model import Anomalies, KVMetrics, MetricsBlock, Results
from blis_core.results.text import anomaly_section, render, trace_section
from tests.cluster.fleets import FixedFleet
from tests.results.records import instance, record, recorded_case, with_latencies


def test_recorded_case_with_time_outs() -> None:
    metrics, _, stdout = recorded_case("timeout-queued")
    with_latencies(metrics, {7111: 10, 10921: 1})
    assert render(build_results([metrics], several=False)) == stdout


def test_recorded_case_with_classes() -> None:
    """All but the inter-token lines, which need more than a metrics file says."""
    metrics, _, stdout = recorded_case("sched-slo-based-fcfs")
    text = render(build_results([metrics], several=False, priority_policy="slo-based"))

    def lines(whole: str) -> list[str]:
        return [line for line in whole.splitlines() if '"itl_' not in line]

    assert lines(text) == lines(stdout)


def test_blocks_of_several_instances_come_first() -> None:
    text = render(build_results([instance(id="a"), instance(id="b")], several=True))
    ids = [line for line in text.splitlines() if "instance_id" in line]
    assert ids == [f'  "instance_id": "{name}",' for name in ("a", "b", "cluster")]
    assert text.count("=== Simulation Metrics ===\n{\n") == 3
    assert text.endswith('"timed_out_requests": 0\n}\n')


def test_all_anomalies() -> None:
    found = Anomalies(
        priority_inversions=1,
        hol_blocking_events=2,
        rejected_admission=12,
        shed_by_class={"sheddable": 5, "": 3, "batch": 4, "never": 0},
        rejected_routing=6,
        dropped_unservable=7,
        timed_out=8,
        length_capped=9,
        gateway_depth=10,
        gateway_shed=11,
    )
    common = [
        "=== Anomaly Counters ===",
        "Priority Inversions: 1",
        "HOL Blocking Events: 2",
        "Rejected Requests (Admission): 12",
        "  Shed (batch): 4",
        "  Shed (sheddable): 5",
        "  Shed (standard): 3",
        "Rejected Requests (Routing): 6",
        "Dropped Unservable: 7",
    ]
    assert list(anomaly_section(found, replay=False)) == [
        *common,
        "Timed Out Requests: 8",
        "Length-Capped Requests: 9",
        "Gateway Queue Depth (horizon): 10",
        "Gateway Queue Shed: 11",
    ]
    assert list(anomaly_section(found, replay=True)) == [*common, "Length-Capped Requests: 9"]


def test_what_triggers_the_anomalies() -> None:
    for field in attrs.fields(Anomalies):
        if field.name == "shed_by_class":
            continue
        found = Anomalies(**{field.name: 1})
        assert any(anomaly_section(found, replay=False))
        only_run = field.name in ("timed_out", "gateway_depth", "gateway_shed")
        assert any(anomaly_section(found, replay=True)) != only_run
    assert not any(anomaly_section(Anomalies(), replay=False))


def test_kv_models_and_tenants() -> None:
    metrics = instance(
        record("a", ttft=100, e2e=200, output=3, model="m", tenant="y", slo_class="batch"),
        record("b", ttft=300, e2e=600, output=5, model="m", tenant="x", slo_class="batch"),
        sim_ended=2_000_000,
        preemptions=1,
        cache_hit_rate=1 / 3,
    )
    text = render(build_results([metrics], several=False))
    assert text[text.index("}\n") + 2 :] == (
        "=== KV Cache Metrics ===\n"
        "Preemption Rate: 0.5000\n"
        "Cache Hit Rate: 0.3333\n"
        "KV Thrashing Rate: 0.0000\n"
        "=== Per-Model Metrics ===\n"
        "  m:\n"
        "    TTFT: p50=200.00 p99=298.00 (n=2)\n"
        "    E2E:  p50=400.00 p99=596.00 (n=2)\n"
        "    Throughput: 1.00 req/s, 4.00 tok/s\n"
        "=== Per-Tenant Metrics ===\n"
        "  x: requests=1, tokens=5\n"
        "  y: requests=1, tokens=3\n"
        "  Jain Fairness Index: 0.9412\n"
    )


def test_kv_section_needs_a_rate() -> None:
    def text(**rates: float) -> str:
        block = MetricsBlock(instance_id="cluster")
        return render(Results(cluster=block, kv=KVMetrics(**rates)))

    assert "KV" not in text()
    assert "KV Thrashing Rate: 0.2500\n" in text(thrashing_rate=0.25)


def traced() -> DecisionLog:
    log = DecisionLog(counterfactual_k=1)
    fleet = FixedFleet(*([0, 0, load, 0] for load in range(11)))
    for number in (2, 10, 2):
        log.admission(record(), 0, None)
        log.routing(record(), 0, RoutingDecision(number, ""), fleet)
    log.admission(record(), 0, "reject-all")
    return log


def test_trace_summary() -> None:
    assert list(trace_section(traced().summary())) == [
        "=== Trace Summary ===",
        "Total Decisions: 4",
        "  Admitted: 3",
        "  Rejected: 1",
        "Unique Targets: 2",
        "Target Distribution:",
        "  instance_10: 1",
        "  instance_2: 2",
        "Mean Regret: 4.666667",
        "Max Regret: 10.000000",
    ]
    assert list(trace_section(TraceSummary(total=1, rejected=1)))[4:] == [
        "Unique Targets: 0",
        "Mean Regret: 0.000000",
        "Max Regret: 0.000000",
    ]


def test_the_trace_summary_is_printed_on_demand() -> None:
    for asked in (False, True):
        config = RunConfig(model="acme/small", summarize_trace=asked)
        for decisions in (None, traced()):
            results = build_results([instance()], several=False, decisions=decisions, config=config)
            assert ("Trace" in render(results)) == (asked and decisions is not None)
            assert render(results, replay=True) == render(results)
    assert "Trace" not in render(build_results([instance()], several=False, decisions=traced()))
