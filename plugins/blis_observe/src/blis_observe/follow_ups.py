"""Sessions while a server is observed: what is sent next depends on real answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from blis_core.api import COMPLETED, TIMED_OUT, SessionManager
from blis_observe.exchange import OK, Answer

if TYPE_CHECKING:
    from blis_core.api import Request, Traffic


class Sessions:
    """The sessions of a workload. ``requests`` are those to begin with."""

    def __init__(self, traffic: Traffic, requests: Iterable[Request]) -> None:
        workload = traffic.workload
        self._manager = SessionManager(workload.sessions, workload.follow_up_budget)
        known = {blueprint.session for blueprint in workload.sessions}
        self._open = {request.session for request in requests} & known

    @property
    def active(self) -> int:
        """Sessions of which another request may come."""
        return len(self._open)

    def answered(self, request: Request, answer: Answer, time: int) -> list[Request]:
        """At most one request that follows; its arrival is ``time`` (us) plus a think time.

        An answer that is not ``ok`` ends the session.
        """
        if request.session not in self._open:
            return []
        if answer.status == OK:
            _note_output(request, max(0, answer.output_tokens))
            request.state = COMPLETED
        else:
            request.state = TIMED_OUT
        following = self._manager.on_done(request, time)
        if not following:
            self._open.discard(request.session)
        return following


def _note_output(request: Request, count: int) -> None:
    """Give ``request`` an output of ``count`` tokens, with ids 1, 2, ...: what a context grows by
    (its text is not looked at)."""
    import numpy as np

    tokens = request.tokens
    assert tokens is not None
    output = np.arange(1, count + 1, dtype=tokens.dtype)
    request.tokens = np.concatenate((tokens[: request.prompt_len], output))
    request.output_len = request.itl_count = count
