"""The cluster loop: arrival, admission, routing, and the instances behind them on one clock.

At one instant the cluster acts before the instances: first all arrivals, then all admissions, then
all routings. Instances are advanced only as far as somebody needs: with an open loop to the times
at which a policy reads them, with a closed loop (sessions, gateway queue) from completion to
completion, since each may bring a new event.

Everything beyond that (disaggregation, nodes, scaling) is a part of its own which plans rare events
in the cluster's agenda; see blis_core.cluster.agenda.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from blis_core.cluster.agenda import ARRIVAL, Agenda
from blis_core.cluster.arrivals import Arrivals
from blis_core.cluster.decisions import DecisionLog
from blis_core.cluster.fleet import NOBODY, Fleet, NoFleet, Snapshot
from blis_core.cluster.gateway import GatewayQueue
from blis_core.cluster.saturation import SaturationDetector
from blis_core.cluster.tenants import TENANT_BUDGET_SHED, TenantBudgets
from blis_core.contracts import AdmissionPolicy, FleetView, Request, RoutingPolicy
from blis_core.engine.instance import NEVER, Instance

if TYPE_CHECKING:
    from blis_core.contracts import IntArray

Lost = Callable[[Request], None]
"""Called with a request that is turned away before it reaches an instance."""
FollowUps = Callable[[Request, int], list[Request]]
"""Called with a request that has ended and the time of its end; returns new arrivals."""
Watcher = Callable[[int, int], None]
"""Called with the index of an instance and the time of its event in which a request ended."""


class ClusterOutcome:
    """What the cluster itself counted."""

    def __init__(self) -> None:
        self.rejected = 0
        """Requests that admission turned away, those over a tenant's budget included."""
        self.rejected_by_class: dict[str, int] = {}
        self.unroutable = 0
        """Requests for a model that no instance serves."""
        self.gateway_shed = 0
        """Requests that a full gateway queue discarded."""
        self.gateway_depth = 0
        """Requests that waited at the gateway when the simulation ended."""
        self.drained = 0
        """Waiting requests that went with an instance drained at once."""
        self.unfinished = 0
        """Requests that had arrived, but were on their way to an instance, at the horizon."""
        self.follow_ups: list[Request] = []
        """Requests that sessions added, in order of creation."""


class Gateway:
    """The queue in front of the fleet and the detector that holds it."""

    def __init__(self, queue: GatewayQueue, detector: SaturationDetector) -> None:
        self.queue = queue
        self.detector = detector


class Cluster:
    """Instances that serve one model behind an admission and a routing policy.

    Latencies in us. ``gateway``, ``tenants`` and ``log`` are optional parts.
    """

    def __init__(
        self,
        fleet: Fleet,
        admission: AdmissionPolicy,
        routing: RoutingPolicy,
        *,
        model: str,
        horizon: int,
        admission_latency: int = 0,
        routing_latency: int = 0,
        gateway: Gateway | None = None,
        tenants: TenantBudgets | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        self.fleet = fleet
        self.instances = fleet.instances
        self._admission = admission
        self._routing = routing
        self._model = model
        self._horizon = horizon
        self._admission_latency = admission_latency
        self._routing_latency = routing_latency
        self._gateway = gateway
        self._tenants = tenants
        self.log = log
        # constant latencies keep both in order of time
        self._to_admit: deque[tuple[int, Request]] = deque()
        self._to_route: deque[tuple[int, Request]] = deque()
        self.agenda = Agenda()
        self.arrivals = Arrivals(())
        self._follow_ups: FollowUps | None = None
        self._lost: Lost | None = None
        self._watchers: list[Watcher] = []
        self._changes: list[int] = []  # per instance, when somebody may end there
        self._chosen: set[int] = set()  # instances that were touched at the present instant
        self._ended = 0  # requests that ended in the instance event at hand
        self.on_routed: Callable[[int, Request], None] | None = None
        """Called with the index of the chosen instance after each ordinary routing decision."""
        self.outcome = ClusterOutcome()

    def watch(self, watcher: Watcher) -> None:
        """Let ``watcher`` follow the ends of requests; to be called before ``run``.

        It acts after the gateway; several act in order of registration.
        """
        self._watchers.append(watcher)

    def add_instance(self, instance: Instance) -> int:
        """Add an instance, also during a run; returns its index. It is routable if all are."""
        index = self.fleet.add(instance)
        self._connect(instance)
        return index

    def run(
        self,
        requests: Iterable[Request],
        follow_ups: FollowUps | None = None,
        lost: Lost | None = None,
    ) -> None:
        """Simulate to the end. ``requests`` come in order of arrival.

        ``follow_ups`` closes the loop: what it returns arrives later than the step that ended the
        request began.
        """
        self._lost = lost
        self._follow_ups = follow_ups
        self.arrivals = arrivals = Arrivals(requests)
        self.outcome.follow_ups = arrivals.added
        for instance in self.instances:
            self._connect(instance)
        if not self._closed:
            self._run_open(arrivals)
        elif len(self.instances) == 1 and not self._watchers and not self.agenda.entries:
            self._run_alone(arrivals)
        else:
            self._run_closed(arrivals)
        for instance in self.instances:
            instance.advance()
        outcome = self.outcome
        outcome.unfinished = len(self._to_admit) + len(self._to_route)
        if self._gateway is not None:
            outcome.gateway_depth = len(self._gateway.queue)

    @property
    def _closed(self) -> bool:
        """Whether the end of a request may bring a new event."""
        return self._follow_ups is not None or self._gateway is not None or bool(self._watchers)

    def _connect(self, instance: Instance) -> None:
        """Hear of the ends of requests, if anybody wants to know."""
        if self._closed or self._tenants is not None:
            instance.on_done = self._on_done(instance)

    # ---------------------------------------------------------------------------- the clock

    def _next(self, arrivals: Arrivals) -> int:
        """Time of the cluster's next event; NEVER if it lies beyond the horizon."""
        time = arrivals.time
        if self._to_admit and self._to_admit[0][0] < time:
            time = self._to_admit[0][0]
        if self._to_route and self._to_route[0][0] < time:
            time = self._to_route[0][0]
        entries = self.agenda.entries
        if entries and entries[0][0] < time:
            time = entries[0][0]
        return time if time <= self._horizon else NEVER

    def _run_open(self, arrivals: Arrivals) -> None:
        while (now := self._next(arrivals)) < NEVER:
            self._instant(now, arrivals)

    def _run_alone(self, arrivals: Arrivals) -> None:
        """One instance may run on until it brings a new event."""
        instance = self.instances[0]
        while True:
            now = self._next(arrivals)
            self._ended = 0
            instance.advance(now)
            if self._ended:
                self.fleet.update(0)
                self._dispatch_after(instance.ended_at)
            elif now == NEVER:
                return
            else:
                self._instant(now, arrivals)

    def _run_closed(self, arrivals: Arrivals) -> None:
        """Take cluster events and completions in order of time, lowest instance first."""
        instances = self.instances
        changes = self._changes = [instance.next_change() for instance in instances]
        while True:
            now, change = self._next(arrivals), min(changes, default=NEVER)
            if now <= change:
                if now == NEVER or now > self._horizon:
                    return
                for index in self._instant(now, arrivals):
                    if index >= len(changes):
                        changes += [NEVER] * (len(instances) - len(changes))
                    changes[index] = instances[index].next_change()
            elif change > self._horizon:
                return  # nothing but silent steps
            else:
                index = changes.index(change)
                self._ended = 0
                instances[index].advance(change + 1)
                self.fleet.update(index)
                if self._ended:
                    self._dispatch_after(change)
                    for watcher in self._watchers:
                        watcher(index, change)
                changes[index] = instances[index].next_change()

    def _on_done(self, instance: Instance) -> Callable[[Request, int], None]:
        tenants, follow_ups, arrivals = self._tenants, self._follow_ups, self.arrivals
        pausing = self._gateway is not None or bool(self._watchers)

        def ended(request: Request, tick: int) -> None:
            self._ended += 1
            if tenants is not None:
                tenants.ended(request)
            if follow_ups is not None:
                for new in follow_ups(request, tick):
                    arrivals.add(new)
                    instance.pause()  # it may be due before anything that is known
            if pausing:
                instance.pause()  # the gateway and watchers act after each event

        return ended

    # --------------------------------------------------------------------------- its events

    def _instant(self, now: int, arrivals: Arrivals) -> set[int]:
        """All events of the cluster at ``now``. Returns the instances that were touched."""
        self._chosen = chosen = set[int]()
        entries = self.agenda.entries
        while True:
            while entries and entries[0][0] == now and entries[0][1] < ARRIVAL:
                self.agenda.act()
            if arrivals.time == now:
                due = now + self._admission_latency
                self._to_admit.extend((due, request) for request in arrivals.take())
            while self._to_admit and self._to_admit[0][0] == now:
                self._admit(self._to_admit.popleft()[1], now)
            while self._to_route and self._to_route[0][0] == now:
                self._route(self._to_route.popleft()[1], now)
            if not entries or entries[0][0] != now:
                return chosen
            self.agenda.act()  # which may bring new events of any kind at this instant

    def inject(self, index: int, request: Request, now: int) -> None:
        """Send ``request`` to instance ``index`` at the present instant."""
        self.fleet.inject(index, request, now)
        self.touch(index)

    def touch(self, index: int) -> None:
        """Events of instance ``index`` have changed at the present instant."""
        self._chosen.add(index)

    def _admit(self, request: Request, now: int) -> None:
        fleet = self.fleet
        members = self._candidates(request)
        fleet.build(now, members)
        view: FleetView = NoFleet() if members is NOBODY else Snapshot(fleet, now, members)
        reason = self._admission.admit(request, view, now)
        if reason is None and self._tenants is not None:
            fleet.sync(now)  # who has ended by now has freed a place
            if self._tenants.refuses(request):
                reason = TENANT_BUDGET_SHED
        if self.log is not None:
            self.log.admission(request, now, reason)
        if reason is not None:
            outcome = self.outcome
            outcome.rejected += 1
            name = request.slo_class or "standard"
            outcome.rejected_by_class[name] = outcome.rejected_by_class.get(name, 0) + 1
            self._lose(request)
        elif self._gateway is None:
            self._to_route.append((now + self._routing_latency, request))
        else:
            shed = self._gateway.queue.enqueue(request, now)
            if shed is not None:
                self.outcome.gateway_shed += 1
                self._lose(shed)
            if shed is not request:
                self._dispatch(now)

    def _route(self, request: Request, now: int) -> None:
        fleet = self.fleet
        members = self._candidates(request)
        fleet.build(now, members)
        view = Snapshot(fleet, now, members)
        if not len(view):
            self.outcome.unroutable += 1
            self._lose(request)
            return
        decision = self._routing.route(request, view)
        if self.log is not None:
            self.log.routing(request, now, decision, view)
        if self._tenants is not None:
            self._tenants.routed(request)
        index = decision.target if members is None else int(members[decision.target])
        if self.on_routed is not None:
            self.on_routed(index, request)
        self.inject(index, request, now)

    def _lose(self, request: Request) -> None:
        if self._lost is not None:
            self._lost(request)

    def _candidates(self, request: Request) -> IntArray | None:
        """Indices of the instances that may serve ``request``; None = all."""
        if request.model:
            by_model = self.fleet.by_model
            if by_model is not None:
                return by_model.get(request.model, NOBODY)
            if request.model != self._model:
                return NOBODY
        return self.fleet.routable

    def return_to_entrance(self, requests: Iterable[Request], now: int) -> None:
        """Let requests that have left an instance arrive once more, at the present instant."""
        due = now + self._admission_latency
        self._to_admit.extend((due, request) for request in requests)

    def lose(self, requests: Iterable[Request]) -> None:
        """Count requests that an instance has given up, and tell their sessions."""
        for request in requests:
            self.outcome.drained += 1
            if self._tenants is not None:
                self._tenants.ended(request)
            self._lose(request)

    @property
    def at_rest(self) -> bool:
        """No arrival is to come and no request is in flight, as of the last ``fleet.sync``.

        What waits at the gateway or is on its way to an instance is overlooked: reference quirk
        07-15.
        """
        return self.arrivals.time == NEVER and not self.fleet.in_flight.any()

    # --------------------------------------------------------------------------- the gateway

    def _dispatch(self, now: int) -> bool:
        """Send the next request of the gateway queue on, unless the fleet is saturated."""
        gateway = self._gateway
        assert gateway is not None
        if not len(gateway.queue):
            return False
        self.fleet.build(now, self.fleet.routable)
        if gateway.detector.saturation(Snapshot(self.fleet, now, self.fleet.routable)) >= 1.0:
            return False
        request = gateway.queue.dequeue(now)
        assert request is not None
        self._to_route.append((now + self._routing_latency, request))
        return True

    def _dispatch_after(self, now: int) -> None:
        """One attempt for each request that ended at ``now``, up to the first in vain."""
        if self._gateway is not None:
            for _ in range(self._ended):
                if not self._dispatch(now):
                    return
