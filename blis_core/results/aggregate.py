"""From the engine's raw material to results: blocks, anomalies, breakdowns.

Requests are turned into numpy columns once per instance; the cluster's columns are the instances'
ones, concatenated. Orders of summation follow the specification, so figures match to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from blis_core.results import breakdown
from blis_core.results.columns import Columns
from blis_core.results.model import KVMetrics, MetricsBlock, Results
from blis_core.results.request_list import CompactRequests, RequestList, joined
from blis_core.results.statistics import WeightedIntegers, mean_ms, percentile_ms, plain_sum
from blis_core.results.trust import Situation, cautions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from blis_core.accuracy import Accuracy
    from blis_core.cluster.decisions import DecisionLog
    from blis_core.cluster.disaggregation import Disaggregation
    from blis_core.config import SimulationConfig
    from blis_core.contracts import FloatArray, IntArray, Request
    from blis_core.engine.metrics import InstanceMetrics
    from blis_core.results.parts import Fitness, FleetReport, PDMetrics


def build_results(
    instances: Sequence[InstanceMetrics],
    *,
    several: bool,
    priority_policy: str = "constant",
    shed_by_class: Mapping[str, int] | None = None,
    rejected_admission: int | None = None,
    rejected_routing: int = 0,
    gateway_depth: int = 0,
    gateway_shed: int = 0,
    drained: int = 0,
    fleet: FleetReport | None = None,
    in_transit: int = 0,
    fitness_weights: Mapping[str, float] | None = None,
    disaggregation: Disaggregation | None = None,
    decisions: DecisionLog | None = None,
    sessions: Mapping[str, int] | None = None,
    generated: list[Request] | None = None,
    workload_seed: int = 0,
    resolution: list[tuple[str, str, str]] | None = None,
    warnings: list[str] | None = None,
    accuracy: Accuracy | None = None,
    config: SimulationConfig | None = None,
    situation: Situation | None = None,
) -> Results:
    """Results of a finished run.

    ``instances`` in order of construction. ``several`` says whether more than one was asked for
    (the reference prints instance blocks only then). ``shed_by_class`` counts admission
    rejections by SLO class; ``rejected_admission`` is their sum unless given. Without
    ``fitness_weights`` no fitness is computed, without ``situation`` there are no cautions.
    """
    columns = [Columns.of(metrics.records) for metrics in instances]
    total = merge(instances)
    pd: PDMetrics | None = None
    if disaggregation is not None and disaggregation.parents:
        from blis_core.results.disaggregation import correct, pd_metrics

        correct(total, disaggregation)
        pd = pd_metrics(disaggregation, instances, total)
        union = Columns.of(total.requests)
    else:
        union = Columns.concatenate(columns)
    shed = dict(shed_by_class or {})
    tenants = breakdown.per_tenant(union)
    cluster = metrics_block(total, union)
    fitness: Fitness | None = None
    if fitness_weights:
        from blis_core.results.fitness import fitness as score

        fitness = score(fitness_weights, cluster, *breakdown.latencies(union))
    records = total.records
    results = Results(
        instances=[
            metrics_block(metrics, column)
            for metrics, column in zip(instances, columns, strict=True)
            if several
        ],
        cluster=cluster,
        anomalies=attrs.evolve(
            breakdown.anomalies(instances, columns, priority_policy),
            dropped_unservable=total.dropped_unservable,
            rejected_admission=(
                sum(shed.values()) if rejected_admission is None else rejected_admission
            ),
            shed_by_class=shed,
            rejected_routing=rejected_routing,
            gateway_depth=gateway_depth,
            gateway_shed=gateway_shed,
            lost_in_drain=drained,
        ),
        fleet=fleet,
        kv=KVMetrics(
            preemption_rate=total.preemptions / total.completed if total.completed else 0.0,
            cache_hit_rate=total.cache_hit_rate,
            thrashing_rate=total.thrashing_rate,
        ),
        per_slo=breakdown.per_slo(union),
        per_model=breakdown.per_model(union, total.sim_ended),
        per_tenant=tenants,
        fitness=fitness,
        pd=pd,
        trace=decisions.summary() if decisions is not None else None,
        decisions=decisions,
        in_transit=in_transit,
        sessions=dict(sessions or {}),
        jain=breakdown.jain_index([tenant.tokens for tenant in tenants]),
        requests=records if isinstance(records, CompactRequests) else RequestList(records),
        itl=_itl_pairs(total),
        generated=generated if generated is not None else [],
        workload_seed=workload_seed,
        resolution=resolution if resolution is not None else [],
        warnings=warnings if warnings is not None else [],
        accuracy=accuracy,
        config=config,
    )
    if situation is not None:
        results.cautions.extend(cautions(results, instances, columns, situation))
    return results


def merge(instances: Sequence[InstanceMetrics]) -> InstanceMetrics:
    """The cluster's raw material: sums, the latest end, the highest peak, mean cache rates."""
    from blis_core.engine.metrics import InstanceMetrics

    total = InstanceMetrics("cluster")
    for metrics in instances:
        for counter in _SUMMED:
            setattr(total, counter, getattr(total, counter) + getattr(metrics, counter))
        total.sim_ended = max(total.sim_ended, metrics.sim_ended)
        total.peak_used_blocks = max(total.peak_used_blocks, metrics.peak_used_blocks)
    if instances:
        n = float(len(instances))
        total.cache_hit_rate = plain_sum(m.cache_hit_rate for m in instances) / n
        total.thrashing_rate = plain_sum(m.thrashing_rate for m in instances) / n
    records = joined([metrics.records for metrics in instances])
    if isinstance(records, list):
        total.requests = records
    else:
        total.archive = records
    pairs = [_itl_pairs(metrics) for metrics in instances]
    if len(pairs) == 1:
        ((total.itl_values, total.itl_weights),) = pairs
    elif pairs:
        total.itl_values = np.concatenate([values for values, _ in pairs])
        total.itl_weights = np.concatenate([weights for _, weights in pairs])
    return total


_SUMMED = (
    "completed",
    "still_queued",
    "still_running",
    "input_tokens",
    "output_tokens",
    "dropped_unservable",
    "timed_out",
    "length_capped",
    "preemptions",
    "kv_allocation_failures",
    "queue_sum",
    "queue_samples",
)


def _itl_pairs(metrics: InstanceMetrics) -> tuple[IntArray, IntArray | FloatArray]:
    """Inter-token latencies and multiplicities, both present."""
    values = metrics.itl_values
    if values is None:
        values = np.zeros(0, dtype=np.int64)
    weights = metrics.itl_weights
    if weights is None:
        weights = np.ones(len(values), dtype=np.int64)
    return values, weights


def metrics_block(metrics: InstanceMetrics, columns: Columns | None = None) -> MetricsBlock:
    """The figures of one instance or of the cluster (``columns`` of its requests, if at hand)."""
    if columns is None:
        columns = Columns.of(metrics.records)
    block = MetricsBlock(
        instance_id=metrics.instance_id,
        completed_requests=metrics.completed,
        still_queued=metrics.still_queued,
        still_running=metrics.still_running,
        injected_requests=metrics.injected,
        total_input_tokens=metrics.input_tokens,
        total_output_tokens=metrics.output_tokens,
        vllm_estimated_duration_s=float(metrics.sim_ended) / 1e6,
        kv_allocation_failures=metrics.kv_allocation_failures,
        preemption_count=metrics.preemptions,
        dropped_unservable=metrics.dropped_unservable,
        length_capped_requests=metrics.length_capped,
        timed_out_requests=metrics.timed_out,
        peak_used_blocks=metrics.peak_used_blocks,
    )
    if not metrics.completed:
        return block  # reference quirk 08-12: first tokens alone do not count
    duration = block.vllm_estimated_duration_s
    ttft = _recorded(columns.ttft)
    e2e = _recorded(columns.e2e)
    itl = WeightedIntegers(*_itl_pairs(metrics))
    return attrs.evolve(
        block,
        responses_per_sec=float(metrics.completed) / duration if duration else 0.0,
        tokens_per_sec=float(metrics.output_tokens) / duration if duration else 0.0,
        e2e_mean_ms=mean_ms(e2e),
        e2e_p50_ms=percentile_ms(e2e, 50),
        e2e_p90_ms=percentile_ms(e2e, 90),
        e2e_p95_ms=percentile_ms(e2e, 95),
        e2e_p99_ms=percentile_ms(e2e, 99),
        ttft_mean_ms=mean_ms(ttft),
        ttft_p50_ms=percentile_ms(ttft, 50),
        ttft_p90_ms=percentile_ms(ttft, 90),
        ttft_p95_ms=percentile_ms(ttft, 95),
        ttft_p99_ms=percentile_ms(ttft, 99),
        itl_mean_ms=itl.mean_ms(),
        itl_p50_ms=itl.percentile_ms(50),
        itl_p90_ms=itl.percentile_ms(90),
        itl_p95_ms=itl.percentile_ms(95),
        itl_p99_ms=itl.percentile_ms(99),
        scheduling_delay_p99_ms=percentile_ms(_recorded(columns.scheduling_delay), 99),
    )


def _recorded(times: IntArray) -> FloatArray:
    """The recorded (non-negative) times of a column, ascending, as floats."""
    return np.sort(times[times >= 0]).astype(np.float64)
