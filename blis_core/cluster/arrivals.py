"""What arrives at the cluster next: the workload's requests and those that sessions add."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from blis_core.contracts import Request
from blis_core.engine.instance import NEVER


class Arrivals:
    """Requests by time of arrival, taken one instant at a time.

    ``requests`` come in order of arrival and are drawn only when they are due. What was added is
    remembered unless ``forgetful``.
    """

    def __init__(self, requests: Iterable[Request], *, forgetful: bool = False) -> None:
        self._requests = iter(requests)
        self._next = next(self._requests, None)
        self._added: list[tuple[int, int, Request]] = []
        self.added: list[Request] = []
        """Everything that was added, in that order, if it is remembered."""
        self._forgetful = forgetful
        self._count = 0  # of those that were added
        self.taken = 0
        """Number of requests taken so far."""
        self.time = self._next.arrival if self._next is not None else NEVER
        """When the next request arrives; NEVER if none is known."""

    def add(self, request: Request) -> None:
        """A session sends ``request``, which arrives later than everything taken so far."""
        arrival = request.arrival
        heapq.heappush(self._added, (arrival, self._count, request))
        self._count += 1
        if not self._forgetful:
            self.added.append(request)
        if arrival < self.time:
            self.time = arrival

    def take_until(self, latest: int, most: int) -> list[Request]:
        """Requests of the workload that arrive by ``latest``, at most ``most``; none is added."""
        group: list[Request] = []
        following = self._next
        while following is not None and following.arrival <= latest and len(group) < most:
            group.append(following)
            following = next(self._requests, None)
        self._next = following
        self.taken += len(group)
        self.time = following.arrival if following is not None else NEVER
        return group

    def take(self) -> list[Request]:
        """All requests of the next instant: the workload's first, then added ones as created."""
        time, following, added = self.time, self._next, self._added
        group: list[Request] = []
        if following is not None and following.arrival == time:
            while following is not None and following.arrival == time:
                group.append(following)
                following = next(self._requests, None)
            self._next = following
        while added and added[0][0] == time:
            group.append(heapq.heappop(added)[2])
        self.taken += len(group)
        time = following.arrival if following is not None else NEVER
        self.time = added[0][0] if added and added[0][0] < time else time
        return group
