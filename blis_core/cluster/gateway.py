"""The gateway's queue of requests that are held while the cluster is saturated.

One queue per priority, since classes are few: each operation looks at the ends of those queues
only, whatever their length.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING

from blis_core.cluster.slo import SloPriorities
from blis_core.contracts import Request

if TYPE_CHECKING:
    from blis_core.cluster.saturation import SaturationDetector

_Entry = tuple[int, Request]
"""Position in order of entry, and the request."""


class Gateway:
    """The queue in front of the fleet and the detector that holds it."""

    def __init__(self, queue: GatewayQueue, detector: SaturationDetector) -> None:
        self.queue = queue
        self.detector = detector


class GatewayQueue:
    """Holds requests; when it is full, the least important one goes."""

    def __init__(self, priorities: SloPriorities, *, order: str = "fifo", limit: int = 0) -> None:
        """``order`` is fifo or priority (oldest first among equals); ``limit`` 0 = unlimited."""
        self._priorities = priorities
        self._by_priority = order == "priority"
        self._limit = limit
        self._queues: dict[int, deque[_Entry]] = {}
        self._levels: list[int] = []  # priorities with entries, ascending
        self._entered = 0
        self._count = 0

    def __len__(self) -> int:
        """Requests that are held."""
        return self._count

    def enqueue(self, request: Request, now: int) -> Request | None:
        """Hold ``request``. Returns who was shed to keep the limit, maybe ``request`` itself.

        The victim is the newest entry of the lowest priority, in fifo order too. A request that is
        not more important than the victim goes itself, and bears no trace of the attempt.
        """
        priority = self._priorities.of(request.slo_class)
        victim: Request | None = None
        if 0 < self._limit <= self._count:
            lowest = self._levels[0]
            if priority <= lowest:
                request.gateway_enqueue = 0
                return request
            victim = self._take(lowest, newest=True)
        queue = self._queues.get(priority)
        if queue is None:
            queue = self._queues[priority] = deque()
        if not queue:
            insort(self._levels, priority)
        request.gateway_enqueue = now
        queue.append((self._entered, request))
        self._entered += 1
        self._count += 1
        return victim

    def dequeue(self, now: int) -> Request | None:
        """Let the next request go; None if nothing is held."""
        if not self._count:
            return None
        level = self._levels[-1]
        if not self._by_priority and len(self._levels) > 1:
            level = min(self._levels, key=lambda priority: self._queues[priority][0][0])
        request = self._take(level)
        request.gateway_dispatch = now
        return request

    def _take(self, level: int, *, newest: bool = False) -> Request:
        """Remove the oldest (or newest) entry of a priority that has entries."""
        queue = self._queues[level]
        _, request = queue.pop() if newest else queue.popleft()
        if not queue:
            self._levels.remove(level)
        self._count -= 1
        return request
