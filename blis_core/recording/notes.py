"""Notes that are taken on requests while a simulation runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from blis_core.recording.phases import Outcome, Phase

if TYPE_CHECKING:
    from blis_core.contracts import Request

Mark = tuple[int, Phase, int]
"""Since when (us), what, and on which instance (-1 = none)."""


class Note:
    """What is known of one request, or of one half of a disaggregated one."""

    __slots__ = ("cached", "end", "first_step", "marks", "outcome", "preemptions", "request")

    def __init__(self, request: Request) -> None:
        self.request = request  # also keeps its id() from being given to another one
        self.marks: list[Mark] = []
        """In the order in which they were made; a later one cuts off what comes before it."""
        self.end = -1
        """us; -1 = it has not ended."""
        self.outcome = Outcome.UNFINISHED
        self.cached = 0
        """Prompt tokens that were in the cache when it was scheduled first."""
        self.preemptions = 0
        self.first_step = -1
        """Number of the first step of its present stay in a batch; -1 = it never was in one."""

    def mark(self, time: int, phase: Phase, instance: int = -1) -> None:
        """From ``time`` on it does ``phase``."""
        self.marks.append((time, phase, instance))

    def ended(self, time: int, outcome: Outcome) -> None:
        """It ended at ``time``."""
        self.end = time
        self.outcome = outcome


class Notes:
    """The notes of a run by request."""

    def __init__(self) -> None:
        self._notes: dict[int, Note] = {}

    def of(self, request: Request) -> Note:
        """The note of ``request``, a new one if there is none."""
        note = self._notes.get(id(request))
        if note is None:
            note = self._notes[id(request)] = Note(request)
        return note

    def known(self, request: Request) -> Note | None:
        """The note of ``request``, if there is one."""
        return self._notes.get(id(request))

    def __iter__(self) -> Iterator[Note]:
        """All of them, in the order in which they were begun."""
        return iter(self._notes.values())
