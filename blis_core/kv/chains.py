"""Prefix chains: integer names for the full KV blocks of token sequences.

Two blocks get the same key if and only if the token sequences from the start through the end of
these blocks are equal, which is all that a chained block hash can tell. Keys come from a radix
tree: a sequence that shares nothing costs one dictionary look-up and owns a consecutive range of
keys, whatever its length; a shared prefix is compared as memory, not token by token.

One table serves a whole simulation, so that KV stores, routers and snapshots share the keys. As
long as nobody else walks into a sequence's own range, stores may treat it in one piece; they are
told when that ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from blis_core.contracts import Request, TokenArray

FORGET = 1 << 22
"""Tokens after which old prompts are worth forgetting (four bytes each)."""


class KeyMarks:
    """A set of the keys that a table has given, in which a range costs next to nothing."""

    __slots__ = ("_marks",)

    def __init__(self, keys: int) -> None:
        """``keys``: all of them lie below."""
        self._marks = bytearray(keys)

    def add(self, keys: Iterable[int]) -> None:
        """Mark ``keys``."""
        if isinstance(keys, range):
            self._marks[keys.start : keys.stop] = b"\1" * len(keys)
        else:
            places = np.fromiter(keys, dtype=np.int64)
            np.frombuffer(self._marks, dtype=np.uint8)[places] = 1

    def add_chains(self, request: Request) -> None:
        """Mark all keys that ``request`` has."""
        for keys in (request.keys, request.output_keys):
            if keys is not None:
                for base, count in keys.spans:
                    self.add(range(base, base + count))
                if keys.own is not None:
                    self.add(range(keys.own.base, keys.own.base + keys.tail))

    def any_of(self, first: int, count: int) -> bool:
        """Whether one of ``count`` keys from ``first`` on is marked."""
        return self._marks.find(1, first, first + count) >= 0


class Segment:
    """The stretch of a sequence that no earlier sequence had: keys ``base..base+blocks-1``."""

    # filled in by ChainTable, which makes one for each request that shares nothing
    __slots__ = ("_table", "base", "blocks", "branch", "children", "own_prompt_blocks", "shared",
                 "start", "tokens")  # fmt: skip

    base: int
    start: int
    blocks: int
    shared: bool
    """Whether another sequence, or another life of this one, may hold some of its blocks."""
    tokens: TokenArray
    """Of the whole sequence that created it."""
    own_prompt_blocks: int
    children: dict[tuple[int, bytes], Segment] | None
    """Continuations that branch off behind k blocks of it: (k, bytes of next block)."""
    branch: int
    """Behind how many blocks the latest of these left."""
    _table: ChainTable

    def share(self) -> None:
        """Mark the segment as shared and tell the stores."""
        if not self.shared:
            self.shared = True
            for listener in self._table.listeners:
                listener(self)


class Chain(Sequence[int]):
    """Keys of the full blocks of one sequence: those of segments found, then those of its own."""

    __slots__ = ("exposed", "head", "own", "prompt_blocks", "spans", "table", "tail")

    def __init__(
        self,
        table: ChainTable,
        spans: list[tuple[int, int]],
        own: Segment | None,
        prompt_blocks: int,
    ) -> None:
        self.table = table
        self.spans = spans
        """Blocks that another sequence had before, as (first key, number); each of these begins a
        segment."""
        head: list[int] = []
        for base, count in spans:
            head.extend(range(base, base + count))
        self.head = head
        """Their keys."""
        self.prompt_blocks = prompt_blocks
        """Full blocks of the prompt."""
        self.own = own
        """The segment that this sequence created, if any."""
        self.tail = own.blocks if own is not None else 0
        self.exposed = len(head) > prompt_blocks
        """Whether blocks that this sequence generates are among ``head``."""

    def is_private(self) -> bool:
        """Whether nobody else can hold the blocks behind ``head``."""
        own = self.own
        return not (self.exposed or (own is not None and own.shared))

    def __len__(self) -> int:
        return len(self.head) + self.tail

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            if index.start is None and index.step is None and (index.stop or -1) >= 0:
                return self._leading(index.stop)
            return list(self)[index]
        if index < 0:
            index += len(self)
        behind = index - len(self.head)
        if behind < 0:
            return self.head[index]
        if self.own is None or behind >= self.tail:
            raise IndexError(index)
        return self.own.base + behind

    def _leading(self, count: int) -> list[int]:
        behind = min(count - len(self.head), self.tail)
        if behind <= 0 or self.own is None:
            return self.head[:count]
        return [*self.head, *range(self.own.base, self.own.base + behind)]

    def __iter__(self) -> Iterator[int]:
        if self.own is None:
            return iter(self.head)
        return chain(self.head, range(self.own.base, self.own.base + self.tail))


class ChainTable:
    """Assigns block keys. ``block_size`` in tokens, at least 1."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.output_shared = False
        """True once some sequence was found to continue into blocks that another one generates
        (multi-turn traffic); while False, decoding can never lengthen anybody's prefix hit."""
        self.listeners: list[Callable[[Segment], None]] = []
        """Called with a segment when it becomes shared, before anybody can look up its keys."""
        self.fresh_tokens = 0
        """Tokens that have come since the last ``forget``."""
        self.enough_tokens = FORGET
        """How many of them are worth the while of another one."""
        self._roots: dict[bytes, Segment] = {}
        self._next_key = 0

    def keys(self, request: Request) -> Chain:
        """Keys of all full blocks of prompt ++ output, computed once per request."""
        keys = request.keys
        if keys is None:
            assert request.tokens is not None
            keys = request.keys = self.intern(request.tokens, request.prompt_len)
        return keys

    def output_keys(self, request: Request) -> Chain:
        """Keys of the full blocks of the output taken as a sequence of its own."""
        keys = request.output_keys
        if keys is None:
            assert request.tokens is not None
            keys = request.output_keys = self.intern(request.tokens[request.prompt_len :], 0)
        return keys

    def intern(self, tokens: TokenArray, prompt_len: int) -> Chain:
        """Keys of the full blocks of ``tokens``; the first ``prompt_len`` tokens are the prompt.

        A partial last block has no key.
        """
        size = self.block_size
        total = len(tokens) // size
        prompt_blocks = prompt_len // size
        if total == 0:
            return Chain(self, [], None, prompt_blocks)
        first = tokens[:size].tobytes()
        segment = self._roots.get(first)
        if segment is None:
            fresh = self._roots[first] = self._segment(tokens, 0, total, prompt_blocks)
            return Chain(self, [], fresh, prompt_blocks)
        spans: list[tuple[int, int]] = []
        at = 0
        while True:
            if not segment.shared:
                segment.share()
            # blocks at.. of `tokens` against the segment's own blocks
            common = self._common(segment, tokens, at, total)
            spans.append((segment.base, common))
            at += common
            if at > prompt_blocks or at > segment.own_prompt_blocks:
                self.output_shared = True
            if at == total:
                return Chain(self, spans, None, prompt_blocks)
            label = (common, tokens[at * size : (at + 1) * size].tobytes())
            children = segment.children
            if children is None:
                children = segment.children = {}
            child = children.get(label)
            if child is None:
                fresh = children[label] = self._segment(tokens, at, total - at, prompt_blocks)
                return Chain(self, spans, fresh, prompt_blocks)
            segment = child

    def marks(self) -> KeyMarks:
        """An empty set of keys, for ``forget``."""
        return KeyMarks(self._next_key)

    def forget(self, held: KeyMarks) -> None:
        """Drop all sequences but those of which a key is among ``held``, and their beginnings.

        A sequence that comes again gets other keys. Nobody can tell if its blocks are cached
        nowhere and no request has them. For tables that never end; costs O(sequences known).
        """
        kept = 0
        for first, segment in list(self._roots.items()):
            blocks = _keep(segment, held)
            kept += blocks
            if not blocks:
                del self._roots[first]
        # so that all the looking through what is kept costs no more than a constant per token
        self.enough_tokens = FORGET + kept * self.block_size // 4
        self.fresh_tokens = 0

    def _segment(self, tokens: TokenArray, start: int, blocks: int, prompt: int) -> Segment:
        segment = Segment()
        segment._table = self
        segment.base = base = self._next_key
        segment.start = start
        segment.blocks = blocks
        segment.shared = False
        segment.tokens = tokens
        segment.own_prompt_blocks = prompt
        segment.children = None
        segment.branch = 0
        self._next_key = base + blocks
        self.fresh_tokens += len(tokens)
        return segment

    def _common(self, segment: Segment, tokens: TokenArray, at: int, total: int) -> int:
        """How many blocks of the segment equal those of ``tokens`` from block ``at`` on."""
        size = self.block_size
        count = min(segment.blocks, total - at)
        first, start = at * size, segment.start * size
        known, branch = segment.tokens, segment.branch * size
        # as the last one, or all of it: the usual cases, and the cheapest comparisons
        if (
            0 < branch < count * size
            and tokens[first + branch + size - 1] != known[start + branch + size - 1]
            and tokens[first : first + branch].tobytes() == known[start : start + branch].tobytes()
        ):
            return segment.branch
        mine, theirs = tokens[first : first + count * size], known[start : start + count * size]
        if mine.tobytes() == theirs.tobytes():
            return count
        differs = mine != theirs
        segment.branch = common = int(differs.argmax()) // size
        return common


def _keep(segment: Segment, held: KeyMarks) -> int:
    """How many blocks are to be kept, those of continuations included; drops the other ones."""
    kept = 0
    if segment.children:
        for label, child in list(segment.children.items()):
            blocks = _keep(child, held)
            kept += blocks
            if not blocks:
                del segment.children[label]
    if kept or held.any_of(segment.base, segment.blocks):
        if segment.tokens.base is not None:
            segment.tokens = segment.tokens.copy()  # lest it keep its neighbours in memory
        return kept + segment.blocks
    return 0
