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

    @property
    def count(self) -> int:
        """Live requests."""

    @property
    def hidden(self) -> int:
        """How many of them the next batch does not know yet (only with a schedule lag)."""

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

    def reveal(self) -> None:
        """Hide nobody any longer."""


class FcfsQueue:
    """Arrival order; preempted requests in front."""

    __slots__ = ("_entries", "count", "fixed_head", "hidden")

    def __init__(self) -> None:
        self.fixed_head = True
        self.hidden = 0
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

    def reveal(self) -> None:
        """Nobody is hidden."""


class KeyedQueue:
    """Order by the scheduler's key."""

    __slots__ = ("_entries", "_joined", "_key", "count", "fixed_head", "hidden")

    def __init__(self, scheduler: Scheduler) -> None:
        self.fixed_head = False
        self.hidden = 0
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

    def reveal(self) -> None:
        """Nobody is hidden."""


class LaggingQueue:
    """Keeps those who join hidden from the next choice, until they are revealed."""

    def __init__(self, queue: WaitQueue) -> None:
        self._queue = queue
        self._fresh: list[Request] = []
        self.fixed_head = queue.fixed_head

    @property
    def count(self) -> int:
        """All who wait."""
        return self._queue.count + len(self._fresh)

    @property
    def hidden(self) -> int:
        """Those among them who are hidden."""
        return len(self._fresh)

    def push(self, request: Request) -> None:
        """Join, hidden."""
        self._fresh.append(request)

    def push_front(self, request: Request) -> None:
        """Return after a preemption, known to everybody."""
        self._queue.push_front(request)

    def head(self) -> Request:
        """The request to be served next; a hidden one only if there is no other."""
        if not self._queue.count:
            self.reveal()
        return self._queue.head()

    def pop(self) -> None:
        """Remove the head."""
        self._queue.pop()

    def discard(self, request: Request) -> None:
        """Remove a request that has just timed out."""
        if request in self._fresh:
            self._fresh.remove(request)
        else:
            self._queue.discard(request)

    def reveal(self) -> None:
        """Let those who have joined take their places."""
        for request in self._fresh:
            self._queue.push(request)
        self._fresh.clear()


def wait_queue(scheduler: Scheduler, *, lagging: bool = False) -> WaitQueue:
    """The queue for a scheduler; ``lagging`` for a schedule lag."""
    queue: WaitQueue = FcfsQueue() if scheduler.fcfs else KeyedQueue(scheduler)
    return LaggingQueue(queue) if lagging else queue
