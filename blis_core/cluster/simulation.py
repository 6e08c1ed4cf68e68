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

from blis_core.cluster.admission import AlwaysAdmit
from blis_core.cluster.agenda import ARRIVAL, DISAGGREGATION, PREFILL_ROUTING, ROUTING, Agenda
from blis_core.cluster.arrivals import Arrivals
from blis_core.cluster.fleet import NOBODY, Fleet, NoFleet, Snapshot
from blis_core.cluster.outcome import ClusterOutcome
from blis_core.cluster.routing import RoundRobin
from blis_core.contracts import (
    MAX_INT64,
    AdmissionPolicy,
    FleetView,
    Request,
    RoutingPolicy,
)
from blis_core.engine.instance import NEVER, Instance

if TYPE_CHECKING:
    from blis_core.cluster.decisions import DecisionLog
    from blis_core.cluster.disaggregation import Disaggregation
    from blis_core.cluster.gateway import Gateway
    from blis_core.cluster.tenants import TenantBudgets
    from blis_core.contracts import IntArray

Lost = Callable[[Request, int], list[Request]]
"""Called with a request that is turned away before it reaches an instance, and when; returns new
arrivals, which come later."""
FollowUps = Callable[[Request, int], list[Request]]
"""Called with a request that has ended and the time of its end; returns new arrivals."""
Watcher = Callable[[int, int], None]
"""Called with the index of an instance and the time of its event in which a request ended."""


_STRIDE = 256
"""Requests that an instance is given at once when nobody waits for it."""
_CATCH_UP = 16_384
"""Arrivals after which all instances catch up, lest requests pile up before them, and requests
that have ended are made compact if nobody needs them."""


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
        self.routing_latency = routing_latency
        self._gateway = gateway
        self.tenants = tenants
        self.log = log
        self.forward: Callable[[Request, int], None] = self.plan_routing
        """What becomes of a request that was admitted, or dispatched by the gateway."""
        self.disaggregation: Disaggregation | None = None
        """If there are pools."""
        self.on_routed: list[Callable[[int, Request, int], None]] = []
        """Called with index of the instance, request and time after each ordinary routing."""
        # constant latencies keep both in order of time
        self._to_admit: deque[tuple[int, Request]] = deque()
        self._to_route: deque[tuple[int, Request]] = deque()
        self.agenda = Agenda()
        self.arrivals = Arrivals(())
        self.follow_ups: FollowUps | None = None
        self._lost: Lost | None = None
        self._watchers: list[Watcher] = []
        self._followed: list[Callable[[int], bool]] = []  # what watchers need to follow
        self.on_end: Callable[[int, Request, int], None] | None = None
        """Called with the index of an instance that nobody follows, a request that ended there and
        the time of the event."""
        self._chosen: set[int] = set()  # instances that were touched at the present instant
        self._interrupted = False
        self.compacts = False
        """Whether nobody needs the requests that have ended (instances keep them as numbers) and
        those that sessions add."""
        self._compact_at = _CATCH_UP
        self.ended: list[Request] = []
        """Requests that ended in the instance event at hand, for watchers."""
        self.outcome = ClusterOutcome()

    def watch(self, watcher: Watcher, follows: Callable[[int], bool] = lambda _: True) -> None:
        """Let ``watcher`` follow the ends of requests; to be called before ``run``.

        It acts after the gateway; several act in order of registration. It can do without the
        instances for whose index ``follows`` is false, which then run freely unless somebody else
        follows them. ``on_end`` hears of those.
        """
        self._watchers.append(watcher)
        self._followed.append(follows)

    def add_instance(self, instance: Instance) -> int:
        """Add an instance, also during a run; returns its index. It is routable if all are."""
        index = self.fleet.add(instance)
        self._connect(index)
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
        self.follow_ups = follow_ups
        self.arrivals = arrivals = Arrivals(requests, forgetful=self.compacts)
        self.outcome.follow_ups = arrivals.added
        for index in range(len(self.instances)):
            self._connect(index)
        if self._no_choice:
            run = self._run_direct if self.follow_ups is None else self._run_direct_closed
            run(arrivals)
        elif not self._closed:
            self._run_open(arrivals)
        elif len(self.instances) == 1 and not self._watchers and not self.agenda.entries:
            self._run_alone(arrivals)
        else:
            self._run_closed(arrivals)
        for instance in self.instances:
            instance.advance()
        outcome = self.outcome
        outcome.in_transit = len(self._to_admit) + len(self._to_route)
        outcome.in_transit += sum(instance.entering for instance in self.instances)
        outcome.in_transit += self.agenda.count(ROUTING, DISAGGREGATION, PREFILL_ROUTING)
        if self._gateway is not None:
            outcome.gateway_depth = len(self._gateway.queue)

    @property
    def _closed(self) -> bool:
        """Whether the end of a request may bring a new event."""
        return self.follow_ups is not None or self._gateway is not None or bool(self._watchers)

    def _follows(self, index: int) -> bool:
        """Whether the events of an instance are to be taken in order of time with all others."""
        if self.follow_ups is not None or self._gateway is not None:
            return True
        return any(follows(index) for follows in self._followed)

    def _connect(self, index: int) -> None:
        """Hear of the ends of requests, if anybody wants to know."""
        instance = self.instances[index]
        if self._follows(index):
            instance.on_done = self._on_done(instance)
        elif self.tenants is not None or self.on_end is not None:
            instance.on_done = self._on_end(index)

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

    @property
    def _no_choice(self) -> bool:
        """Whether every request goes at once to the only instance, and nobody looks on."""
        return (
            len(self.instances) == 1
            and type(self._admission) is AlwaysAdmit
            and type(self._routing) is RoundRobin
            and not (self._admission_latency or self.routing_latency)
            and not (self._gateway or self.tenants or self.log or self.disaggregation)
            and not (self._watchers or self.on_routed or self.on_end or self.agenda.entries)
            and self.fleet.routable is None
            and self.fleet.by_model is None
        )

    def _run_direct(self, arrivals: Arrivals) -> None:
        """As the other loops, without the steps in between that have nothing to decide."""
        instance, horizon = self.instances[0], self._horizon
        instance.more_to_come = True
        while requests := arrivals.take_until(horizon, _STRIDE):
            instance.inject_all([r for r in requests if not r.model or self._is_served(r)])
            if arrivals.time > horizon:
                break
            instance.advance(arrivals.time)
            self._tidy(arrivals)
        instance.more_to_come = False

    def _run_direct_closed(self, arrivals: Arrivals) -> None:
        """The same if the end of a request may bring another one."""
        instance, horizon = self.instances[0], self._horizon
        tidy_at = _STRIDE
        while True:
            now = arrivals.time
            if now > horizon:
                now = NEVER
            self.ended = []
            instance.advance(now)
            if self.ended:
                continue  # they may have brought arrivals, earlier than this one
            if now == NEVER:
                return
            for request in arrivals.take():
                if self._is_served(request):
                    instance.inject(request, now)
            if arrivals.taken >= tidy_at:
                tidy_at = arrivals.taken + _STRIDE
                self._tidy(arrivals)

    def _is_served(self, request: Request) -> bool:
        """Whether the only instance has the model that ``request`` asks for, if it asks for any;
        it is lost if not."""
        if not request.model or request.model == self._model:
            return True
        self.outcome.unroutable += 1
        self.lose(request, request.arrival)
        return False

    def _tidy(self, arrivals: Arrivals) -> None:
        """Let go of what nobody needs any more, if there is much of it."""
        self._compact(arrivals)
        chains = self.fleet.chains
        if chains.fresh_tokens >= chains.enough_tokens:
            self._forget()

    def _run_open(self, arrivals: Arrivals) -> None:
        self.fleet.lazy = True
        chains, catch_up_at = self.fleet.chains, _CATCH_UP
        while (now := self._next(arrivals)) < NEVER:
            self._instant(now, arrivals)
            if arrivals.taken >= catch_up_at:
                catch_up_at = arrivals.taken + _CATCH_UP
                self.fleet.sync_all(now)
                self._compact(arrivals)
            if chains.fresh_tokens >= chains.enough_tokens:
                self._forget()

    def _compact(self, arrivals: Arrivals) -> None:
        """Let go of requests that have ended, if there are many and nobody needs them."""
        if self.compacts and arrivals.taken >= self._compact_at:
            self._compact_at = arrivals.taken + _CATCH_UP
            for instance in self.instances:
                instance.compact()

    def _forget(self) -> None:
        """Drop what is known of prompts that are nowhere any more."""
        fleet = self.fleet
        fleet.chains.fresh_tokens = 0
        if self.disaggregation or self._gateway or self.agenda.entries or self._watchers:
            return
        if fleet.routable is None:  # or requests that were drained may be on their way once more
            fleet.forget_prompts()

    def _run_alone(self, arrivals: Arrivals) -> None:
        """One instance may run on until it brings a new event."""
        instance = self.instances[0]
        while True:
            now = self._next(arrivals)
            self.ended = []
            instance.advance(now)
            if self.ended:
                self.fleet.update(0)
                self._dispatch_after(instance.ended_at)
            elif now == NEVER:
                return
            else:
                self._instant(now, arrivals)
                self._compact(arrivals)

    def _run_closed(self, arrivals: Arrivals) -> None:
        """Take cluster events and completions in order of time, lowest instance first."""
        instances = self.instances
        follows = [self._follows(index) for index in range(len(instances))]
        changes = [NEVER] * len(instances)
        chains = self.fleet.chains
        while True:
            now, change = self._next(arrivals), min(changes, default=NEVER)
            if now <= change:
                if now == NEVER or now > self._horizon:
                    return
                self._compact(arrivals)
                for index in self._instant(now, arrivals):
                    while index >= len(changes):
                        follows.append(self._follows(len(changes)))
                        changes.append(NEVER)
                    if follows[index]:
                        changes[index] = instances[index].next_change()
            elif change > self._horizon:
                return  # nothing but silent steps
            else:
                index = changes.index(change)
                self.ended = []
                instances[index].advance(change + 1)
                self.fleet.update(index)
                if self.ended:
                    self._dispatch_after(change)
                    for watcher in self._watchers:
                        watcher(index, change)
                changes[index] = instances[index].next_change()
                if chains.fresh_tokens >= chains.enough_tokens:
                    self._forget()

    def _on_done(self, instance: Instance) -> Callable[[Request, int], None]:
        tenants, follow_ups, arrivals = self.tenants, self.follow_ups, self.arrivals
        pausing = self._gateway is not None or bool(self._watchers)

        def ended(request: Request, tick: int) -> None:
            self.ended.append(request)
            if tenants is not None:
                tenants.ended(request)
            if follow_ups is not None:
                for new in follow_ups(request, tick):
                    arrivals.add(new)
                    instance.pause()  # it may be due before anything that is known
            if pausing:
                instance.pause()  # the gateway and watchers act after each event

        return ended

    def _on_end(self, index: int) -> Callable[[Request, int], None]:
        instance, tenants, on_end = self.instances[index], self.tenants, self.on_end

        def ended(request: Request, _: int) -> None:
            if tenants is not None:
                tenants.ended(request)
            if on_end is not None:
                on_end(index, request, instance.ended_at)

        return ended

    def idle(self, now: int) -> bool:
        """Whether nothing else is due at ``now``, so that what would be planned may happen now."""
        return self._next(self.arrivals) > now

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
            if self._interrupted:
                self._interrupted = False
                return chosen

    def inject(self, index: int, request: Request, now: int) -> None:
        """Send ``request`` to instance ``index`` at the present instant."""
        self.fleet.inject(index, request, now)
        self.touch(index)

    def touch(self, index: int) -> None:
        """Events of instance ``index`` have changed at the present instant."""
        self._chosen.add(index)

    def interrupt(self) -> None:
        """An instance that was touched has an event in the past, which comes before all others."""
        self._interrupted = True

    def plan_routing(self, request: Request, now: int) -> None:
        """An ordinary routing follows after the routing latency."""
        due = now + self.routing_latency
        if self._to_route and self._to_route[-1][0] > due:  # the present is a past time-out's
            self.agenda.add(due, ROUTING, self._route, request)
        else:
            self._to_route.append((due, request))

    def _admit(self, request: Request, now: int) -> None:
        fleet = self.fleet
        members = self._candidates(request) if request.model else fleet.routable
        fleet.build(now, members)
        view: FleetView = NoFleet() if members is NOBODY else Snapshot(fleet, now, members)
        reason = self._admission.admit(request, view, now)
        if reason is None and self.tenants is not None:
            fleet.sync(now)  # who has ended by now has freed a place
            if self.tenants.refuses(request):
                reason = self.tenants.REASON
        if self.log is not None:
            self.log.admission(request, now, reason)
        if reason is not None:
            outcome = self.outcome
            outcome.rejected += 1
            name = request.slo_class or "standard"
            outcome.rejected_by_class[name] = outcome.rejected_by_class.get(name, 0) + 1
            self.lose(request, now)
        elif self._gateway is None:
            self.forward(request, now)
        else:
            shed = self._gateway.queue.enqueue(request, now)
            if shed is not None:
                self.outcome.gateway_shed += 1
                self.lose(shed, now)
            if shed is not request:
                self._dispatch(now)

    def _route(self, request: Request, now: int) -> None:
        fleet = self.fleet
        members = self._candidates(request) if request.model else fleet.routable
        fleet.build(now, members)
        view = Snapshot(fleet, now, members)
        if not len(view):
            self.outcome.unroutable += 1
            self.lose(request, now)
            return
        decision = self._routing.route(request, view)
        if self.log is not None:
            self.log.routing(request, now, decision, view)
        if self.tenants is not None:
            self.tenants.routed(request)
        index = view.index(decision.target)
        self.inject(index, request, now)
        for observe in self.on_routed:
            observe(index, request, now)

    def lose(self, request: Request, now: int) -> None:
        """``request`` will never be answered."""
        if self._lost is not None:
            for new in self._lost(request, now):
                self.arrivals.add(new)

    def _candidates(self, request: Request) -> IntArray | None:
        """Indices of the instances that may serve ``request``, which names a model; None = all."""
        by_model = self.fleet.by_model
        if by_model is not None:
            return by_model.get(request.model, NOBODY)
        return self.fleet.routable if request.model == self._model else NOBODY

    def return_to_entrance(self, requests: Iterable[Request], now: int) -> None:
        """Let requests that have left an instance arrive once more, at the present instant."""
        due = now + self._admission_latency
        for request in requests:
            if self.tenants is not None:
                self.tenants.ended(request)
            self._to_admit.append((due, request))

    def give_up(self, requests: Iterable[Request], now: int) -> None:
        """Count requests that went with their instance."""
        for request in requests:
            self.outcome.drained += 1
            if self.tenants is not None:
                self.tenants.ended(request)
            self.lose(request, now)

    @property
    def has_horizon(self) -> bool:
        """Whether the simulation has an end of its own."""
        return self._horizon < MAX_INT64

    @property
    def at_rest(self) -> bool:
        """No arrival is to come and no request is in flight, as of the last ``fleet.sync``.

        What waits at the gateway or is on its way to an instance is overlooked: reference quirk
        07-Q15.
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
        self.forward(request, now)
        return True

    def _dispatch_after(self, now: int) -> None:
        """One attempt for each request that ended at ``now``, up to the first in vain."""
        if self._gateway is not None:
            for _ in self.ended:
                if not self._dispatch(now):
                    return
