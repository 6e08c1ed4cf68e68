"""The cluster loop: arrival, admission, routing, and the instances behind them on one clock.

At one instant the cluster acts before the instances, and all arrivals of an instant are admitted
before the first of them is routed. Instances are advanced only as far as somebody needs: with an
open loop to the times at which a policy reads them, with a closed loop from completion to
completion, since each may bring a new arrival.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

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
        if follow_ups is None:
            for group in _by_arrival(requests, self._horizon):
                self._arrive(group)
            for instance in self._instances:
                instance.advance()
        else:
            self._run_closed_loop(requests, follow_ups)

    def _run_closed_loop(self, requests: Iterable[Request], follow_ups: FollowUps) -> None:
        """Take arrivals and completions in order of time, lowest instance first."""
        coming: list[tuple[int, int, Request]] = []
        created = self.outcome.follow_ups

        def ended(request: Request, tick: int) -> None:
            for new in follow_ups(request, tick):
                heapq.heappush(coming, (new.arrival, len(created), new))
                created.append(new)

        instances = self._instances
        for instance in instances:
            instance.on_done = ended
        initial = _by_arrival(requests, self._horizon)
        group = next(initial, None)
        changes = [NEVER] * len(instances)
        while True:
            change = min(changes)
            arrival = min(group[0].arrival if group else NEVER, coming[0][0] if coming else NEVER)
            if min(arrival, change) > self._horizon:
                for instance in instances:
                    instance.advance()  # nothing but silent steps
                return
            if arrival <= change:
                now: list[Request] = []
                if group and group[0].arrival == arrival:
                    now = group
                    group = next(initial, None)
                while coming and coming[0][0] == arrival:
                    now.append(heapq.heappop(coming)[2])
                for index in self._arrive(now):
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


def _by_arrival(requests: Iterable[Request], horizon: int) -> Iterator[list[Request]]:
    """Groups of equal arrival up to the horizon."""
    group: list[Request] = []
    for request in requests:
        if request.arrival > horizon:
            break
        if group and group[0].arrival != request.arrival:
            yield group
            group = []
        group.append(request)
    if group:
        yield group
