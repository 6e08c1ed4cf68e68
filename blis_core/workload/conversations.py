"""Sessions of several rounds, drawn like other requests: see :mod:`blis_core.workload.generation`.

Rounds come in the order in which they are drawn, which for overlapping sessions is not that of
arrival; :func:`by_arrival` restores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import attrs
import numpy as np

from blis_core.contracts import LengthSampler, Request
from blis_core.records import Record
from blis_core.workload.activity import Activity
from blis_core.workload.generation import Source, Traits

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Conversation(Record):
    """What the sessions of a client have in common."""

    rounds: int
    """>= 1."""
    think_time_us: int
    accumulate: bool
    """Whether a prompt repeats the conversation so far."""
    make_ratios: Callable[[], LengthSampler | None]
    """Makes the sampler of the percentage of reasoning, when the first session begins."""
    horizon: int
    """A session is cut at its first round from this time on."""
    activity: Activity | None
    """Rounds outside are left out; None = none is."""
    first_only: bool = False
    """Later rounds count, but nobody will look at them: they get no tokens."""


def session_requests(
    times: Iterable[int], source: Source, traits: Traits, talk: Conversation, limit: int = 0
) -> Iterator[Request]:
    """One session from each of ``times`` on, until ``limit`` rounds were drawn (0 = no limit)."""
    ratios: LengthSampler | None = None
    drawn = 0
    for time in times:
        if not drawn:
            ratios = talk.make_ratios()
        yield from _rounds(time, source, traits, talk, ratios)
        drawn += talk.rounds
        if drawn >= limit > 0:
            return


def _rounds(
    arrival: int, source: Source, traits: Traits, talk: Conversation, ratios: LengthSampler | None
) -> Iterator[Request]:
    """One session. All rounds are drawn, whether or not they are to be kept."""
    rng = source.rng
    session = f"sess_{rng.int63()}"
    context: TokenArray | None = None
    over = False
    for index in range(talk.rounds):
        ids: TokenArray | None
        ids, n_in, n_out = source.content()
        ratio = 0.0
        if ratios is not None:
            ratio = min(1.0, max(0.0, ratios.next(rng) / 100))
        over = over or arrival >= talk.horizon
        if index and (over or talk.first_only):
            ids = None
        elif talk.accumulate:
            if context is not None:
                n_in += len(context)
                ids = np.concatenate((context, ids))
            context = ids
        if not over and (talk.activity is None or arrival in talk.activity):
            request = traits.request(arrival, ids, n_in, n_out)
            request.session = session
            request.round_index = index
            request.reason_ratio = ratio
            yield request
        # A token of output takes one microsecond.
        arrival += talk.think_time_us + n_out


def by_arrival(rounds: Iterable[Request]) -> Iterator[Request]:
    """The sessions of one client in order of arrival, equal ones as drawn.

    Holds back only what a later session can precede. Needs think times of at least 0: then nothing
    arrives before the first round of its session, and first rounds come in order.
    """
    waiting: list[tuple[int, int, Request]] = []
    for drawn, request in enumerate(rounds):
        if request.round_index == 0:
            while waiting and waiting[0][0] <= request.arrival:
                yield heappop(waiting)[2]
        heappush(waiting, (request.arrival, drawn, request))
    while waiting:
        yield heappop(waiting)[2]
