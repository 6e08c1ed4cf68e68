"""Laws of schedulers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from blis_core.contracts import PriorityPolicy, Request, Scheduler
from blis_core.testing.checks import UNPREDICTABLE, cost, require
from blis_core.testing.requests import WatchedRequest, make_request, make_requests

PRIORITIES = (
    PriorityPolicy("constant", 0),
    PriorityPolicy("slo-based", 1),
    PriorityPolicy("inverted-slo", -1),
)


class SchedulerTests:
    """Subclass it and define ``make``.

    Keys are unique, stay the same while a request waits, and can be compared. A scheduler with
    ``fcfs = True`` has no keys.
    """

    def make(self, priority: PriorityPolicy) -> Scheduler:
        """A new scheduler."""
        raise NotImplementedError("define make(self, priority), which returns a new scheduler")

    def requests(self) -> Sequence[Request]:
        """Requests that wait together, among them equal ones."""
        twins = [make_request(100, 10, id=f"twin_{i}", arrival=500) for i in range(4)]
        return [*make_requests(40), *twins]

    def _schedulers(self) -> list[Scheduler]:
        made = [self.make(priority) for priority in PRIORITIES]
        return [scheduler for scheduler in made if not scheduler.fcfs]

    def test_keys_are_unique(self) -> None:
        """Not even equal requests that arrive together may tie."""
        for scheduler in self._schedulers():
            seen: list[tuple[object, Request]] = []
            for request in self.requests():
                key = scheduler.key(request)
                twin = next((other for known, other in seen if known == key), None)
                require(
                    twin is None,
                    f"key() returned {key!r} for both {twin} and {request}: a tie leaves the order"
                    " open. End the key with request.arrival, request.id",
                )
                seen.append((key, request))

    def test_keys_are_comparable(self) -> None:
        """Of any two keys one is smaller, and it makes no difference which is asked first."""
        for scheduler in self._schedulers():
            keys = [scheduler.key(request) for request in self.requests()]
            for a in keys:
                for b in keys:
                    try:
                        less, greater = a < b, b < a
                    except TypeError as error:
                        require(False, f"keys cannot be compared: {error} ({a!r} and {b!r})")
                    require(
                        a is b or less != greater,
                        f"keys have no order: {a!r} < {b!r} is {less}, {b!r} < {a!r} is {greater}",
                    )
            ordered = sorted(keys)
            for i, a in enumerate(ordered):
                beyond = next((b for b in ordered[i + 1 :] if not a < b), None)
                require(
                    beyond is None,
                    f"keys have no linear order: {a!r} comes before {beyond!r} when sorted, but is"
                    " not smaller",
                )

    def test_keys_stay_the_same_while_requests_wait(self) -> None:
        """The key is computed once, so it must not depend on time, calls, or other requests."""
        for scheduler in self._schedulers():
            requests = self.requests()
            keys = [scheduler.key(request) for request in requests]
            again = [scheduler.key(request) for request in reversed(requests)]
            fresh = self.make(scheduler.priority)
            for request, key, second in zip(requests, keys, reversed(again), strict=True):
                require(
                    key == second,
                    f"key() returned {key!r}, then {second!r} for {request}: a waiting request"
                    " keeps its place, so the key must not change",
                )
                third = fresh.key(request)
                require(
                    key == third,
                    f"two schedulers returned {key!r} and {third!r} for {request}"
                    f" ({UNPREDICTABLE})",
                )

    def test_leaves_requests_as_they_are(self) -> None:
        """A request belongs to the engine, and nobody knows the length of the answer."""
        for scheduler in self._schedulers():
            for request in make_requests(24, cls=WatchedRequest):
                assert isinstance(request, WatchedRequest)
                facts = request.facts()
                request.read.clear()
                scheduler.key(request)
                require(
                    not request.read,
                    f"key() reads request.{', request.'.join(sorted(request.read))}: no server"
                    " knows the length of an answer, and tokens may have been dropped",
                )
                require(request.facts() == facts, f"key() changes {request}")

    def test_cost_does_not_grow_with_the_prompt(self) -> None:
        """A key is a matter of a few figures."""
        for scheduler in self._schedulers():
            short, long = make_request(100), make_request(100_000)
            scheduler.key(short)
            small, large = (cost(partial(scheduler.key, request)) for request in (short, long))
            require(
                not large.exceeds(small),
                f"key() takes {large} for 100,000 tokens instead of {small} for 100: its cost"
                " grows with the prompt",
            )
