"""Deadlines of the requests of an instance: which comes next, and whose it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from heapq import heapify, heappop, heappush

from blis_core.contracts import COMPLETED, Request
from blis_core.engine.plan import NEVER

_Entry = tuple[int, int, Request]


class Timeouts:
    """Deadlines by (time, sequence number). Those that come in this order cost next to nothing.

    That is all of them if every request has the same patience.
    """

    __slots__ = ("_heap", "_line", "due")

    def __init__(self) -> None:
        self.due = NEVER
        """The earliest deadline, also of a request that has completed; NEVER if there is none."""
        self._line: deque[_Entry] = deque()
        self._heap: list[_Entry] = []  # what came out of order

    def push(self, deadline: int, sequence: int, request: Request) -> None:
        """Note the deadline of ``request``, and forget those of the earliest that have completed.

        ``sequence`` is larger than that of any other one.
        """
        line, heap = self._line, self._heap
        if line and not heap and deadline >= line[-1][0] and line[0][2].state is not COMPLETED:
            line.append((deadline, sequence, request))  # as usual
            return
        self.skip_completed()  # lest they be kept in memory
        if line and deadline < line[-1][0]:
            heappush(heap, (deadline, sequence, request))
        else:
            line.append((deadline, sequence, request))
        if deadline < self.due:
            self.due = deadline

    def pop(self) -> Request:
        """Take the earliest one out, which there must be."""
        line, heap = self._line, self._heap
        request = (heappop(heap) if heap and (not line or heap[0] < line[0]) else line.popleft())[2]
        self._look()
        return request

    def skip_completed(self) -> None:
        """Take out the earliest ones whose requests have completed."""
        line, heap = self._line, self._heap
        while line and line[0][2].state is COMPLETED:
            line.popleft()
        while heap and heap[0][2].state is COMPLETED:
            heappop(heap)
        self._look()

    def leave_out(self, ids: Container[int]) -> None:
        """Take out the requests of these object ids."""
        self._line = deque(entry for entry in self._line if id(entry[2]) not in ids)
        self._heap = [entry for entry in self._heap if id(entry[2]) not in ids]
        heapify(self._heap)
        self._look()

    def requests(self) -> Iterator[Request]:
        """All requests whose deadlines are known, in any order."""
        for entries in (self._line, self._heap):
            for entry in entries:
                yield entry[2]

    def _look(self) -> None:
        line, heap = self._line, self._heap
        due = line[0][0] if line else NEVER
        self.due = heap[0][0] if heap and heap[0][0] < due else due
