"""Anomaly counters, and latencies by SLO class, model and tenant (specification 06, section 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blis_core.results.model import (
    Anomalies,
    ClassMetrics,
    Distribution,
    ModelMetrics,
    TenantMetrics,
)
from blis_core.results.statistics import distribution, plain_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blis_core.contracts import FloatArray, IntArray
    from blis_core.engine.metrics import InstanceMetrics
    from blis_core.results.columns import Columns

_INVERSION_FACTOR = 2.0
_BLOCKING_FACTOR = 2.0


def anomalies(
    instances: Sequence[InstanceMetrics], columns: Sequence[Columns], priority_policy: str
) -> Anomalies:
    """The counters that follow from the instances alone (no gateway, no admission)."""
    inversions = 0
    if priority_policy not in ("", "constant"):
        inversions = sum(priority_inversions(column) for column in columns)
    return Anomalies(
        priority_inversions=inversions,
        hol_blocking_events=hol_blocking_events([m.mean_queue_length for m in instances]),
        dropped_unservable=sum(m.dropped_unservable for m in instances),
        timed_out=sum(m.timed_out for m in instances),
        length_capped=sum(m.length_capped for m in instances),
    )


def priority_inversions(columns: Columns) -> int:
    """Pairs of one instance and SLO class in which the earlier arrival took over twice as long.

    Equal arrivals are ordered by id; the reference leaves their order to chance.
    """
    completed = [r for r in columns.requests if r.e2e >= 0]
    by_class: dict[str, list[tuple[int, str, int]]] = {}
    for r in completed:
        by_class.setdefault(r.slo_class or "default", []).append((r.arrival, r.id, r.e2e))
    return sum(
        _inverted_pairs(np.array([e2e for _, _, e2e in sorted(rows)], dtype=np.float64))
        for rows in by_class.values()
    )


def _inverted_pairs(e2e: FloatArray) -> int:
    """Number of i < j with ``e2e[i] > 2 * e2e[j]``, by merging sorted halves in O(n log^2 n)."""
    n = len(e2e)
    if n <= 64:
        later = np.triu(np.ones((n, n), dtype=np.bool_), 1)
        return int(np.count_nonzero((e2e[:, None] > _INVERSION_FACTOR * e2e[None, :]) & later))
    half = n // 2
    thresholds = np.sort(_INVERSION_FACTOR * e2e[half:])
    across = int(np.searchsorted(thresholds, e2e[:half], side="left").sum())
    return across + _inverted_pairs(e2e[:half]) + _inverted_pairs(e2e[half:])


def hol_blocking_events(mean_queues: Sequence[float]) -> int:
    """Instances whose mean wait queue exceeds twice the average (0 with a single instance)."""
    if len(mean_queues) < 2:
        return 0
    average = plain_sum(mean_queues) / float(len(mean_queues))
    if average <= 0:
        return 0
    return sum(queue > _BLOCKING_FACTOR * average for queue in mean_queues)


def _summary(times: IntArray) -> Distribution:
    """Distribution of the recorded times of a column."""
    return distribution(times[times >= 0].astype(np.float64))


def latencies(columns: Columns) -> tuple[Distribution, Distribution]:
    """First-token and end-to-end times in us, wherever they were recorded."""
    return _summary(columns.ttft), _summary(columns.e2e)


def per_slo(columns: Columns) -> list[ClassMetrics]:
    """Latencies of every SLO class with recorded times (no class counts as ``default``)."""
    groups = columns.groups("slo_class", "default")
    found = [
        ClassMetrics(name=name, ttft=_summary(columns.ttft[rows]), e2e=_summary(columns.e2e[rows]))
        for name, rows in groups.items()
    ]
    return [entry for entry in found if entry.ttft.count or entry.e2e.count]


def per_model(columns: Columns, sim_ended: int) -> list[ModelMetrics]:
    """Latencies and throughput of every model that a request with recorded times names.

    ``sim_ended`` is the duration of the simulation in us.
    """
    duration = float(sim_ended) / 1e6
    found = []
    for name, rows in columns.groups("model").items():
        if not name:
            continue
        ttft, e2e = _summary(columns.ttft[rows]), _summary(columns.e2e[rows])
        if not (ttft.count or e2e.count):
            continue
        tokens = int(columns.output_len[rows][columns.e2e[rows] >= 0].sum())
        found.append(
            ModelMetrics(
                name=name,
                ttft=ttft,
                e2e=e2e,
                requests_per_sec=float(e2e.count) / duration if duration > 0 else 0.0,
                tokens_per_sec=float(tokens) / duration if duration > 0 else 0.0,
            )
        )
    return found


def per_tenant(columns: Columns) -> list[TenantMetrics]:
    """Completed requests and their declared output tokens of every named tenant."""
    found = []
    for name, rows in columns.groups("tenant").items():
        done = columns.e2e[rows] >= 0
        if name and done.any():
            found.append(
                TenantMetrics(
                    name=name,
                    requests=int(np.count_nonzero(done)),
                    tokens=int(columns.output_len[rows][done].sum()),
                )
            )
    return found


def jain_index(shares: Sequence[int]) -> float:
    """Jain fairness index of ``shares``: 1 = all equal, 1/n = one has all; 0 for no shares."""
    if not shares:
        return 0.0
    total = squares = 0.0
    for share in map(float, shares):
        total += share
        squares += share * share
    return (total * total) / (float(len(shares)) * squares) if squares else 1.0
