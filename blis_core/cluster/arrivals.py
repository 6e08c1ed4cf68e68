"""What arrives at the cluster next: the workload's requests and those that sessions add."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from blis_core.contracts import Request
from blis_core.engine.instance import NEVER


class Arrivals:
    """Requests by time of arrival, taken one instant at a time.

    ``requests`` come in order of arrival and are drawn only when they are due.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        self._requests = iter(requests)
        self._next = next(self._requests, None)
        self._added: list[tuple[int, int, Request]] = []
        self.added: list[Request] = []
        """Everything that was added, in that order."""
        self.taken = 0
        """Number of requests taken so far."""

    @property
    def time(self) -> int:
        """When the next request arrives; NEVER if none is known."""
        time = self._next.arrival if self._next is not None else NEVER
        return min(time, self._added[0][0]) if self._added else time

    def add(self, request: Request) -> None:
        """A session sends ``request``, which arrives later than everything taken so far."""
        heapq.heappush(self._added, (request.arrival, len(self.added), request))
        self.added.append(request)

    def take(self) -> list[Request]:
        """All requests of the next instant: the workload's first, then added ones as created."""
        time = self.time
        group: list[Request] = []
        while self._next is not None and self._next.arrival == time:
            group.append(self._next)
            self._next = next(self._requests, None)
        while self._added and self._added[0][0] == time:
            group.append(heapq.heappop(self._added)[2])
        self.taken += len(group)
        return group
