"""The wait queue of an instance, in the two forms that schedulers ask for.

A request that times out while it waits is only counted off; its entry is skipped when it comes up.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any, Protocol

from blis_core.contracts import TIMED_OUT, Request, Scheduler


class WaitQueue(Protocol):
    """What the engine needs of a wait queue; its length counts live requests."""

    count: int
    fixed_head: bool
    """True: a request that joins at the back never becomes the head."""

    def push(self, request: Request) -> None:
        """Join at the back."""

    def push_front(self, request: Request) -> None:
        """Return after a preemption."""

    def head(self) -> Request:
        """The request to be served next (the queue must not be empty)."""

    def pop(self) -> None:
        """Remove the head."""

    def discard(self, request: Request) -> None:
        """Remove a request that has just timed out."""


class FcfsQueue:
    """Arrival order; preempted requests in front."""

    fixed_head = True

    def __init__(self) -> None:
        self.count = 0
        self._entries: deque[Request] = deque()

    def push(self, request: Request) -> None:
        """Join at the back."""
        self._entries.append(request)
        self.count += 1

    def push_front(self, request: Request) -> None:
        """Return after a preemption."""
        self._entries.appendleft(request)
        self.count += 1

    def head(self) -> Request:
        """The request to be served next."""
        entries = self._entries
        while entries[0].state is TIMED_OUT:
            entries.popleft()
        return entries[0]

    def pop(self) -> None:
        """Remove the head that ``head`` has returned."""
        self._entries.popleft()
        self.count -= 1

    def discard(self, request: Request) -> None:
        """Remove a request that has just timed out."""
        self.count -= 1


class KeyedQueue:
    """Order by the scheduler's key."""

    fixed_head = False

    def __init__(self, scheduler: Scheduler) -> None:
        self.count = 0
        self._key = scheduler.key
        self._entries: list[tuple[Any, int, Request]] = []
        self._joined = 0

    def push(self, request: Request) -> None:
        """Join at the place that the key gives."""
        # the counter keeps requests out of the comparison should a plugin's keys repeat
        self._joined += 1
        heapq.heappush(self._entries, (self._key(request), self._joined, request))
        self.count += 1

    push_front = push

    def head(self) -> Request:
        """The request to be served next."""
        entries = self._entries
        while entries[0][2].state is TIMED_OUT:
            heapq.heappop(entries)
        return entries[0][2]

    def pop(self) -> None:
        """Remove the head that ``head`` has returned."""
        heapq.heappop(self._entries)
        self.count -= 1

    def discard(self, request: Request) -> None:
        """Remove a request that has just timed out."""
        self.count -= 1


def wait_queue(scheduler: Scheduler) -> WaitQueue:
    """The queue for a scheduler."""
    return FcfsQueue() if scheduler.fcfs else KeyedQueue(scheduler)
