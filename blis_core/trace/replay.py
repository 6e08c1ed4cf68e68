"""From the rows of a trace to requests that arrive when they did: replay in fixed mode."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import numpy as np

from blis_core.contracts import MAX_INT64, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.trace.rows import TraceRows
from blis_core.trace.tracev2 import read_trace

_HORIZON_WITHOUT_ARRIVALS = 600_000_000  # 10 min


def load_replay(
    header_path: str | os.PathLike[str], data_path: str | os.PathLike[str], seed: int
) -> list[Request]:
    """The requests of a trace, in file order. Raises BlisError for a trace that cannot be replayed.

    Token ids are drawn from ``seed``; the seed in the header is not used.
    """
    rows = read_trace(header_path, data_path).rows
    check_replayable(rows, os.fspath(data_path))
    return list(fixed_requests(rows, seed))


def replay_horizon(requests: Iterable[Request]) -> int:
    """The horizon if none is given: twice the last arrival, in us."""
    last = max((r.arrival for r in requests), default=0)
    if last <= 0:
        return _HORIZON_WITHOUT_ARRIVALS
    return min(2 * last, MAX_INT64)


def check_replayable(rows: TraceRows, source: str) -> None:
    """Raise BlisError for no rows, a prompt of no tokens, or two rows of one request id."""
    if not rows:
        raise BlisError(f"{source}: the trace has no rows, so there is nothing to replay")
    lengths = _group_lengths(rows)
    for row, (group, tokens) in enumerate(rows.columns("prefix_group", "input_tokens"), start=1):
        if tokens == 0 and group not in lengths:
            raise BlisError(
                f"{source}, row {row}: the prompt is empty (input_tokens 0 and no prefix); "
                "a request needs at least one prompt token"
            )
    ids = rows.column("request_id")
    if len(set(ids)) < len(ids):
        seen: dict[int, int] = {}
        for row, number in enumerate(ids, start=1):
            if number in seen:
                raise BlisError(
                    f"{source}, rows {seen[number]} and {row}: request_id {number} is given twice; "
                    "ids must be unique"
                )
            seen[number] = row


def _group_lengths(rows: TraceRows) -> dict[str, int]:
    """Prefix length of each group: that of its first row with a positive one."""
    lengths: dict[str, int] = {}
    for group, length in rows.columns("prefix_group", "prefix_length"):
        if length > 0 and group and group not in lengths:
            lengths[group] = length
    return lengths


_USED = (
    *("request_id", "arrival_time_us", "input_tokens", "output_tokens", "deadline_us"),
    *("client_id", "tenant_id", "slo_class", "session_id", "round_index"),
    *("prefix_group", "prefix_length", "streaming"),
    *("text_tokens", "image_tokens", "audio_tokens", "video_tokens", "reason_ratio", "model"),
)


def fixed_requests(rows: TraceRows, seed: int) -> Iterator[Request]:
    """The requests of ``rows`` in file order, made one at a time.

    Prefixes are drawn first, one per group, then prompt and output of each row. A row whose group
    has a prefix gets it in front of its own prompt, whatever its own ``prefix_length`` says.
    """
    rng = GoRand(seed)
    tokens, concatenate = rng.tokens, np.concatenate
    prefixes = {group: tokens(length) for group, length in _group_lengths(rows).items()}
    for (
        number,
        arrival,
        n_in,
        n_out,
        deadline,
        client,
        tenant,
        slo_class,
        session,
        round_index,
        group,
        prefix_length,
        streaming,
        text,
        image,
        audio,
        video,
        reason_ratio,
        model,
    ) in rows.columns(*_USED):
        ids = tokens(n_in + n_out)  # the prompt's ids come before the output's
        prompt_len = n_in
        if group in prefixes:
            prefix = prefixes[group]
            prompt_len += len(prefix)
            ids = concatenate((prefix, ids))
        yield Request(
            f"request_{number}",
            arrival,
            ids,
            prompt_len,
            n_out,
            max_output=n_out,
            deadline=deadline,
            client=client,
            tenant=tenant,
            slo_class=slo_class,
            session=session,
            round_index=round_index,
            prefix_group=group,
            prefix_length=prefix_length,
            streaming=streaming,
            text_tokens=text,
            image_tokens=image,
            audio_tokens=audio,
            video_tokens=video,
            reason_ratio=reason_ratio,
            model=model,
        )
