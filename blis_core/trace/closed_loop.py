"""Replay in a closed loop: the rounds of a recorded session wait for simulated answers.

Only the first request of a session arrives when it did. How the session goes on is a
:class:`~blis_core.workload.sessions.Blueprint` with the recorded lengths, and with think times that
are recorded, constant or drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from blis_core import log
from blis_core.contracts import LengthSampler, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.trace.replay import (
    SharedTokens,
    check_rows,
    check_unique,
    empty_prompt,
    replay_horizon,
    requests_of,
)
from blis_core.trace.rows import TraceRow, TraceRows
from blis_core.trace.tracev2 import read_trace
from blis_core.workload.generated import UNLIMITED, GeneratedWorkload
from blis_core.workload.sessions import Blueprint
from blis_core.workload.think_time import parse_think_time


class RecordedValues(LengthSampler):
    """Gives back whole numbers in the order in which they were recorded, over and over.

    Draws nothing. It serves one session; of no values it makes ones.
    """

    def __init__(self, values: Sequence[int]) -> None:
        self._values = values or (1,)
        self._next = 0

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [self.next(rng) for _ in range(n)]

    def next(self, rng: GoRand) -> int:
        value = self._values[self._next % len(self._values)]
        self._next += 1
        return value


ThinkTimes = Callable[[Sequence[TraceRow]], LengthSampler]
"""Makes the sampler (us) of one session from the rows of all its rounds."""


def recorded_gaps(rounds: Sequence[TraceRow]) -> LengthSampler:
    """From one recorded arrival to the next, so that the recorded time of service counts as
    thinking (reference quirk 05a-12). Never negative."""
    arrivals = [row.arrival_time_us for row in rounds]
    return RecordedValues([max(0, b - a) for a, b in pairwise(arrivals)])


def think_times(think_time_ms: int | None, distribution: str | None) -> ThinkTimes:
    """Think times of the options: drawn if there is a ``distribution`` (see
    :mod:`blis_core.workload.think_time`), constant if the time is above 0, recorded otherwise.

    BlisError for a malformed distribution.
    """
    if distribution is not None:
        sampler = parse_think_time(distribution)
        return lambda _: sampler
    if think_time_ms:
        return lambda _: RecordedValues((think_time_ms * 1000,))
    return recorded_gaps


def load_closed_loop(
    header_path: str,
    data_path: str,
    seed: int,
    think_times: ThinkTimes = recorded_gaps,
    horizon: int | None = None,
) -> tuple[GeneratedWorkload, int]:
    """:func:`closed_loop_workload` of the trace in these files."""
    rows = read_trace(header_path, data_path).rows
    return closed_loop_workload(rows, seed, data_path, think_times, horizon)


def closed_loop_workload(
    rows: TraceRows,
    seed: int,
    source: str,
    think_times: ThinkTimes = recorded_gaps,
    horizon: int | None = None,
) -> tuple[GeneratedWorkload, int]:
    """First requests of sessions, then all requests without one, and how the sessions go on; and
    the horizon in us, by default twice the last arrival among those (reference quirk 05a-11).

    BlisError, naming ``source`` and row, for a trace that cannot be replayed: no rows, rounds of a
    session that are not 0, 1, 2 and so on, prompts of no tokens, ids given twice.
    """
    check_rows(rows, source)
    rng = GoRand(seed)
    shared = SharedTokens(rows, rng)
    sessions, alone = _sessions(rows, source)
    if not sessions:
        log.warning(f"{source}: no row has a session_id, so all requests arrive as recorded")
    firsts = [places[0] for places in sessions]
    _check_prompts(rows, firsts + alone, shared, source)
    _check_follow_ups(rows, sessions, shared, source)
    requests: list[Request] = []
    streams: list[GoRand] = []
    for first in firsts:
        streams.append(GoRand(rng.int63()))
        requests += requests_of(rows.take([first]), streams[-1], shared)
    requests += requests_of(rows.take(alone), rng, shared)
    if horizon is None:
        horizon = replay_horizon(requests)
    blueprints = [
        _blueprint([rows[place] for place in places], stream, shared, think_times, horizon)
        for places, stream in zip(sessions, streams, strict=True)
    ]
    workload = GeneratedWorkload(
        requests=requests, sessions=blueprints, follow_up_budget=UNLIMITED, streamed=False
    )
    return workload, horizon


def _sessions(rows: TraceRows, source: str) -> tuple[list[list[int]], list[int]]:
    """Places of the rows of each session, sessions in order of first appearance and rows in order
    of rounds; and places of the rows without a session.

    BlisError unless the rounds of a session are 0, 1, 2 and so on.
    """
    ids, rounds = rows.fields("session_id", "round_index")
    sessions: dict[str, list[int]] = {}
    alone: list[int] = []
    for place, session in enumerate(ids):
        (sessions.setdefault(session, []) if session else alone).append(place)
    for session, places in sessions.items():
        places.sort(key=lambda place: rounds[place])
        for expected, place in enumerate(places):
            if rounds[place] != expected:
                raise BlisError(
                    f"{source}, row {place + 1}: session {session!r} goes on with round"
                    f" {rounds[place]} where round {expected} is due; in a closed loop, rounds"
                    " are 0, 1, 2 and so on (--session-mode fixed does without)"
                )
    return list(sessions.values()), alone


def _check_prompts(
    rows: TraceRows, places: Sequence[int], shared: SharedTokens, source: str
) -> None:
    """BlisError for an empty prompt, or an id given twice, among the rows at ``places``.

    The ids of later rounds do not matter: those requests get other ones.
    """
    for place in sorted(places):
        row = rows[place]
        known = row.prefix_group in shared.prefixes or (rows.blocks and rows.blocks.numbers[place])
        if row.input_tokens == 0 and not known:
            raise empty_prompt(source, place + 1)
    ids = rows.column("request_id")
    check_unique(((place + 1, ids[place]) for place in sorted(places)), source)


def _check_follow_ups(
    rows: TraceRows, sessions: Sequence[Sequence[int]], shared: SharedTokens, source: str
) -> None:
    """BlisError for a later round with an empty prompt, or with one that is made of blocks."""
    groups, inputs = rows.fields("prefix_group", "input_tokens")
    for first, *later in sessions:
        for place in later:
            if rows.blocks is not None and rows.blocks.numbers[place]:
                raise BlisError(
                    f"{source}, row {place + 1}: {rows.blocks.column} cannot be kept in a closed"
                    " loop, where later rounds get new prompts; use --session-mode fixed"
                )
            if inputs[place] == 0 and groups[first] not in shared.prefixes:
                raise empty_prompt(source, place + 1)


def _blueprint(
    rounds: Sequence[TraceRow],
    stream: GoRand,
    shared: SharedTokens,
    think_times: ThinkTimes,
    horizon: int,
) -> Blueprint:
    """The rounds behind the first one. They begin with the prefix of the first, which their
    recorded lengths may have in them already (reference quirk 05a-4)."""
    first, *later = rounds
    return Blueprint(
        session=first.session_id,
        inputs=RecordedValues([row.input_tokens for row in later]),
        outputs=RecordedValues([row.output_tokens for row in later]),
        random=stream,
        horizon=horizon,
        max_rounds=len(rounds),
        think_times=think_times(rounds),
        prefix=shared.prefixes.get(first.prefix_group),
        client=first.client_id,
        tenant=first.tenant_id,
        slo_class=first.slo_class,
        model=first.model,
    )
