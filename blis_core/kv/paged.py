"""The single-tier KV store: paged blocks, automatic prefix caching, least-recently-used reuse.

Free blocks keep what they hold until they are taken again, in the order in which they were given
back; see kv.free_blocks.

Blocks come in two forms. Those that more than one sequence may hold are *tracked*: they have an id,
a reference count and an entry in the index. Those behind a sequence's private tail (see kv.chains)
can be found by nobody else, so they are only counted, while they are held and, as one extent, while
they lie in the queue: taking, storing and releasing them costs the same for ten blocks or ten
thousand. When a tail stops being private its blocks are given ids, as they stand at that moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import sub
from typing import ClassVar, cast

from blis_core.contracts import KVSequence, KVSetup, KVStore
from blis_core.errors import BlisError
from blis_core.kv.chains import Chain, Segment
from blis_core.kv.free_blocks import Extent, FreeBlocks


class Hit:
    """Cached blocks of a prompt: tracked ones, then ``own`` ones of the private tail."""

    __slots__ = ("ids", "own")

    def __init__(self, ids: list[int], own: int) -> None:
        self.ids = ids
        self.own = own

    def __len__(self) -> int:
        return len(self.ids) + self.own


_MISS = Hit([], 0)
_ONES = repeat(1)


def _leading(index: dict[int, int], keys: Iterable[int]) -> list[int]:
    """Blocks of the leading keys that are in ``index``."""
    found: list[int | None] = list(map(index.get, keys))
    blocks = found[: found.index(None)] if None in found else found
    return cast("list[int]", blocks)


class PagedKVStore(FreeBlocks, KVStore):
    """KV memory in one tier, on the GPU."""

    room_suffices: ClassVar[bool] = True

    def __init__(self, setup: KVSetup) -> None:
        total_blocks, block_size = setup.total_blocks, setup.block_size
        if total_blocks <= 0 or block_size <= 0:
            raise BlisError(
                f"a KV cache needs at least one block of one token, not {total_blocks} blocks"
                f" of {block_size} (--total-kv-blocks, --block-size-in-tokens)"
            )
        super().__init__(total_blocks)
        self.block_size = block_size
        self.total_blocks = total_blocks
        self.clock = 0
        # tracked blocks
        self._next_id = 0
        self._frozen_clock = 0
        self._refs = Counter[int]()  # block -> holders, if any
        self._tracked = 0  # running sequences that are tracked
        # private tails, by the first key
        self._running: dict[int, KVSequence] = {}

    # ------------------------------------------------------------------------------- queries

    def match(self, keys: Chain, blocks: int) -> Hit:
        """The longest run of cached blocks among the first ``blocks`` keys."""
        head, own, behind = keys.head, keys.own, blocks
        ids: list[int] = []
        if head:
            ids = _leading(self._index, head if len(head) <= blocks else head[:blocks])
            behind = blocks - len(head) if len(ids) == len(head) else 0
        if own is None:
            return Hit(ids, 0)
        if own.shared:
            return Hit(ids + _leading(self._index, range(own.base, own.base + behind)), 0)
        extent = self._extents.get(own.base)
        if extent is None:
            return Hit(ids, 0) if head else _MISS
        if extent.full > behind:
            # the sequence is about to store blocks that it has left in the queue
            own.share()
            return self.match(keys, blocks)
        return Hit(ids, extent.full)

    def freeze(self) -> None:
        """Remember the index as it is now, for ``match_frozen``; forget what was remembered.

        Costs nothing: only what changes afterwards is kept.
        """
        self._changed = {}
        self._tails_then = {}
        self._frozen_clock = self.clock

    def match_frozen(self, keys: Chain, blocks: int) -> int:
        """How many of the first ``blocks`` keys, without a gap, the index held at ``freeze``.

        A private tail of ``keys`` itself counts as absent: nobody looks up a request that runs.
        """
        index, changed = self._index, self._changed or {}
        for i in range(blocks):
            key = keys[i]
            if not changed.get(key, key in index):
                return i
        return blocks

    def can_admit(self, hit: Hit, new_tokens: int) -> bool:
        """Whether ``admit`` would succeed."""
        ids = hit.ids
        need = len(ids) + hit.own - (-new_tokens // self.block_size)
        room = self.total_blocks - self.used_blocks
        if need <= room:
            return True  # even if nobody holds any of them
        return bool(ids) and need - sum(map(self._refs.__contains__, ids)) <= room

    def hit_rate(self) -> float:
        """Hit blocks / (hit + newly taken blocks), 0 if none."""
        total = self.hits + self.misses
        return self.hits / total if total else 0.0

    # ------------------------------------------------------------------------------- changes

    def admit(self, seq: KVSequence, hit: Hit, new_tokens: int) -> bool:
        """Claim ``hit`` and store ``new_tokens`` prompt tokens behind it.

        With no new tokens (the whole prompt is cached) nothing is claimed at all: reference quirk
        02-2.
        """
        if not self.can_admit(hit, new_tokens):
            return False
        PagedKVStore.claim(self, seq, hit, new_tokens)
        return True

    def claim(self, seq: KVSequence, hit: Hit, new_tokens: int) -> None:
        """The same, when ``can_admit`` has just said that it would succeed."""
        if new_tokens == 0:
            return
        own, keys = hit.own, seq.keys
        segment = keys.own
        if segment is None or segment.shared or keys.head or self._changed is not None:
            plain = False
            self._hold(seq, own)
            if hit.ids:
                self._claim(seq, hit.ids)
        else:  # the same, for what is most frequent
            plain = seq.held = True
            self._running[segment.base] = seq
        if own:
            assert segment is not None
            extent = self._extents.pop(segment.base)
            extent.count -= own  # what is left was never indexed
            extent.base = -1
            self.used_blocks += own
            self.hits += own
        size = self.block_size
        start = (len(hit.ids) + own) * size
        end = start + new_tokens
        if plain:
            seq.stored = seq.prompt_stored = end
            self._take(-(-end // size) - own)
        else:
            self._store(seq, start, end)

    def restart(self, seq: KVSequence, keys: Chain, start: int) -> None:
        """``seq``, which holds nothing, goes on at position ``start`` with a chain of its own."""
        own = keys.own
        if own is not None and own.base in self._extents:
            own.share()  # it is about to store blocks that it has left in the queue
        seq.keys = keys
        seq.start = seq.stored = start
        self._hold(seq, 0)

    def extend(self, seq: KVSequence, start: int, end: int) -> bool:
        """Store the prompt tokens of positions ``start..end-1`` of a running request."""
        size = self.block_size
        fresh = -(-end // size) + (-start // size)
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
            if seq.tracked:
                self._take_tracked(seq)
            else:
                self._take(1)
        elif seq.tracked and (position + 1) % size == 0:
            self._register(seq, len(seq.blocks) - 1)
        if self._changed is not None:
            self.settle(seq)
        seq.stored = position + 1
        return True

    @property
    def counts_only(self) -> bool:
        """Whether nobody can find what decodes write."""
        return not self._tracked and self._changed is None

    def take_counted(self, count: int) -> None:
        """Take ``count`` blocks, at least one, for decodes of which ``counts_only`` holds."""
        self._take(count)

    def advance(self, groups: Sequence[Sequence[KVSequence]], start: int, steps: int) -> None:
        """Commit decode steps number ``start .. start+steps-1`` (see KVStore.advance)."""
        size = self.block_size
        self.clock = start + steps
        if not self._tracked:
            first = start % size
            if steps == 1:
                need = len(groups[first])
            else:
                need = 0
                if steps >= size:
                    cycles, steps = divmod(steps, size)
                    need = cycles * sum(map(len, groups))
                need += sum(map(len, groups[first : first + steps]))
                if first + steps > size:
                    need += sum(map(len, groups[: first + steps - size]))
            if need:
                self._take(need)
            return
        for step in range(start, start + steps):
            taking, filling = groups[step % size], groups[(step + 1) % size]
            if not (taking or filling):
                continue
            lost: dict[int, int] = {}  # keys that lost their entry -> rank of the taker
            for seq in taking:
                old = self._take_tracked(seq) if seq.tracked else self._take_one()[1]
                if old >= 0:
                    lost[old] = seq.rank
            if size == 1:
                continue  # a block filled at once by decoding is not indexed
            for seq in filling:  # their last block becomes full
                if seq.tracked:
                    key = self._register(seq, len(seq.blocks) - 1)
                    # within a step the batch order counts: a later taking deletes the entry
                    if lost and lost.get(key, -1) > seq.rank:
                        del self._index[key]

    def release(self, seq: KVSequence) -> None:
        """Give all blocks back, the last first."""
        if not seq.held:
            return
        seq.held = False
        freed = 0
        if seq.tracked:
            self._tracked -= 1
        else:
            # as in _blocks and _indexed: this happens once for every request
            stored, size = seq.stored, self.block_size
            if seq.decoding and self.clock - seq.offset > stored:
                stored = self.clock - seq.offset
            freed = -((seq.start - stored) // size) - len(seq.blocks)
            base = -1
            full = 0
            own = seq.keys.own
            if own is not None:
                base = own.base
                if self._changed is not None:
                    self.settle(seq)
                del self._running[base]
                full = seq.prompt_stored if size == 1 else (stored - seq.start) // size
                full -= len(seq.keys.head)
                if full > freed:
                    full = freed
            if freed > 0:
                extent = Extent()
                extent.count = freed
                extent.base = base
                extent.full = full
                extent.ids = None
                self._queue.append(extent)
                if full > 0:
                    self._extents[base] = extent
        if seq.blocks:
            ids = self._let_go(seq.blocks)
            if ids:
                self._enqueue(ids)
            freed += len(ids)
            seq.blocks = []
        self.used_blocks -= freed

    def chain_shared(self, segment: Segment) -> None:
        """Give ids to the blocks of a tail that stops being private."""
        base = segment.base
        extent = self._extents.pop(base, None)
        seq = self._running.pop(base, None)
        if extent is None and seq is None and self._changed is None:
            return
        then = self._tails_then.get(base)
        now = 0
        if extent is not None:
            now = extent.full
            if then is None:
                then = now
            extent.ids = self._identify(base, extent.count, extent.full)
            extent.base = -1
            self._lying[extent.ids[0]] = extent
        if seq is not None:
            if then is None:
                then = self._indexed(seq, self._frozen_clock) - len(seq.keys.head)
            now = max(self._indexed(seq) - len(seq.keys.head), 0)
            count = self._blocks(seq) - len(seq.blocks)
            ids = self._identify(base, count, now)
            for block in ids:
                self._refs[block] = 1
            seq.blocks.extend(ids)
            seq.tracked = True
            self._tracked += 1
        if self._changed is not None:
            then = max(then or 0, 0)
            for key in range(base + min(then, now), base + max(then, now)):
                self._changed[key] = then > now

    def settle(self, seq: KVSequence) -> None:
        """``seq`` is about to change otherwise than by decoding on: note what it had at freeze."""
        own = seq.keys.own
        if self._changed is None or own is None or own.base not in self._running:
            return
        if own.base not in self._tails_then:
            then = self._indexed(seq, self._frozen_clock) - len(seq.keys.head)
            self._tails_then[own.base] = then

    # ------------------------------------------------------------------------------- pieces

    def _hold(self, seq: KVSequence, own: int) -> None:
        """``seq`` begins to hold blocks, ``own`` cached ones of its tail among them."""
        seq.held = True
        keys = seq.keys
        if keys.is_private():
            seq.tracked = False
            if keys.own is not None:
                self._running[keys.own.base] = seq
                if self._changed is not None:
                    self._tails_then.setdefault(keys.own.base, own)
        else:
            seq.tracked = True
            self._tracked += 1

    def _claim(self, seq: KVSequence, ids: Sequence[int]) -> None:
        """``seq`` holds these cached blocks, too, whether they are free or not."""
        refs = self._refs
        free = ids
        if not refs.keys().isdisjoint(ids):
            free = [block for block in ids if block not in refs]
        refs.update(ids)
        if free:
            self._vacate(free)
            self.used_blocks += len(free)
        seq.blocks.extend(ids)
        self.hits += len(ids)

    def _let_go(self, blocks: list[int]) -> list[int]:
        """One holder less for each of these; returns those that nobody holds now, in order."""
        refs = self._refs
        holders = list(map(refs.pop, blocks))
        shared = len(blocks) - holders.count(1)
        if 1 in holders[:shared]:  # those that others hold do not all come first
            pairs = list(zip(blocks, holders, strict=True))
            dict.update(refs, ((block, count - 1) for block, count in pairs if count > 1))
            return [block for block, count in pairs if count == 1]
        if shared:  # Counter.update would add to what there is
            dict.update(refs, zip(blocks, map(sub, holders[:shared], _ONES), strict=False))
        return blocks[shared:]

    def _stored(self, seq: KVSequence, clock: int) -> int:
        """Position behind the last token that was stored when the clock stood at ``clock``."""
        return max(seq.stored, clock - seq.offset) if seq.decoding else seq.stored

    def _blocks(self, seq: KVSequence) -> int:
        """Blocks that a sequence which is not tracked holds."""
        return -((seq.start - self._stored(seq, self.clock)) // self.block_size)

    def _indexed(self, seq: KVSequence, clock: int | None = None) -> int:
        """How many of its leading blocks have been indexed; full ones, but for one-token blocks
        only those of the prompt."""
        if self.block_size == 1:
            return seq.prompt_stored
        return (
            self._stored(seq, self.clock if clock is None else clock) - seq.start
        ) // self.block_size

    def _identify(self, base: int, count: int, full: int) -> list[int]:
        """Ids for ``count`` blocks, the first ``full`` of which are indexed from ``base`` on."""
        ids = list(range(self._next_id, self._next_id + count))
        self._next_id += count
        keys = range(base, base + full)
        self._key_of.update(zip(ids, keys, strict=False))
        self._index.update(zip(keys, ids, strict=False))
        return ids

    def _store(self, seq: KVSequence, start: int, end: int) -> None:
        """Take blocks for prompt tokens, and index those that become full."""
        size = self.block_size
        if self._changed is not None:
            self.settle(seq)
        seq.stored = seq.prompt_stored = end
        first, last = -(-start // size), -(-end // size)
        if seq.tracked or seq.blocks or seq.keys.head:
            full = end // size
            if start % size and first <= full and first <= len(seq.blocks):
                self._register(seq, first - 1)
            tracked = last if seq.tracked else min(last, len(seq.keys.head))
            for i in range(first, tracked):
                self._take_tracked(seq)
                if i < full:
                    self._register(seq, i)
            if tracked > first:
                first = tracked
        if last > first:
            self._take(last - first)

    def _register(self, seq: KVSequence, i: int) -> int:
        """Index the tracked block ``i`` of ``seq``, which is full. Returns its key."""
        key, block = seq.keys[i], seq.blocks[i]
        self._enter(key, block)
        return key

    def _enter(self, key: int, block: int) -> None:
        """Index a full tracked block."""
        if self._changed is not None and key not in self._index:
            self._changed.setdefault(key, False)
        self._key_of[block] = key
        self._index[key] = block

    def _take_tracked(self, seq: KVSequence) -> int:
        """Take one block for ``seq``. Returns the key that lost its entry, -1 if none."""
        block, old = self._take_one()
        if block < 0:
            block = self._next_id
            self._next_id += 1
        self._refs[block] = 1
        seq.blocks.append(block)
        return old

    # ------------------------------------------------------------------------------- inspection

    def cached_keys(self) -> set[int]:
        """Keys that a look-up would find (costs O(blocks))."""
        return set(chain.from_iterable(self._cached()))

    def _cached(self) -> Iterator[Iterable[int]]:
        """The same in pieces, mostly ranges."""
        yield self._index
        for base, extent in self._extents.items():
            yield range(base, base + extent.full)
        for base, seq in self._running.items():
            yield range(base, base + self._indexed(seq) - len(seq.keys.head))

    def known_keys(self) -> Iterator[Iterable[int]]:
        """These, and what a look-up into the frozen view would find, in pieces."""
        yield from self._cached()
        yield (key for key, then in (self._changed or {}).items() if then)
        for base, then in self._tails_then.items():
            yield range(base, base + then)
