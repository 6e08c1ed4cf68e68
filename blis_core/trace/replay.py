"""From the rows of a trace to requests that arrive when they did: replay in fixed mode."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING

import numpy as np

from blis_core.contracts import MAX_INT64, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.trace.prompt_blocks import PromptBlocks
from blis_core.trace.rows import TraceRows
from blis_core.trace.tracev2 import read_trace

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray

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


# ----------------------------------------------------------------------------------------- checks


def check_replayable(rows: TraceRows, source: str) -> None:
    """Raise BlisError for no rows, a prompt of no tokens, or two rows of one request id."""
    check_rows(rows, source)
    lengths = group_lengths(rows)
    for row, (group, tokens, numbers) in enumerate(
        zip(*rows.fields("prefix_group", "input_tokens"), block_numbers(rows), strict=False),
        start=1,
    ):
        if tokens == 0 and not numbers and group not in lengths:
            raise empty_prompt(source, row)
    ids = rows.column("request_id")
    if len(set(ids)) < len(ids):
        check_unique(enumerate(ids, start=1), source)


def check_rows(rows: TraceRows, source: str) -> None:
    """Raise BlisError if there are no rows."""
    if not rows:
        raise BlisError(f"{source}: the trace has no rows, so there is nothing to replay")


def empty_prompt(source: str, row: int) -> BlisError:
    """The error for a prompt of no tokens (the reference crashes)."""
    return BlisError(
        f"{source}, row {row}: the prompt is empty (input_tokens 0 and no prefix); "
        "a request needs at least one prompt token"
    )


def check_unique(ids: Iterable[tuple[int, int]], source: str) -> None:
    """Raise BlisError for two rows of one request id; ``ids`` are pairs of row and id.

    The reference goes on, and mixes up their results.
    """
    seen: dict[int, int] = {}
    for row, number in ids:
        if number in seen:
            raise BlisError(
                f"{source}, rows {seen[number]} and {row}: request_id {number} is given twice; "
                "ids must be unique"
            )
        seen[number] = row


# ---------------------------------------------------------------------------------------- prompts


def group_lengths(rows: TraceRows) -> dict[str, int]:
    """Prefix length of each group: that of its first row with a positive one.

    Rows that say which blocks their prompts begin with do not count.
    """
    lengths: dict[str, int] = {}
    for group, length, numbers in zip(
        *rows.fields("prefix_group", "prefix_length"), block_numbers(rows), strict=False
    ):
        if length > 0 and group and group not in lengths and not numbers:
            lengths[group] = length
    return lengths


def block_numbers(rows: TraceRows) -> Iterable[tuple[int, ...]]:
    """The blocks of each row; endless empty ones if the trace has no column for them."""
    return repeat(()) if rows.blocks is None else rows.blocks.numbers


class BlockRequest(Request):
    """A request that remembers the blocks its prompt was made of."""

    __slots__ = ("blocks",)

    blocks: PromptBlocks
    """Of this prompt alone."""


class SharedTokens:
    """What several prompts begin with: prefixes of groups, and blocks.

    Drawn from ``rng`` at once: prefixes, then blocks, each in order of first appearance.
    """

    def __init__(self, rows: TraceRows, rng: GoRand) -> None:
        self.prefixes: dict[str, TokenArray] = {
            group: rng.tokens(length) for group, length in group_lengths(rows).items()
        }
        self._size = 0
        self._blocks: dict[int, TokenArray] = {}
        if rows.blocks is not None:
            size = self._size = rows.blocks.size
            for number in dict.fromkeys(chain.from_iterable(rows.blocks.numbers)):
                self._blocks[number] = rng.tokens(size)

    def prompt(
        self, numbers: Sequence[int], prompt_len: int, output_len: int, rng: GoRand
    ) -> TokenArray:
        """Prompt and output of a prompt that begins with the blocks ``numbers``."""
        shared = np.concatenate([self._blocks[number] for number in numbers])[:prompt_len]
        return rng.tokens(prompt_len - len(shared) + output_len, shared)

    def of(self, numbers: tuple[int, ...]) -> PromptBlocks:
        """The blocks of one row."""
        return PromptBlocks(self._size, (numbers,))


_USED = (
    *("request_id", "arrival_time_us", "input_tokens", "output_tokens", "deadline_us"),
    *("client_id", "tenant_id", "slo_class", "session_id", "round_index"),
    *("prefix_group", "prefix_length", "streaming"),
    *("text_tokens", "image_tokens", "audio_tokens", "video_tokens", "reason_ratio", "model"),
)


def fixed_requests(rows: TraceRows, seed: int) -> Iterator[Request]:
    """The requests of ``rows`` in file order, made one at a time.

    Prefixes are drawn first, one per group, then prompt and output of each row. A row whose group
    has a prefix gets it in front of its own prompt, whatever its own ``prefix_length`` says. A row
    that says which blocks its prompt begins with is made of them instead.
    """
    rng = GoRand(seed)
    return requests_of(rows, rng, SharedTokens(rows, rng))


def requests_of(rows: TraceRows, rng: GoRand, shared: SharedTokens) -> Iterator[Request]:
    """The requests of ``rows``, their own tokens drawn from ``rng``."""
    tokens, prefixes = rng.tokens, shared.prefixes
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
        numbers,
    ) in zip(*rows.fields(*_USED), block_numbers(rows), strict=False):
        make: type[Request] = Request
        if numbers:
            make = BlockRequest
            prompt_len = prefix_length + n_in
            ids = shared.prompt(numbers, prompt_len, n_out, rng)
        else:
            prefix = prefixes.get(group)
            ids = tokens(n_in + n_out, prefix)  # the prompt's ids come before the output's
            prompt_len = n_in if prefix is None else len(prefix) + n_in
        request = make(
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
        if isinstance(request, BlockRequest):
            request.blocks = shared.of(numbers)
        yield request
