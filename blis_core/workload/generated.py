"""What the generation of a workload results in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import attrs

from blis_core.contracts import Request
from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.workload.sessions import Blueprint

UNLIMITED = -1


class FollowUps(Protocol):
    """What goes on sending according to what becomes of earlier requests."""

    def on_done(self, request: Request, tick: int) -> list[Request]:
        """``request`` completed, timed out or was dropped at ``tick`` (us); what follows later."""

    def on_lost(self, request: Request, now: int) -> list[Request]:
        """``request`` was turned away by the cluster at ``now`` (us); what follows later."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class GeneratedWorkload(Record):
    """Requests to begin with, and how sessions go on."""

    requests: Iterable[Request] = ()
    """In order of arrival, with ids. To be gone through once if ``streamed``."""
    sessions: list[Blueprint] = attrs.field(factory=list)
    """For a :class:`~blis_core.workload.sessions.SessionManager`; empty = no session goes on."""
    follow_up_budget: int = 0
    """Most follow-ups of all sessions together; -1 = unlimited."""
    follow_ups: FollowUps | None = None
    """Goes on sending instead of sessions."""
    warnings: list[str] = attrs.field(factory=list)
    """What the user probably did not intend; nobody has been told yet."""
    streamed: bool = True
    """Requests are made while they are asked for, not held in memory."""
