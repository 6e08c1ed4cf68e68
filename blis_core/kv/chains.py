"""Prefix chains: integer names for the full KV blocks of token sequences.

Two blocks get the same key if and only if the token sequences from the start through the end of
these blocks are equal, which is all that a chained block hash can tell. Keys come from a radix
tree: a sequence that shares nothing costs one dictionary look-up and owns a consecutive range of
keys, whatever its length; a shared prefix is compared as memory, not token by token.

One table serves a whole simulation, so that KV stores, routers and snapshots share the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blis_core.contracts import Request, TokenArray


class _Segment:
    """Blocks ``start..`` of one sequence: the stretch that no earlier sequence had."""

    __slots__ = ("base", "blocks", "children", "own_prompt_blocks", "start", "tokens")

    def __init__(
        self, base: int, start: int, blocks: int, tokens: TokenArray, own_prompt_blocks: int
    ) -> None:
        self.base = base  # key of block `start`
        self.start = start
        self.blocks = blocks
        self.tokens = tokens  # of the whole sequence that created it
        self.own_prompt_blocks = own_prompt_blocks
        # continuations that branch off behind k blocks of this segment: (k, bytes of next block)
        self.children: dict[tuple[int, bytes], _Segment] | None = None


class ChainTable:
    """Assigns block keys. ``block_size`` in tokens, at least 1."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.output_shared = False
        """True once some sequence was found to continue into blocks that another one generates
        (multi-turn traffic); while False, decoding can never lengthen anybody's prefix hit."""
        self._roots: dict[bytes, _Segment] = {}
        self._next_key = 0

    def keys(self, request: Request) -> Sequence[int]:
        """Keys of all full blocks of prompt ++ output, computed once per request."""
        keys = request.keys
        if keys is None:
            assert request.tokens is not None
            keys = request.keys = self.intern(request.tokens, request.prompt_len)
        return keys

    def output_keys(self, request: Request) -> Sequence[int]:
        """Keys of the full blocks of the output taken as a sequence of its own."""
        keys = request.output_keys
        if keys is None:
            assert request.tokens is not None
            keys = request.output_keys = self.intern(request.tokens[request.prompt_len :], 0)
        return keys

    def intern(self, tokens: TokenArray, prompt_len: int) -> Sequence[int]:
        """Keys of the full blocks of ``tokens``; the first ``prompt_len`` tokens are the prompt.

        A partial last block has no key.
        """
        size = self.block_size
        total = len(tokens) // size
        if total == 0:
            return ()
        prompt_blocks = prompt_len // size
        first = tokens[:size].tobytes()
        segment = self._roots.get(first)
        if segment is None:
            self._roots[first] = fresh = self._segment(tokens, 0, total, prompt_blocks)
            return range(fresh.base, fresh.base + total)
        keys: list[int] = []
        at = 0
        while True:
            # blocks at.. of `tokens` against the segment's own blocks
            shared = self._common(segment, tokens, at, total)
            keys.extend(range(segment.base, segment.base + shared))
            at += shared
            if at > prompt_blocks or at > segment.own_prompt_blocks:
                self.output_shared = True
            if at == total:
                return keys
            label = (shared, tokens[at * size : (at + 1) * size].tobytes())
            children = segment.children
            if children is None:
                children = segment.children = {}
            child = children.get(label)
            if child is None:
                fresh = self._segment(tokens, at, total - at, prompt_blocks)
                children[label] = fresh
                keys.extend(range(fresh.base, fresh.base + total - at))
                return keys
            segment = child

    def _segment(self, tokens: TokenArray, start: int, blocks: int, prompt: int) -> _Segment:
        segment = _Segment(self._next_key, start, blocks, tokens, prompt)
        self._next_key += blocks
        return segment

    def _common(self, segment: _Segment, tokens: TokenArray, at: int, total: int) -> int:
        """How many blocks of the segment equal those of ``tokens`` from block ``at`` on."""
        size = self.block_size
        count = min(segment.blocks, total - at)
        mine = tokens[at * size : (at + count) * size]
        theirs = segment.tokens[segment.start * size : (segment.start + count) * size]
        differs = mine != theirs
        where = int(differs.argmax())
        return where // size if differs[where] else count
