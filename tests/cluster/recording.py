"""Notes every decision of a run in the form in which the vectors hold those of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from blis_core.cluster.fleet import Fleet
from blis_core.cluster.routing import LeastLoaded, Weighted
from blis_core.cluster.saturation import SaturationDetector
from blis_core.cluster.simulation import Cluster
from blis_core.contracts import AdmissionPolicy, RoutingPolicy, Scorer

Event = list[Any]


class NotingAdmission(AdmissionPolicy):
    """Asks the policy behind it, and the budgets as they stand."""

    def __init__(self, cluster: Cluster, events: list[Event]) -> None:
        self._cluster = cluster
        self._policy = cluster._admission
        self._events = events

    def admit(self, request, fleet, now):
        reason = self._policy.admit(request, fleet, now)
        event = [
            "admit", now, request.id, request.arrival, request.prompt_len, request.output_len,
            request.slo_class, request.tenant, reason is None, reason or "",
        ]  # fmt: skip
        if (tenants := self._cluster.tenants) is not None:
            self._cluster.fleet.sync(now)
            event.append(tenants.over(request.tenant))
        self._events.append(event)
        return reason


class NotingScorer(Scorer):
    """Keeps the scores of the scorer behind it."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.scores: list[float] = []

    def score(self, request, fleet):
        scores = self._scorer.score(request, fleet)
        self.scores = scores.tolist()
        return scores

    def routed(self, request, index):
        self._scorer.routed(request, index)


class NotingRouting(RoutingPolicy):
    """Notes what the policy behind it sees, how its scorers answer and what it chooses."""

    def __init__(self, policy: RoutingPolicy, events: list[Event]) -> None:
        self._policy = policy
        self._events = events
        self._scorers: list[NotingScorer] = []
        self.now = 0
        if isinstance(policy, Weighted):
            pairs = [(NotingScorer(scorer), weight) for scorer, weight in policy._scorers]
            policy._scorers = pairs
            self._scorers = [scorer for scorer, _ in pairs]

    def route(self, request, fleet):
        signals = zip(
            fleet.queue_depth.tolist(), fleet.running.tolist(), fleet.in_flight.tolist(),
            fleet.kv_utilization.tolist(), fleet.free_blocks.tolist(), strict=True,
        )  # fmt: skip
        event = ["route", fleet._now, request.id, "", "", [list(each) for each in signals]]
        tied = None
        if isinstance(self._policy, LeastLoaded):
            tied = (fleet.load == fleet.load.min()).nonzero()[0].tolist()
        decision = self._policy.route(request, fleet)
        if self._scorers:
            event.append([scorer.scores for scorer in self._scorers])
            event.append(decision.scores.tolist())
            tied = (decision.scores == decision.scores.max()).nonzero()[0].tolist()
        if tied is not None:
            event.append(tied)
        event[3:5] = fleet.ids[decision.target], decision.reason
        self._events.append(event)
        return decision


class NotingDetector(SaturationDetector):
    """Notes the attempts at the gateway."""

    def __init__(self, detector: SaturationDetector, queue, events: list[Event]) -> None:
        self._detector = detector
        self._queue = queue
        self._events = events

    def saturation(self, fleet):
        value = self._detector.saturation(fleet)
        self._events.append(["dispatch", fleet._now, value, len(self._queue)])
        return value


def note_refreshes(fleet: Fleet, events: list[Event]) -> None:
    """Have the refreshes of stale signals and frozen caches noted."""
    build = fleet.build

    def noting(now: int) -> None:
        frozen, refreshed = fleet._frozen_at, fleet._refreshed.copy()
        build(now)
        if fleet._frozen_at != frozen:
            events.append(["cache_refresh", now])
        for index in np.flatnonzero(fleet._refreshed != refreshed).tolist():
            values = [int(fleet.stale[name][index]) for name in ("queue_depth", "running")]
            use = int(fleet.stale["used_blocks"][index]) / int(fleet.total_blocks[index])
            events.append(["snap_refresh", now, fleet.names[index], [*values, use]])

    fleet.build = noting


def watch(cluster: Cluster) -> list[Event]:
    """The list into which the decisions of ``cluster`` will go."""
    events: list[Event] = []
    cluster._admission = NotingAdmission(cluster, events)
    cluster._routing = NotingRouting(cluster._routing, events)
    if cluster._gateway is not None:
        gateway = cluster._gateway
        gateway.detector = NotingDetector(gateway.detector, gateway.queue, events)
    note_refreshes(cluster.fleet, events)
    return events
