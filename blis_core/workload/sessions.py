"""Sessions in a closed loop: what a client sends next depends on when it was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from blis_core.contracts import QUEUED, TIMED_OUT, LengthSampler, Request
from blis_core.records import Record
from blis_core.rng import GoRand
from blis_core.workload.deadlines import deadline, patience
from blis_core.workload.generation import refuse_length

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray

ACTIVE: Final = "active"
COMPLETED: Final = "completed"
CANCELLED: Final = "cancelled"
BUDGET_EXHAUSTED: Final = "budget-exhausted"
HORIZON_INTERRUPTED: Final = "horizon-interrupted"

CUT: Final = "cut"

STATUSES: Final = (ACTIVE, COMPLETED, CANCELLED, BUDGET_EXHAUSTED, HORIZON_INTERRUPTED, CUT)
"""What becomes of a session. Active: its current request has no answer yet; cut: that request was
turned away by the cluster, which ends the session as silently as in the reference."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Blueprint(Record):
    """How a session goes on after its first request."""

    session: str
    """Id that the first request carries."""
    inputs: LengthSampler
    """Tokens of a question, without context and prefix."""
    outputs: LengthSampler
    random: GoRand | int
    """The session's own stream, or the seed of it (which takes less memory)."""
    horizon: int
    """A round that would arrive after this time (us) is not sent."""
    max_rounds: int | None
    """>= 1, the first request included; None = unlimited."""
    accumulate: bool = False
    """Whether a prompt repeats the conversation so far."""
    think_time_us: int = 0
    """From an answer to the next question."""
    think_times: LengthSampler | None = None
    """Sampler of think times in us, instead of the constant."""
    prefix: TokenArray | None = None
    """What the prompts of later rounds begin with."""
    timeout: int | None = None
    """Patience in us; 0 = endless, None = the default of sessions."""
    client: str = ""
    tenant: str = ""
    slo_class: str = ""
    model: str = ""


class _Session:
    """State of a session. Stream and context exist only between its first and its last answer."""

    __slots__ = ("blueprint", "context", "patience", "rng", "round", "status")

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.patience = patience(blueprint.timeout, session=True)
        self.round = 0
        self.status = ACTIVE
        self.rng: GoRand | None = None
        self.context: TokenArray | None = None

    def end(self, status: str) -> None:
        self.status = status
        self.rng = self.context = None


class SessionManager:
    """Sends the next request of a session when the last one is done.

    ``budget`` is the number of follow-ups over all sessions, -1 = unlimited. Of two blueprints with
    one session id the later counts. ValueError for ``max_rounds`` below 1.
    """

    def __init__(self, blueprints: Iterable[Blueprint], budget: int = -1) -> None:
        self._sessions: dict[str, _Session] = {}
        for blueprint in blueprints:
            if blueprint.max_rounds is not None and blueprint.max_rounds < 1:
                raise ValueError(f"max_rounds must be at least 1, not {blueprint.max_rounds}")
            self._sessions[blueprint.session] = _Session(blueprint)
        self._budget = budget
        self.follow_ups = 0
        """Requests sent so far."""

    def counts(self) -> dict[str, int]:
        """Number of sessions by status, all of :data:`STATUSES` included."""
        found = Counter(session.status for session in self._sessions.values())
        return {status: found[status] for status in STATUSES}

    def on_lost(self, request: Request, now: int) -> list[Request]:
        """``request`` was turned away before it reached an instance: its session ends here."""
        session = self._sessions.get(request.session)
        if session is not None and session.status == ACTIVE:
            session.end(CUT)
        return []

    def on_done(self, request: Request, tick: int) -> list[Request]:
        """What follows when ``request`` completes, times out or is dropped at ``tick`` (us).

        At most one request, which arrives at ``tick`` plus a think time. Requests outside the
        sessions known here, such as the rounds of open-loop sessions, are none of its business
        (reference quirk 04-24 is to warn about each). The request needs its ``tokens``.
        """
        session = self._sessions.get(request.session)
        if session is None or session.status != ACTIVE:
            return []
        # A request that was dropped never left the queue.
        if request.state == TIMED_OUT or request.state == QUEUED:
            session.end(CANCELLED)
            return []
        plan = session.blueprint
        if plan.max_rounds is not None and session.round >= plan.max_rounds - 1:
            session.end(COMPLETED)
            return []
        if 0 <= self._budget <= self.follow_ups:
            session.end(BUDGET_EXHAUSTED)
            return []
        rng = session.rng
        if rng is None:
            random = plan.random
            rng = session.rng = GoRand(random) if isinstance(random, int) else random
        think = plan.think_time_us if plan.think_times is None else plan.think_times.next(rng)
        arrival = tick + think
        # Unlike a first request, it may arrive at the horizon itself: reference quirk 04-17.
        if arrival > plan.horizon:
            session.end(HORIZON_INTERRUPTED)
            return []
        return [self._follow_up(session, rng, request, arrival)]

    def _follow_up(self, session: _Session, rng: GoRand, last: Request, arrival: int) -> Request:
        plan = session.blueprint
        n_in = plan.inputs.next(rng)
        n_out = plan.outputs.next(rng)
        if n_in < 0 or n_out < 0:
            refuse_length(min(n_in, n_out))
        # The ids of the output are drawn right behind those of the prompt.
        behind = plan.prefix
        if plan.accumulate:
            behind = session.context = _grown(session.context, last)
            if plan.prefix is not None:
                # An accumulated context has the prefix of the first round in it already, and gets
                # another one every round: reference quirk 04-4.
                behind = np.concatenate((plan.prefix, behind))
        tokens = rng.tokens(n_in + n_out, behind)
        session.round += 1
        self.follow_ups += 1
        # The prefix is not declared as such, and other marks are missing: reference quirk 04-7.
        return Request(
            f"session_{plan.session}_round_{session.round}_{self.follow_ups}",
            arrival,
            tokens,
            len(tokens) - n_out,
            n_out,
            n_out,  # the budget
            deadline(arrival, session.patience),
            plan.client,
            plan.tenant,
            plan.slo_class,
            plan.model,
            plan.session,
            session.round,
        )


def _grown(context: TokenArray | None, last: Request) -> TokenArray:
    """``context`` with what the last request added to it.

    That is its prompt, from behind as many tokens as the context has, and its output without the
    last token, by which the progress of a request falls short (reference quirk 04-5).
    """
    tokens = last.tokens
    assert tokens is not None, "a session needs the tokens of its last request"
    end = last.prompt_len + min(last.itl_count, last.output_len)
    if context is None:
        return tokens[:end]
    start = min(len(context), last.prompt_len)
    return np.concatenate((context, tokens[start:end]))
