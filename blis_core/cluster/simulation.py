"""The cluster loop: arrival, admission, routing, and the instances behind them on one clock.

At one instant the cluster acts before the instances, and all arrivals of an instant are admitted
before the first of them is routed. Instances are advanced only as far as somebody needs: with an
open loop to the times at which a policy reads them, with a closed loop from completion to
completion, since each may bring a new arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from blis_core.cluster.arrivals import Arrivals
from blis_core.cluster.fleet import LiveFleet
from blis_core.contracts import AdmissionPolicy, Request, RoutingPolicy
from blis_core.engine.instance import NEVER, Instance

FollowUps = Callable[[Request, int], list[Request]]
"""Called with a request that has ended and the time of its end; returns new arrivals."""


class ClusterOutcome:
    """What the cluster itself counted."""

    def __init__(self) -> None:
        self.rejected = 0
        """Requests that the admission policy turned away."""
        self.rejected_by_class: dict[str, int] = {}
        self.unroutable = 0
        """Requests for a model that no instance serves."""
        self.follow_ups: list[Request] = []
        """Requests that sessions added, in order of creation."""


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

    def run(self, requests: Iterable[Request], follow_ups: FollowUps | None = None) -> None:
        """Simulate to the end. ``requests`` come in order of arrival.

        ``follow_ups`` closes the loop: what it returns arrives later than the step that ended the
        request began.
        """
        arrivals = Arrivals(requests)
        if follow_ups is None:
            while arrivals.time <= self._horizon:
                self._arrive(arrivals.take())
            for instance in self._instances:
                instance.advance()
            return
        self.outcome.follow_ups = arrivals.added

        def ended(request: Request, tick: int) -> None:
            for new in follow_ups(request, tick):
                arrivals.add(new)
                if len(self._instances) == 1:
                    self._instances[0].pause()  # it may be due before the next known arrival

        for instance in self._instances:
            instance.on_done = ended
        if len(self._instances) == 1:
            self._close_loop_alone(arrivals, self._instances[0])
        else:
            self._close_loop(arrivals)

    def _close_loop_alone(self, arrivals: Arrivals, instance: Instance) -> None:
        """One instance may run on until it brings a new arrival."""
        while True:
            known = len(arrivals.added)
            instance.advance(arrivals.time)
            if len(arrivals.added) == known:
                if arrivals.time > self._horizon:
                    return
                self._arrive(arrivals.take())

    def _close_loop(self, arrivals: Arrivals) -> None:
        """Take arrivals and completions in order of time, lowest instance first."""
        instances = self._instances
        changes = [NEVER] * len(instances)
        while True:
            change, arrival = min(changes), arrivals.time
            if min(arrival, change) > self._horizon:
                for instance in instances:
                    instance.advance()  # nothing but silent steps
                return
            if arrival <= change:
                for index in self._arrive(arrivals.take()):
                    changes[index] = instances[index].next_change()
            else:
                index = changes.index(change)
                instances[index].advance(change + 1)
                changes[index] = instances[index].next_change()

    def _arrive(self, group: list[Request]) -> set[int]:
        """All requests of one instant. Returns the instances that got one."""
        now = group[0].arrival
        fleet = self._fleet.at(now)
        chosen = set()
        for request in [r for r in group if self._admit(r, now)]:
            if request.model and request.model != self._model:
                self.outcome.unroutable += 1
                continue
            index = self._routing.route(request, fleet).target
            self._instances[index].inject(request, now)
            fleet.sent(index)
            chosen.add(index)
        return chosen

    def _admit(self, request: Request, now: int) -> bool:
        if self._admission.admit(request, self._fleet, now) is None:
            return True
        outcome = self.outcome
        outcome.rejected += 1
        name = request.slo_class or "standard"
        outcome.rejected_by_class[name] = outcome.rejected_by_class.get(name, 0) + 1
        return False
