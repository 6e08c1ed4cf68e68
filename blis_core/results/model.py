"""Results of a run as plain data. Renderers and reports read these and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from blis_core.records import Record
from blis_core.results.request_list import CompactRequests, RequestList, column

if TYPE_CHECKING:
    from blis_core.accuracy import Accuracy
    from blis_core.cluster.decisions import DecisionLog, TraceSummary
    from blis_core.config import SimulationConfig
    from blis_core.contracts import FloatArray, IntArray, Request
    from blis_core.recording.tables import Recording
    from blis_core.results.parts import Fitness, FleetReport, PDMetrics


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MetricsBlock(Record):
    """Figures of one instance or of the whole cluster.

    Fields stand in the order of the reference's JSON object. Those marked ``extra`` are not part
    of it. If nothing completed, rates and latencies are 0.
    """

    instance_id: str
    completed_requests: int = 0
    still_queued: int = 0
    still_running: int = 0
    injected_requests: int = 0
    """completed + queued + running + dropped + timed out."""
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    vllm_estimated_duration_s: float = 0.0
    responses_per_sec: float = 0.0
    tokens_per_sec: float = 0.0
    """Output tokens per second."""
    e2e_mean_ms: float = 0.0
    e2e_p50_ms: float = attrs.field(default=0.0, metadata={"extra": True})
    e2e_p90_ms: float = 0.0
    e2e_p95_ms: float = 0.0
    e2e_p99_ms: float = 0.0
    ttft_mean_ms: float = 0.0
    ttft_p50_ms: float = attrs.field(default=0.0, metadata={"extra": True})
    ttft_p90_ms: float = 0.0
    ttft_p95_ms: float = 0.0
    ttft_p99_ms: float = 0.0
    itl_mean_ms: float = 0.0
    itl_p50_ms: float = attrs.field(default=0.0, metadata={"extra": True})
    itl_p90_ms: float = 0.0
    itl_p95_ms: float = 0.0
    itl_p99_ms: float = 0.0
    scheduling_delay_p99_ms: float = 0.0
    kv_allocation_failures: int = attrs.field(default=0, metadata={"omit_zero": True})
    preemption_count: int = 0
    dropped_unservable: int = 0
    length_capped_requests: int = 0
    timed_out_requests: int = 0
    peak_used_blocks: int = attrs.field(default=0, metadata={"extra": True})
    """Most KV blocks in use at once (the fullest instance)."""

    def reference_items(self) -> dict[str, Any]:
        """Exactly the keys and values of the reference's JSON object, in its order."""
        return {
            field.name: value
            for field in attrs.fields(MetricsBlock)
            if not field.metadata.get("extra")
            and ((value := getattr(self, field.name)) or not field.metadata.get("omit_zero"))
        }


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Distribution(Record):
    """Summary of a set of times in us."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    count: int = 0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Anomalies(Record):
    """Counters of what went wrong, over the whole cluster."""

    priority_inversions: int = 0
    hol_blocking_events: int = 0
    """Instances whose mean wait queue is more than twice the average."""
    rejected_admission: int = 0
    shed_by_class: dict[str, int] = attrs.field(factory=dict)
    """Rejections at admission by SLO class."""
    rejected_routing: int = 0
    dropped_unservable: int = 0
    timed_out: int = 0
    length_capped: int = 0
    gateway_depth: int = 0
    """Requests that waited at the gateway when the simulation ended."""
    gateway_shed: int = 0
    lost_in_drain: int = 0
    """Requests that waited on an instance that was drained at once."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class KVMetrics(Record):
    """KV cache figures of the whole cluster."""

    preemption_rate: float = 0.0
    """Preemptions per completed request."""
    cache_hit_rate: float = 0.0
    """Mean over the instances, in [0, 1]."""
    thrashing_rate: float = 0.0
    """Mean over the instances, in [0, 1]."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClassMetrics(Record):
    """Latencies of one SLO class."""

    name: str
    ttft: Distribution
    e2e: Distribution


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelMetrics(Record):
    """Latencies and throughput of one model."""

    name: str
    ttft: Distribution
    e2e: Distribution
    requests_per_sec: float
    tokens_per_sec: float
    """Declared output tokens of completed requests per second."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TenantMetrics(Record):
    """What one tenant got."""

    name: str
    requests: int
    """Completed requests."""
    tokens: int
    """Their declared output tokens."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Results(Record):
    """Everything that a finished run says."""

    instances: list[MetricsBlock] = attrs.field(factory=list)
    """One block per instance, in order of construction; empty if one instance was asked for."""
    cluster: MetricsBlock
    anomalies: Anomalies = attrs.field(factory=Anomalies)
    kv: KVMetrics = attrs.field(factory=KVMetrics)
    per_slo: list[ClassMetrics] = attrs.field(factory=list)
    """Every SLO class with recorded times, by name."""
    per_model: list[ModelMetrics] = attrs.field(factory=list)
    """Every model named by a request with recorded times, by name."""
    per_tenant: list[TenantMetrics] = attrs.field(factory=list)
    """Every tenant with completed requests, by name."""
    jain: float = 1.0
    """Jain fairness index over the tenants' tokens, in [0, 1]."""
    pd: PDMetrics | None = None
    """If a request was disaggregated."""
    fitness: Fitness | None = None
    """If weights were given."""
    trace: TraceSummary | None = None
    """If decisions were recorded."""
    in_transit: int = 0
    """Requests that were on their way to a wait queue when the simulation ended."""
    sessions: dict[str, int] = attrs.field(factory=dict)
    """Closed-loop sessions by what became of them, if there were any: active, completed,
    cancelled, budget-exhausted, horizon-interrupted, cut (a request of theirs was turned away)."""
    fleet: FleetReport | None = None
    """If instances could come and go."""
    decisions: DecisionLog | None = attrs.field(default=None, repr=False)
    """If decisions were recorded; one by one only with ``simulate(..., keep_decisions=True)``."""
    requests: RequestList | CompactRequests = attrs.field(factory=RequestList, repr=False)
    """Records: requests that reached an instance and were not dropped. A list, which also comes as
    numpy arrays (``requests.arrays()``) and as a pandas frame (``requests.frame()``)."""
    itl: tuple[IntArray, IntArray | FloatArray] | None = attrs.field(
        default=None, eq=False, repr=False
    )
    """Inter-token latencies (us) of completed requests, and how often each of them occurred."""
    generated: list[Request] = attrs.field(factory=list, repr=False)
    """The initial requests in order of injection, then follow-ups of sessions in order of
    creation, whatever became of them. What a trace export writes."""
    workload_seed: int = 0
    resolution: list[tuple[str, str, str]] = attrs.field(factory=list)
    """Settings that were derived: (name, value, where it came from)."""
    warnings: list[str] = attrs.field(factory=list)
    """What was warned of while the run was set up, and why the latency model's predictions may be
    less accurate than usual."""
    cautions: list[str] = attrs.field(factory=list)
    """What makes the figures misleading, each as ``name: what happened, why it matters, what to
    do``; see :mod:`blis_core.results.trust`."""
    accuracy: Accuracy | None = None
    """How far the latencies can be trusted, if the latency model knows."""
    config: SimulationConfig | None = attrs.field(default=None, repr=False)
    """What was asked for."""
    recording: Recording | None = attrs.field(default=None, repr=False)
    """If the run was taken down."""

    @property
    def offered_rps(self) -> float:
        """Requests per second between the first and the last arrival, of those in ``requests``;
        0 for fewer than two."""
        if not self.requests:
            return 0.0
        arrivals = column(self.requests, "arrival")
        span = int(arrivals.max() - arrivals.min())
        return (len(arrivals) - 1) * 1e6 / span if span else 0.0

    def to_json(self) -> str:
        """The document that ``--output json`` prints, newline included."""
        from blis_core.results.as_json import render

        return render(self)

    @property
    def summarize_trace(self) -> bool:
        """Whether the summary of the decisions is to be printed."""
        return self.config is not None and self.config.summarize_trace
