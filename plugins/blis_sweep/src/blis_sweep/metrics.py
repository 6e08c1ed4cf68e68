"""The figures of a run: what they are called, their units, and how they come out of the results."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from blis_core.api import BlisError

if TYPE_CHECKING:
    from blis_core.api import Request, Results

Values = dict[str, float]
"""Figures by name; whole numbers are ints."""
Better = Literal["lower", "higher", ""]


@attrs.frozen
class Metric:
    """One figure of a run."""

    label: str
    unit: str = ""
    better: Better = ""
    """What one would rather have; "" = it is neither good nor bad."""


_NAMES: Final = {"ttft": "TTFT", "itl": "ITL", "e2e": "E2E"}
_STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99")

METRICS: Final[dict[str, Metric]] = {
    "completed_requests": Metric("completed requests", better="higher"),
    "incomplete_requests": Metric("incomplete requests", better="lower"),
    "rejected_requests": Metric("rejected requests", better="lower"),
    "timed_out_requests": Metric("timed out requests", better="lower"),
    "dropped_unservable": Metric("dropped requests", better="lower"),
    "length_capped_requests": Metric("length-capped requests", better="lower"),
    "still_queued": Metric("still queued", better="lower"),
    "still_running": Metric("still running"),
    "injected_requests": Metric("injected requests"),
    "offered_rps": Metric("offered", "requests/s"),
    "responses_per_sec": Metric("throughput", "requests/s", "higher"),
    "tokens_per_sec": Metric("output", "tokens/s", "higher"),
    "total_input_tokens": Metric("input tokens"),
    "total_output_tokens": Metric("output tokens"),
    "vllm_estimated_duration_s": Metric("duration", "s", "lower"),
    **{
        f"{key}_{statistic}_ms": Metric(f"{statistic} {name}", "ms", "lower")
        for key, name in _NAMES.items()
        for statistic in _STATISTICS
    },
    "scheduling_delay_p99_ms": Metric("p99 scheduling delay", "ms", "lower"),
    "cache_hit_rate": Metric("cache hit rate", better="higher"),
    "preemption_count": Metric("preemptions", better="lower"),
    "preemption_rate": Metric("preemptions per request", better="lower"),
    "thrashing_rate": Metric("thrashing rate", better="lower"),
    "kv_allocation_failures": Metric("KV allocation failures", better="lower"),
    "peak_used_blocks": Metric("peak KV blocks"),
    "jain_fairness_index": Metric("Jain fairness", better="higher"),
    "fitness_score": Metric("fitness", better="higher"),
    "mean_regret": Metric("mean regret", better="lower"),
    "max_regret": Metric("largest regret", better="lower"),
    "pd_disaggregated": Metric("disaggregated requests"),
    "pd_ttft_p99_ms": Metric("p99 TTFT of disaggregated", "ms", "lower"),
    "pd_transfer_mean_ms": Metric("mean KV transfer", "ms", "lower"),
    "pd_transfer_p99_ms": Metric("p99 KV transfer", "ms", "lower"),
    "most_instances": Metric("most instances", better="lower"),
    "gpu_seconds": Metric("GPU time", "s", "lower"),
    "cost": Metric("cost", better="lower"),
}
"""Figures by name, in the order of columns."""

USUAL: Final = ("responses_per_sec", "ttft_p99_ms", "itl_mean_ms", "e2e_p99_ms")
"""Figures of the table, unless others are asked for."""
TROUBLE: Final = "incomplete_requests"
"""The figure that joins them if it is not 0 everywhere."""

_GROUPS: Final = {
    "slo": ("ttft_mean_ms", "ttft_p99_ms", "e2e_mean_ms", "e2e_p99_ms"),
    "model": ("ttft_mean_ms", "ttft_p99_ms", "e2e_mean_ms", "e2e_p99_ms", "responses_per_sec"),
    "tenant": ("completed_requests", "total_output_tokens"),
}
"""Figures by group of requests: ``slo.CLASS.FIGURE`` and so on."""


def metric(name: str) -> Metric:
    """What is known about a figure, those of groups of requests included."""
    group, _, rest = name.partition(".")
    if group not in _GROUPS:
        return METRICS.get(name) or Metric(name)
    member, _, figure = rest.rpartition(".")
    known = METRICS[figure]
    return attrs.evolve(known, label=f"{known.label} of {member}")


def check_metrics(names: Iterable[str], where: str) -> None:
    """Raise BlisError for a name that no figure can have."""
    for name in names:
        group, _, rest = name.partition(".")
        if name in METRICS or rest.rpartition(".")[2] in _GROUPS.get(group, ()):
            continue
        close = difflib.get_close_matches(name, METRICS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(METRICS)}"
        raise BlisError(f"{where}: there is no metric {name!r}; {hint}")


def measure(results: Results) -> Values:
    """All figures of a finished run. Those of parts that it did not have are left out."""
    cluster, found = results.cluster, results.anomalies
    values: Values = {
        field.name: value
        for field in attrs.fields(type(cluster))
        if isinstance(value := getattr(cluster, field.name), int | float)
    }
    rejected = found.rejected_admission + found.rejected_routing + found.gateway_shed
    waiting = found.gateway_depth + found.lost_in_drain + results.in_transit
    values["rejected_requests"] = rejected
    values["incomplete_requests"] = (
        cluster.injected_requests - cluster.completed_requests + rejected + waiting
    )
    values["offered_rps"] = results.offered_rps
    for name in ("cache_hit_rate", "preemption_rate", "thrashing_rate"):
        values[name] = getattr(results.kv, name)
    values.update(_of_parts(results))
    values.update(_of_groups(results))
    return values


def _of_parts(results: Results) -> Iterator[tuple[str, float]]:
    """Figures of what not every run has."""
    if results.per_tenant:
        yield "jain_fairness_index", results.jain
    if results.fitness is not None:
        yield "fitness_score", results.fitness.score
    if results.trace is not None:
        yield "mean_regret", results.trace.mean_regret
        yield "max_regret", results.trace.max_regret
    if results.pd is not None:
        yield "pd_disaggregated", results.pd.disaggregated
        yield "pd_ttft_p99_ms", results.pd.ttft.p99 / 1000
        yield "pd_transfer_mean_ms", results.pd.transfer.mean / 1000
        yield "pd_transfer_p99_ms", results.pd.transfer.p99 / 1000
    if results.fleet is not None:
        for name in ("most_instances", "gpu_seconds", "cost"):
            yield name, getattr(results.fleet, name)


def _of_groups(results: Results) -> Iterator[tuple[str, float]]:
    """Figures of SLO classes, models and tenants."""
    classes = results.per_slo
    if [entry.name for entry in classes] == ["default"]:
        classes = []  # they would say the same again
    groups: tuple[tuple[str, Sequence[Any]], ...] = (("slo", classes), ("model", results.per_model))
    for group, entries in groups:
        for entry in entries:
            for key in ("ttft", "e2e"):
                times = getattr(entry, key)
                yield f"{group}.{entry.name}.{key}_mean_ms", times.mean / 1000
                yield f"{group}.{entry.name}.{key}_p99_ms", times.p99 / 1000
    for entry in results.per_model:
        yield f"model.{entry.name}.responses_per_sec", entry.requests_per_sec
    for tenant in results.per_tenant:
        yield f"tenant.{tenant.name}.completed_requests", tenant.requests
        yield f"tenant.{tenant.name}.total_output_tokens", tenant.tokens


def columns(found: Iterable[Values]) -> list[str]:
    """Every figure that one of several runs has, in the order of :data:`METRICS`, groups last."""
    names = {name for values in found for name in values}
    return [n for n in METRICS if n in names] + sorted(n for n in names if n not in METRICS)


def traffic_digest(requests: Iterable[Request]) -> str:
    """Stands for the traffic of a run: two runs with the same one got the same requests.

    It covers arrivals and lengths of first rounds; when later rounds of a conversation arrive may
    depend on the answers.
    """
    digest = hashlib.sha256()
    for request in requests:
        if not request.round_index:
            fields = (request.arrival, request.prompt_len, request.output_len)
            digest.update(b"%d %d %d\n" % fields)
    return digest.hexdigest()[:16]
