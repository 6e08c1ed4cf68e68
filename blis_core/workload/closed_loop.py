"""Clients that wait for an answer before they send again: sessions and concurrent users.

Of a session only the first request is sent at a time known beforehand. The rest of it is a
:class:`~blis_core.workload.sessions.Blueprint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import attrs

from blis_core.contracts import Request
from blis_core.records import Record
from blis_core.rng import GoRand
from blis_core.workload.clients import client_source, request_traits
from blis_core.workload.generated import UNLIMITED
from blis_core.workload.sessions import Blueprint
from blis_core.workload.spec import ACCUMULATE, Client

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray

_BLUEPRINTS, _USERS = 7919, 10007
"""Offsets from the seed of the workload to those of the streams used here."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Loops(Record):
    """Requests to begin with, without ids, and the sessions that they begin."""

    requests: list[Request]
    sessions: list[Blueprint]
    follow_up_budget: int
    warnings: list[str]


def close_loops(
    drawn: list[Request],
    looping: Sequence[Client],
    users: Sequence[Client],
    prefixes: dict[str, TokenArray],
    seed: int,
    horizon: int,
    max_requests: int,
) -> Loops:
    """Turn the rounds of ``looping`` clients into sessions, and add the requests of ``users``.

    ``drawn`` are the requests of all rate-based clients in order, cut at ``max_requests`` (0 =
    unlimited): the limit is spent on rounds that are dropped here (reference quirk 04-8).
    """
    idle: list[str] = []
    sessions: list[Blueprint] = []
    firsts = _first_requests(drawn, looping)
    rng = GoRand(seed + _BLUEPRINTS)
    for client in looping:
        found = _sessions(client, firsts[client.id], rng, horizon)
        if not found:
            idle.append(client.id)
        sessions += found
    closed = {blueprint.session for blueprint in sessions}
    requests = [r for r in drawn if r.round_index == 0 or r.session not in closed]
    rng = GoRand(seed + _USERS)
    for client in users:
        room = max(0, max_requests - len(requests)) if max_requests else client.concurrency
        prefix = prefixes.get(client.prefix_group)
        for request, blueprint in _users(client, room, rng, prefix, horizon):
            requests.append(request)
            sessions.append(blueprint)
    requests.sort(key=attrgetter("arrival"))
    budget = UNLIMITED
    if max_requests and users:
        budget = max(0, max_requests - len(requests))
    return Loops(
        requests=requests, sessions=sessions, follow_up_budget=budget, warnings=_of_idle(idle)
    )


def _of_idle(clients: Sequence[str]) -> list[str]:
    """One warning about clients of a closed loop that never begin, however many there are."""
    if not clients:
        return []
    who = f"client {clients[0]!r} works"
    if len(clients) > 1:
        who = f"clients {clients[0]!r} and {len(clients) - 1} more work"
    where = "begins within the horizon, their windows and the number of requests"
    return [f"{who} in a closed loop, but no session of theirs {where}"]


# --------------------------------------------------------------------------------------- sessions


def _first_requests(
    drawn: Iterable[Request], looping: Sequence[Client]
) -> dict[str, list[Request]]:
    """First rounds by client id. Of two clients with one id, each gets those of both (reference
    quirk 04-18)."""
    firsts: dict[str, list[Request]] = {client.id: [] for client in looping}
    for request in drawn:
        if request.round_index == 0 and request.client in firsts:
            firsts[request.client].append(request)
    return firsts


def _sessions(client: Client, firsts: list[Request], rng: GoRand, horizon: int) -> list[Blueprint]:
    """A blueprint for each session of a client. Draws a seed for each, by ascending session id."""
    talk = client.multi_turn
    assert talk is not None
    source = client_source(client, rng)
    prefix = _follow_up_prefix(client, firsts)
    return [
        Blueprint(
            session=session,
            inputs=source.prompts,
            outputs=source.outputs,
            random=rng.int63(),
            horizon=horizon,
            max_rounds=talk.max_rounds,
            accumulate=talk.context_growth == ACCUMULATE,
            think_time_us=talk.think_time_us,
            prefix=prefix,
            timeout=client.timeout,
            client=client.id,
            tenant=client.tenant_id,
            slo_class=client.slo_class,
            model=client.model,
        )
        # Sorted as texts, not as the numbers in them: reference quirk 04-16.
        for session in sorted(request.session for request in firsts if request.session)
    ]


def _follow_up_prefix(client: Client, firsts: list[Request]) -> TokenArray | None:
    """What later rounds begin with: as much of the first prompt as the client's own prefix length.

    That need not be the prefix of the group: nothing if the client gives no length, and a part of
    the prompt, or too little, if the group has another length (reference quirk 04-3).
    """
    length = client.prefix_length
    if not (client.prefix_group and length > 0 and firsts):
        return None
    first = firsts[0]
    if first.prompt_len < length:
        return None
    assert first.tokens is not None
    return first.tokens[:length].copy()  # not a view, which would keep the whole request


# ------------------------------------------------------------------------------------------ users


def _users(
    client: Client, room: int, rng: GoRand, prefix: TokenArray | None, horizon: int
) -> Iterator[tuple[Request, Blueprint]]:
    """First request and blueprint of at most ``room`` users of a client.

    A think time spreads their starts over one of it. First requests ignore the horizon.
    """
    count, think = client.concurrency, client.think_time_us
    traits = request_traits(client, prefix, session=True)
    source = client_source(client, rng)
    for user in range(min(count, room)):
        own = source._replace(rng=GoRand(rng.int63()))
        request = traits.request(user * think // count, *own.content())
        request.session = f"concurrency_{client.id}_user_{user}"
        blueprint = Blueprint(
            session=request.session,
            inputs=source.prompts,
            outputs=source.outputs,
            random=rng.int63(),
            horizon=horizon,
            max_rounds=None,
            think_time_us=think,
            prefix=prefix,
            timeout=client.timeout,
            client=client.id,
            tenant=client.tenant_id,
            slo_class=client.slo_class,
            model=client.model,
        )
        yield request, blueprint
