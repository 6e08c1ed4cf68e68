"""The cluster loop: arrival, admission, routing, and the instances behind them on one clock.

At one instant the cluster acts before the instances, and all arrivals of an instant are admitted
before the first of them is routed.
"""

from __future__ import annotations

from collections.abc import Iterable

from blis_core.cluster.fleet import LiveFleet
from blis_core.contracts import AdmissionPolicy, Request, RoutingPolicy
from blis_core.engine.instance import Instance


class ClusterOutcome:
    """What the cluster itself counted."""

    def __init__(self) -> None:
        self.rejected = 0
        """Requests that the admission policy turned away."""
        self.rejected_by_class: dict[str, int] = {}
        self.unroutable = 0
        """Requests for a model that no instance serves."""


class Cluster:
    """Instances that serve one model behind an admission and a routing policy."""

    def __init__(
        self,
        instances: list[Instance],
        fleet: LiveFleet,
        admission: AdmissionPolicy,
        routing: RoutingPolicy,
        *,
        model: str,
        horizon: int,
    ) -> None:
        self._instances = instances
        self._fleet = fleet
        self._admission = admission
        self._routing = routing
        self._model = model
        self._horizon = horizon
        self.outcome = ClusterOutcome()

    def run(self, requests: Iterable[Request]) -> None:
        """Simulate to the end. ``requests`` come in order of arrival."""
        group: list[Request] = []
        for request in requests:
            if request.arrival > self._horizon:
                break
            if group and group[0].arrival != request.arrival:
                self._arrive(group)
                group = []
            group.append(request)
        if group:
            self._arrive(group)
        for instance in self._instances:
            instance.advance()

    def _arrive(self, group: list[Request]) -> None:
        """All requests of one instant."""
        now = group[0].arrival
        fleet = self._fleet.at(now)
        for request in [r for r in group if self._admit(r, now)]:
            if request.model and request.model != self._model:
                self.outcome.unroutable += 1
                continue
            index = self._routing.route(request, fleet).target
            self._instances[index].inject(request, now)
            fleet.sent(index)

    def _admit(self, request: Request, now: int) -> bool:
        if self._admission.admit(request, self._fleet, now) is None:
            return True
        outcome = self.outcome
        outcome.rejected += 1
        name = request.slo_class or "standard"
        outcome.rejected_by_class[name] = outcome.rejected_by_class.get(name, 0) + 1
        return False
