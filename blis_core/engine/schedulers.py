"""Built-in orders of the wait queue, and the priority policies that two of them look at.

The reference computes ``sign * 1e-6 * age`` for every waiting request at every step and sorts.
Distinct ages give distinct floats, so that order is one of arrival times and never changes while
requests wait: a constant key per request says the same.
"""

from __future__ import annotations

from typing import Any

from blis_core.contracts import PriorityPolicy, Request, Scheduler

PRIORITY_POLICIES = {
    "constant": PriorityPolicy("constant", 0),
    "slo-based": PriorityPolicy("slo-based", 1),
    "inverted-slo": PriorityPolicy("inverted-slo", -1),
}


class Fcfs(Scheduler):
    """First come, first served; preempted requests go to the front."""

    fcfs = True

    def key(self, request: Request) -> Any:
        """Not used: the queue keeps its own order."""
        return None


class PriorityFcfs(Scheduler):
    """Highest priority first, then by arrival, then by id."""

    def key(self, request: Request) -> Any:
        """Older requests have the higher priority under ``slo-based``: their arrival is smaller."""
        return (self.priority.sign * request.arrival, request.arrival, request.id)


class ReversePriority(Scheduler):
    """Lowest priority first, then by arrival, then by id."""

    def key(self, request: Request) -> Any:
        """The mirror image of ``PriorityFcfs`` in its first part."""
        return (-self.priority.sign * request.arrival, request.arrival, request.id)


class ShortestJobFirst(Scheduler):
    """Shortest prompt first, then by arrival, then by id."""

    def key(self, request: Request) -> Any:
        """Output lengths are unknown to a scheduler."""
        return (request.prompt_len, request.arrival, request.id)
