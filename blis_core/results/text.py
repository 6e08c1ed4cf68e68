"""The reference's text on stdout, byte for byte (specification 08, section 10).

Each section is a function that returns its lines, none if the section does not apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import float_info
from typing import TYPE_CHECKING

from blis_core.results.numbers import fixed, json_text

if TYPE_CHECKING:
    from blis_core.cluster.decisions import TraceSummary
    from blis_core.results.model import (
        Anomalies,
        Distribution,
        MetricsBlock,
        Results,
    )
    from blis_core.results.parts import Fitness, PDMetrics


def render(results: Results, *, replay: bool = False) -> str:
    """Everything that ``run`` (or ``replay``) prints about ``results``, newline included."""
    lines: list[str] = []
    for block in (*results.instances, results.cluster):
        lines.extend(metrics_section(block))
    if results.fitness is not None and not replay:
        lines.extend(fitness_section(results.fitness))
    lines.extend(anomaly_section(results.anomalies, replay=replay))
    lines.extend(kv_section(results))
    lines.extend(slo_section(results))
    lines.extend(model_section(results))
    lines.extend(tenant_section(results))
    if results.pd is not None:
        lines.extend(pd_section(results.pd))
    if results.trace is not None and results.summarize_trace:
        lines.extend(trace_section(results.trace))
    return "".join(line + "\n" for line in lines)


def metrics_section(block: MetricsBlock) -> Iterator[str]:
    """The figures of an instance or of the cluster, as JSON."""
    yield "=== Simulation Metrics ==="
    yield json_text(block.reference_items())


def fitness_section(fitness: Fitness) -> Iterator[str]:
    """The score, and what it is made of."""
    yield "=== Fitness Evaluation ==="
    yield f"Score: {fixed(fitness.score, 6)}"
    for name in sorted(fitness.components):
        yield f"  {name}: {fixed(fitness.components[name], 6)}"


def anomaly_section(found: Anomalies, *, replay: bool) -> Iterator[str]:
    """What went wrong. ``replay`` leaves out time-outs and the gateway, also as a trigger."""
    triggers = [
        found.priority_inversions,
        found.hol_blocking_events,
        found.rejected_admission,
        found.rejected_routing,
        found.dropped_unservable,
        found.length_capped,
    ]
    if not replay:
        triggers += [found.gateway_depth, found.gateway_shed, found.timed_out]
    triggers.append(found.lost_in_drain)
    if not any(count > 0 for count in triggers):
        return
    yield "=== Anomaly Counters ==="
    yield f"Priority Inversions: {found.priority_inversions}"
    yield f"HOL Blocking Events: {found.hol_blocking_events}"
    yield f"Rejected Requests (Admission): {found.rejected_admission}"
    shed: dict[str, int] = {}
    for name, count in found.shed_by_class.items():
        shed[name or "standard"] = shed.get(name or "standard", 0) + count
    for name in sorted(shed):
        if shed[name]:
            yield f"  Shed ({name}): {shed[name]}"
    yield f"Rejected Requests (Routing): {found.rejected_routing}"
    yield f"Dropped Unservable: {found.dropped_unservable}"
    if not replay:
        yield f"Timed Out Requests: {found.timed_out}"
    yield f"Length-Capped Requests: {found.length_capped}"
    if not replay and found.gateway_depth > 0:
        yield f"Gateway Queue Depth (horizon): {found.gateway_depth}"
    if not replay and found.gateway_shed > 0:
        yield f"Gateway Queue Shed: {found.gateway_shed}"
    if found.lost_in_drain > 0:  # a count that the reference does not keep (07-Q20)
        yield f"Lost in Drain: {found.lost_in_drain}"


def kv_section(results: Results) -> Iterator[str]:
    """KV cache rates."""
    kv = results.kv
    if kv.preemption_rate or kv.cache_hit_rate or kv.thrashing_rate:
        yield "=== KV Cache Metrics ==="
        yield f"Preemption Rate: {fixed(kv.preemption_rate, 4)}"
        yield f"Cache Hit Rate: {fixed(kv.cache_hit_rate, 4)}"
        yield f"KV Thrashing Rate: {fixed(kv.thrashing_rate, 4)}"


def _means(times: Distribution) -> str:
    return f"mean={fixed(times.mean, 2)} p99={fixed(times.p99, 2)} (n={times.count})"


def _medians(times: Distribution) -> str:
    return f"p50={fixed(times.p50, 2)} p99={fixed(times.p99, 2)} (n={times.count})"


def slo_section(results: Results) -> Iterator[str]:
    """Latencies in us by SLO class, if there is more than one."""
    if len(results.per_slo) < 2:
        return
    yield "=== Per-SLO Metrics ==="
    for entry in results.per_slo:
        yield f"  {entry.name}:"
        yield f"    TTFT: {_means(entry.ttft)}"
        yield f"    E2E:  {_means(entry.e2e)}"


def model_section(results: Results) -> Iterator[str]:
    """Latencies in us and throughput by model, for requests that name one."""
    if not results.per_model:
        return
    yield "=== Per-Model Metrics ==="
    for entry in results.per_model:
        yield f"  {entry.name}:"
        yield f"    TTFT: {_medians(entry.ttft)}"
        yield f"    E2E:  {_medians(entry.e2e)}"
        yield (
            f"    Throughput: {fixed(entry.requests_per_sec, 2)} req/s, "
            f"{fixed(entry.tokens_per_sec, 2)} tok/s"
        )


def tenant_section(results: Results) -> Iterator[str]:
    """Completed requests and tokens by tenant, and how evenly the tokens are spread."""
    if not results.per_tenant:
        return
    yield "=== Per-Tenant Metrics ==="
    for entry in results.per_tenant:
        yield f"  {entry.name}: requests={entry.requests}, tokens={entry.tokens}"
    yield f"  Jain Fairness Index: {fixed(results.jain, 4)}"


def pd_section(pd: PDMetrics) -> Iterator[str]:
    """How the pools for prefill and decode did."""
    yield "=== PD Metrics ==="
    yield f"Disaggregated Requests: {pd.disaggregated}"
    yield f"Dropped at Decode KV: {pd.dropped_at_decode}"
    yield f"Prefill Throughput: {fixed(pd.prefill_throughput, 4)} sub-req/s"
    yield f"Decode Throughput: {fixed(pd.decode_throughput, 4)} sub-req/s"
    if pd.load_imbalance == float_info.max:
        yield "Load Imbalance Ratio: inf (one pool idle)"
    else:
        yield f"Load Imbalance Ratio: {fixed(pd.load_imbalance, 4)}"
    for label, times in (("Parent TTFT", pd.ttft), ("KV Transfer Duration", pd.transfer)):
        if times.count:
            figures = " ".join(
                f"{name}={fixed(getattr(times, name), 1)}" for name in ("mean", "p50", "p95", "p99")
            )
            yield f"{label} (us): {figures}"
    if pd.contention:
        yield f"Peak Concurrent Transfers: {pd.peak_transfers}"
        yield f"Mean Transfer Queue Depth: {fixed(pd.mean_transfers, 4)}"


def trace_section(trace: TraceSummary) -> Iterator[str]:
    """Totals of the recorded decisions."""
    yield "=== Trace Summary ==="
    yield f"Total Decisions: {trace.total}"
    yield f"  Admitted: {trace.admitted}"
    yield f"  Rejected: {trace.rejected}"
    yield f"Unique Targets: {len(trace.targets)}"
    if trace.targets:
        yield "Target Distribution:"
        for name in sorted(trace.targets):
            yield f"  {name}: {trace.targets[name]}"
    yield f"Mean Regret: {fixed(trace.mean_regret, 6)}"
    yield f"Max Regret: {fixed(trace.max_regret, 6)}"
