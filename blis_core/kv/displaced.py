"""KV sequences whose blocks do not follow their positions: reference quirks 02-7 and 02-10.

With a second tier, a failed allocation may leave cached blocks claimed, and a later one goes on
behind them whatever position it starts from. From then on a position no longer tells which block
holds its token, nor the chain of the sequence which key that block has. Such sequences are rare
and short-lived, so they are kept literally here: tokens, keys and all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import attrs
import numpy as np

from blis_core.contracts import KVSequence
from blis_core.kv.paged import PagedKVStore

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray

_NOTHING: TokenArray = np.empty(0, dtype=np.int32)


@attrs.define
class Layout:
    """What the blocks of a displaced sequence hold; the lists are parallel to its block ids."""

    position: int = 0
    """Where the next token comes from."""
    texts: list[TokenArray] = attrs.field(factory=list)
    """All tokens that the hash of a block stands for; empty = the block has none."""
    keys: list[int] = attrs.field(factory=list)
    """Keys of the hashed blocks, -1 for others."""
    last: TokenArray = attrs.field(factory=_NOTHING.copy)
    """Tokens in the last block."""


class DisplacedKVStore(PagedKVStore):
    """Paged memory that can also hold displaced sequences, in ``KVSequence.layout``.

    All their blocks are tracked.
    """

    room_suffices: ClassVar[bool] = False
    _displaced = 0
    """Running sequences that are displaced."""

    @property
    def counts_only(self) -> bool:
        """Never: displaced sequences lie elsewhere, and refusals are counted."""
        return False

    def append(self, seq: KVSequence, position: int) -> bool:
        """Store one generated token at ``position``; takes a block iff the last one is full."""
        layout: Layout | None = seq.layout
        if layout is None:
            return super().append(seq, position)
        if (position + seq.shift) % self.block_size == 0 and not self.free_blocks:
            return False
        # tokens that neither needed nor filled a block have not been announced
        self._put(seq, layout, layout.position, position + 1)
        return True

    def reach(self, groups: Sequence[Sequence[KVSequence]], start: int, steps: int) -> int:
        """See KVStore. Displaced sequences are looked at step by step."""
        return super().reach(groups, start, min(steps, 1) if self._displaced else steps)

    def advance(self, groups: Sequence[Sequence[KVSequence]], start: int, steps: int) -> None:
        """See KVStore."""
        if not self._displaced:
            super().advance(groups, start, steps)
            return
        size = self.block_size
        for step in range(start, start + steps):
            affected = [*groups[step % size], *(groups[(step + 1) % size] if size > 1 else ())]
            for seq in sorted(affected, key=lambda member: member.rank):
                if not self.append(seq, step - seq.offset):
                    raise RuntimeError("free KV blocks were miscounted")
            self.clock = step + 1

    def release(self, seq: KVSequence) -> None:
        """Give all blocks back, the last first."""
        if seq.layout is not None:
            self._displaced -= 1
            self._tracked -= 1
            seq.held = False
            seq.layout = None
            self._give_back(seq.blocks)
            seq.blocks = []
        else:
            super().release(seq)

    # ------------------------------------------------------------------------------- pieces

    def _displace(self, seq: KVSequence, layout: Layout | None = None) -> Layout:
        """From now on ``seq`` is kept literally; ``layout`` describes what it holds, if known."""
        if layout is None:
            layout = self._layout(seq)
        if not seq.held:
            seq.held = True
            seq.tracked = True
            self._tracked += 1
        seq.layout = layout
        self._displaced += 1
        return layout

    def _layout(self, seq: KVSequence) -> Layout:
        """The layout of a regular sequence in prefill."""
        if not seq.held:
            return Layout()
        assert seq.tokens is not None
        self._track(seq)
        size, tokens = self.block_size, seq.tokens
        keys = list(islice(seq.keys, self._indexed(seq)))
        rest = len(seq.blocks) - len(keys)
        return Layout(
            position=seq.stored,
            texts=[tokens[: i * size] for i in range(1, len(keys) + 1)] + [_NOTHING] * rest,
            keys=keys + [-1] * rest,
            last=tokens[(len(seq.blocks) - 1) * size : seq.stored] if seq.blocks else _NOTHING,
        )

    def _track(self, seq: KVSequence) -> None:
        """Give ids to all blocks of a running sequence."""
        if seq.keys.own is not None:
            seq.keys.own.share()
        if not seq.tracked:  # a last block without a key is left
            ids = self._identify(-1, self._blocks(seq) - len(seq.blocks), 0)
            for block in ids:
                self._refs[block] = 1
            seq.blocks.extend(ids)
            seq.tracked = True
            self._tracked += 1

    def _regularise(self, seq: KVSequence, layout: Layout, end: int) -> None:
        """Let ``seq``, whose next position is ``end``, be regular again if it looks like it."""
        size = self.block_size
        full = end // size
        assert seq.tokens is not None
        if (
            len(seq.blocks) == -(-end // size)
            and layout.keys[:full] == list(islice(seq.keys, full))
            and np.array_equal(layout.last, seq.tokens[(len(seq.blocks) - 1) * size : end])
        ):
            seq.layout = None
            seq.shift = 0
            seq.start = 0
            seq.stored = seq.prompt_stored = end
            self._displaced -= 1
        else:
            layout.position = end
            seq.shift = (len(layout.last) - end) % size

    def _fits(self, seq: KVSequence, layout: Layout, new_tokens: int, hit: Sequence[int]) -> bool:
        """Whether blocks suffice for more prompt tokens; free blocks of ``hit`` count as needed."""
        if seq.blocks:
            new_tokens -= min(self.block_size - len(layout.last), new_tokens)
        needed = sum(1 for block in hit if block not in self._refs)
        return needed - (-new_tokens // self.block_size) <= self.free_blocks

    def _put(self, seq: KVSequence, layout: Layout, start: int, end: int) -> None:
        """Store the tokens of positions ``start..end-1`` behind the last one, wherever that is."""
        assert seq.tokens is not None
        size, tokens, at = self.block_size, seq.tokens, start
        room = size - len(layout.last) if seq.blocks else 0
        if room:
            at = min(start + room, end)
            layout.last = np.concatenate([layout.last, tokens[start:at]])
            if len(layout.last) == size:
                self._seal(seq, layout, layout.texts[-2] if len(seq.blocks) > 1 else _NOTHING)
        before = layout.texts[-1] if layout.texts else _NOTHING
        for first in range(at, end, size):
            self._take_tracked(seq)
            layout.last = tokens[first : min(first + size, end)]
            layout.texts.append(_NOTHING)
            layout.keys.append(-1)
            # a block that decoding fills at once is not indexed
            if len(layout.last) == size and start < seq.prompt_len:
                self._seal(seq, layout, before)
                before = layout.texts[-1]
        layout.position = end

    def _seal(self, seq: KVSequence, layout: Layout, before: TokenArray) -> None:
        """Index the last block, which is full and follows the tokens ``before``."""
        text = np.concatenate([before, layout.last])
        key = seq.keys.table.intern(text, 0)[-1]
        block = seq.blocks[-1]
        layout.texts[-1], layout.keys[-1] = text, key
        self._enter(key, block)

    def _claim_more(self, seq: KVSequence, layout: Layout, hit: Sequence[int], first: int) -> None:
        """Append the cached blocks ``hit`` of the prompt, of which the first is its ``first``."""
        if not hit:
            return
        assert seq.tokens is not None
        size, tokens = self.block_size, seq.tokens
        ends = range(first + 1, first + len(hit) + 1)
        self._claim(seq, hit)
        layout.texts += [tokens[: i * size] for i in ends]
        layout.keys += [seq.keys[i - 1] for i in ends]
        layout.last = tokens[(ends[-1] - 1) * size : ends[-1] * size]

    def _give_back(self, blocks: Sequence[int]) -> None:
        """Drop one reference for each entry of ``blocks``, where ids may repeat; the last first."""
        refs = self._refs
        freed: list[int] = []
        for block in reversed(blocks):
            refs[block] -= 1
            if not refs[block]:
                del refs[block]
                freed.append(block)
        if freed:
            self._enqueue(freed[::-1])
            self.used_blocks -= len(freed)
