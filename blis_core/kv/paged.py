"""The single-tier KV store: paged blocks, automatic prefix caching, least-recently-used reuse.

Free blocks form a queue: taken at the head, given back at the tail, each keeping its content and
its entry in the prefix index until it is taken again. The queue is a list with a moving head;
a free block that a prefix hit claims leaves a stale entry behind, which the head skips.
"""

from __future__ import annotations

from collections.abc import Sequence

from blis_core.contracts import KVSequence, KVStore
from blis_core.errors import BlisError

_COMPACT_AT = 1 << 15  # drop the consumed part of the queue when it is at least this long


class PagedKVStore(KVStore):
    """KV memory of ``total_blocks`` blocks of ``block_size`` tokens, both at least 1."""

    def __init__(self, total_blocks: int, block_size: int) -> None:
        if total_blocks <= 0 or block_size <= 0:
            raise BlisError(
                f"a KV cache needs at least one block of one token, not {total_blocks} blocks"
                f" of {block_size} (--total-kv-blocks, --block-size-in-tokens)"
            )
        self.block_size = block_size
        self.total_blocks = total_blocks
        self.used_blocks = 0
        self.hits = 0
        self.misses = 0
        self._index: dict[int, int] = {}  # key -> block registered last under it
        self._key_of: list[int] = []  # block -> key, -1 = none; grows as blocks are first used
        self._refs: list[int] = []
        self._untouched = 0  # blocks untouched.. were never used; they come before the queue
        self._queue: list[int] = []
        self._head = 0
        self._stale: dict[int, int] = {}  # block -> entries of it in the queue to be skipped

    # ------------------------------------------------------------------------------- queries

    def match(self, keys: Sequence[int], blocks: int) -> list[int]:
        """Ids of the longest run of cached blocks among the first ``blocks`` keys."""
        index = self._index
        hit: list[int] = []
        for i in range(blocks):
            block = index.get(keys[i])
            if block is None:
                break
            hit.append(block)
        return hit

    def can_admit(self, hit: list[int], new_tokens: int) -> bool:
        """Whether ``admit`` would succeed."""
        need = -(-new_tokens // self.block_size)
        if hit:
            refs = self._refs
            need += sum(1 for block in hit if not refs[block])
        return need <= self.total_blocks - self.used_blocks

    def hit_rate(self) -> float:
        """Hit blocks / (hit + newly taken blocks), 0 if none."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0

    def free_list(self) -> list[int]:
        """Free blocks, next to be taken first (for tests and inspection: costs O(blocks))."""
        skip = dict(self._stale)
        free = list(range(self._untouched, self.total_blocks))
        for block in self._queue[self._head :]:
            if skip.get(block, 0):
                skip[block] -= 1
            else:
                free.append(block)
        return free

    # ------------------------------------------------------------------------------- changes

    def admit(self, seq: KVSequence, hit: list[int], new_tokens: int) -> bool:
        """Claim ``hit`` and store ``new_tokens`` prompt tokens behind it.

        With no new tokens (the whole prompt is cached) nothing is claimed at all: reference quirk
        02-2.
        """
        if not self.can_admit(hit, new_tokens):
            return False
        if new_tokens == 0:
            return True
        if hit:
            refs, stale = self._refs, self._stale
            for block in hit:
                if not refs[block]:
                    stale[block] = stale.get(block, 0) + 1
                    self.used_blocks += 1
                refs[block] += 1
            self.hits += len(hit)
            seq.blocks.extend(hit)
        start = len(hit) * self.block_size
        self._store(seq, start, start + new_tokens)
        return True

    def extend(self, seq: KVSequence, start: int, end: int) -> bool:
        """Store the prompt tokens of positions ``start..end-1`` of a running request."""
        fresh = -(-end // self.block_size) - len(seq.blocks)
        if fresh > self.total_blocks - self.used_blocks:
            return False
        self._store(seq, start, end)
        return True

    def append(self, seq: KVSequence, position: int) -> bool:
        """Store one generated token at ``position``; takes a block iff the last one is full."""
        size = self.block_size
        if position % size == 0:
            if self.used_blocks >= self.total_blocks:
                return False
            self._grow(seq)
        elif (position + 1) % size == 0:
            self._register_last(seq)
        return True

    def advance(self, groups: Sequence[Sequence[KVSequence]], start: int, steps: int) -> None:
        """Commit decode steps number ``start .. start+steps-1`` (see KVStore.advance)."""
        size = self.block_size
        index, key_of, refs = self._index, self._key_of, self._refs
        for step in range(start, start + steps):
            need = groups[step % size]
            taken: dict[int, int] | None = None  # keys that lost their entry -> rank of the taker
            if need:
                blocks = self._take(len(need))
                for seq, block in zip(need, blocks, strict=True):
                    old = key_of[block]
                    if old >= 0:
                        key_of[block] = -1
                        index.pop(old, None)
                        if taken is None:
                            taken = {}
                        taken[old] = seq.rank
                    refs[block] = 1
                    seq.blocks.append(block)
            if size == 1:
                continue  # a block filled at once by decoding is not indexed
            for seq in groups[(step + 1) % size]:  # their last block becomes full
                held = seq.blocks
                i = len(held) - 1
                key = seq.keys[i]
                block = held[i]
                key_of[block] = key
                index[key] = block
                # within a step the batch order counts: a later member's taking deletes the entry
                if taken is not None and taken.get(key, -1) > seq.rank:
                    del index[key]

    def release(self, seq: KVSequence) -> None:
        """Give all blocks back, the last first."""
        refs, queue = self._refs, self._queue
        freed = 0
        for block in reversed(seq.blocks):
            left = refs[block] = refs[block] - 1
            if not left:
                queue.append(block)
                freed += 1
        self.used_blocks -= freed
        seq.blocks = []

    # ------------------------------------------------------------------------------- pieces

    def _store(self, seq: KVSequence, start: int, end: int) -> None:
        size = self.block_size
        if start % size and end // size > start // size:
            self._register_last(seq)
        fresh = -(-end // size) - len(seq.blocks)
        if fresh <= 0:
            return
        index, key_of, refs, keys = self._index, self._key_of, self._refs, seq.keys
        i = len(seq.blocks)
        full = end // size
        blocks = self._take(fresh)
        for block in blocks:
            old = key_of[block]
            if old >= 0:
                index.pop(old, None)
            refs[block] = 1
            if i < full:
                key = keys[i]
                key_of[block] = key
                index[key] = block
            elif old >= 0:
                key_of[block] = -1
            i += 1
        seq.blocks.extend(blocks)

    def _grow(self, seq: KVSequence) -> None:
        block = self._take(1)[0]
        old = self._key_of[block]
        if old >= 0:
            self._index.pop(old, None)
            self._key_of[block] = -1
        self._refs[block] = 1
        seq.blocks.append(block)

    def _register_last(self, seq: KVSequence) -> None:
        i = len(seq.blocks) - 1
        key, block = seq.keys[i], seq.blocks[i]
        self._key_of[block] = key
        self._index[key] = block

    def _take(self, count: int) -> list[int]:
        """Remove ``count`` blocks from the head of the free queue. There must be so many."""
        self.used_blocks += count
        self.misses += count
        blocks: list[int] = []
        untouched = self._untouched
        if untouched < self.total_blocks:
            new = min(count, self.total_blocks - untouched)
            blocks = list(range(untouched, untouched + new))
            self._untouched = untouched + new
            self._key_of.extend([-1] * new)
            self._refs.extend([0] * new)
            count -= new
            if not count:
                return blocks
        head, queue, stale = self._head, self._queue, self._stale
        if not stale:
            blocks += queue[head : head + count]
            head += count
        else:
            while count:
                block = queue[head]
                head += 1
                entries = stale.get(block)
                if entries is None:
                    blocks.append(block)
                    count -= 1
                elif entries == 1:
                    del stale[block]
                else:
                    stale[block] = entries - 1
        if head >= _COMPACT_AT and 2 * head >= len(queue):
            del queue[:head]
            head = 0
        self._head = head
        return blocks
