"""The CPU tier: which KV blocks it holds, without touching each of them at every step.

The tier keeps the ``capacity`` blocks that were mirrored last. Since every pass mirrors the whole
batch, in the same order, its state after a pass is known without carrying the pass out: first come
the blocks that nobody in the batch has any more, in the order in which they left, then those of the
batch. So a pass costs only what has changed, as long as either the whole batch fits into the tier
(then nothing of it is ever evicted) or even that part of it does not which was there before (then
every block that only one member has is evicted before its turn comes again; those that several
members have are looked at in kv.reuse). What lies between, and sequences that are displaced (see
kv.displaced), is carried out block by block.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice

from blis_core.contracts import KVSequence
from blis_core.kv.reuse import Walk, shared_misses, sum_monotone, walk


class _Held:
    """What a member of the batch had in the last pass: the first ``blocks`` keys of its chain."""

    __slots__ = ("behind", "blocks", "chain", "seq", "spans", "zero")

    def __init__(self, seq: KVSequence, blocks: int) -> None:
        self.seq = seq
        self.chain = chain = seq.keys
        self.blocks = blocks
        self.behind = len(chain.head)
        """Key number i is zero + i from here on."""
        self.spans = chain.spans
        self.zero = 0
        if chain.own is not None:
            self.spans = [*chain.spans, (chain.own.base, chain.own.blocks)]
            self.zero = chain.own.base - self.behind

    def keys(self, start: int, stop: int) -> Sequence[int]:
        """Keys number ``start..stop-1``."""
        behind, zero = self.behind, self.zero
        if start >= behind:
            return range(zero + start, zero + stop)
        head = self.chain.head
        if stop <= behind:
            return head[start:stop]
        return [*head[start:], *range(zero + behind, zero + stop)]


class _Change:
    """How the batch of a pass differs from that of the pass before."""

    __slots__ = ("alone", "fresh", "grown", "joined", "left")

    def __init__(self) -> None:
        self.joined: list[_Held] = []
        self.left: list[_Held] = []
        self.grown: list[tuple[_Held, int, Sequence[int]]] = []
        """Members, the number of their blocks now, and the keys of those that are new."""
        self.alone = True
        """Whether nobody else has, or had in the pass before, the keys of grown members."""
        self.fresh: dict[int, bool] = {}
        """Keys that nobody in the batch had, and whether a member has grown into them."""


class CpuTier:
    """A least-recently-mirrored set of ``capacity`` keys (at least 1) of blocks."""

    def __init__(self, capacity: int, block_size: int) -> None:
        self.capacity = capacity
        self.stores = 0
        self.evictions = 0
        self._block_size = block_size
        self._batch: dict[int, _Held] = {}  # of the last pass, by rank
        self._holders: dict[int, int] = {}  # key -> members of that batch that have it
        # keys on the CPU that nobody in that batch had, the oldest first; empty if it alone fills
        # the tier
        self._gone: OrderedDict[int, None] = OrderedDict()
        self._renewed: dict[int, None] = {}  # of these, those reloaded since, in order
        self._walk: Walk | None = None  # the last pass, if known
        # instead of all that: everything on the CPU, the oldest first
        self._explicit: OrderedDict[int, None] | None = None

    # ------------------------------------------------------------------------------- queries

    def __len__(self) -> int:
        if self._explicit is not None:
            return len(self._explicit)
        return min(self.capacity, len(self._holders) + len(self._gone))

    def holds(self, key: int) -> bool:
        """Whether the block is on the CPU."""
        if self._explicit is None:
            if key not in self._holders:
                return key in self._gone
            if len(self._holders) <= self.capacity:
                return True
        return key in self._spell_out()

    def keys(self) -> list[int]:
        """All keys on the CPU, the next to be evicted first (costs O(blocks))."""
        return list(self._spelled_out())

    # ------------------------------------------------------------------------------- changes

    def renew(self, key: int) -> None:
        """The block, which is on the CPU, has been brought back to the GPU."""
        if self._explicit is None and key in self._gone:
            self._renewed.pop(key, None)
            self._renewed[key] = None
        else:
            # a member has it, although the GPU's index has lost it
            self._spell_out().move_to_end(key)

    def mirror(self, members: Sequence[KVSequence], clock: int, steps: int) -> None:
        """Mirror the batch in each of ``steps`` steps, the last of which set the clock to
        ``clock``."""
        size, stores = len(self), self.stores
        first = clock - steps + 1
        if self._explicit is not None or any(seq.layout is not None for seq in members):
            self._touch(members, first, clock)
        else:
            self._pass(members, first, clock)
        self.evictions += self.stores - stores - (len(self) - size)

    def _pass(self, members: Sequence[KVSequence], first: int, last: int) -> None:
        """The passes at the clocks ``first..last``. Membership has changed before them only."""
        change = self._change(members, last)
        in_batch = len(self._holders)
        total = in_batch + len(change.fresh)
        if total + len(self._renewed) <= self.capacity:
            self._pass_that_fits(change, first)
        elif first == last:
            remaining = in_batch - sum(held.blocks for held in change.left)
            if remaining > self.capacity and change.alone:
                self._pass_that_spills(change)
            else:
                self._carry_out(members, change)
        elif change.joined or change.left or self._renewed:
            self._pass(members, first, first)
            self._pass(members, first + 1, last)
        elif in_batch > self.capacity:
            if change.alone:
                self._passes_that_spill(change, first, last)
            else:
                self._touch(members, first, last)
        else:
            clocks = sorted(clock for clock, _, _ in self._in_order(change, first))
            fits = clocks[self.capacity - in_batch] - 1  # the last clock that leaves room
            if fits >= first:
                self._pass(members, first, fits)
            self._pass(members, fits + 1, fits + 1)
            if fits + 1 < last:
                self._pass(members, fits + 2, last)

    def _change(self, members: Sequence[KVSequence], clock: int) -> _Change:
        """What has changed since the last pass, at ``clock``."""
        change = _Change()
        joined, grown, fresh = change.joined, change.grown, change.fresh
        batch, holders = self._batch, self._holders
        size = self._block_size
        added = 0
        for seq in members:
            if seq.decoding and size > 1:
                blocks = (clock - seq.offset - seq.start) // size  # indexed_blocks, spelled out
            else:
                blocks = indexed_blocks(seq, clock, size)
            held = batch.get(seq.rank)
            if held is None:
                joined.append(_Held(seq, blocks))
            elif blocks != held.blocks:
                keys = held.keys(held.blocks, blocks)
                grown.append((held, blocks, keys))
                added += len(keys)
                for key in keys:
                    if key not in holders:
                        fresh[key] = True
        change.alone = len(fresh) == added
        for held in joined:
            for key in held.keys(0, held.blocks):
                if key not in holders and fresh.setdefault(key, False):
                    change.alone = False
        if len(members) - len(joined) < len(batch):
            ranks = {seq.rank for seq in members}
            change.left = [held for rank, held in batch.items() if rank not in ranks]
        return change

    def _in_order(self, change: _Change, first: int) -> list[tuple[int, int, int]]:
        """(clock, rank, key) of all fresh keys as they are mirrored for the first time."""
        size, fresh = self._block_size, change.fresh
        found: dict[int, tuple[int, int, int]] = {}

        def note(seq: KVSequence, clock: int, key: int) -> None:
            if key in fresh and (key not in found or (clock, seq.rank) < found[key][:2]):
                found[key] = clock, seq.rank, key

        for held, _, keys in change.grown:
            seq = held.seq
            for i, key in enumerate(keys, held.blocks + 1):
                full = seq.offset + seq.start + i * size if seq.decoding else first
                note(seq, max(first, full), key)
        for held in change.joined:
            for key in held.keys(0, held.blocks):
                note(held.seq, first, key)
        # for equal clock and rank the order is that of the chain, and sorting is stable
        return sorted(found.values(), key=lambda entry: entry[:2])

    # ------------------------------------------------------------------- the two easy cases

    def _pass_that_fits(self, change: _Change, first: int) -> None:
        """Passes with a batch of which, together with those that have left, nothing is evicted."""
        gone, fresh, renewed = self._gone, change.fresh, self._renewed
        self._walk = None
        for key in renewed:
            gone.move_to_end(key)
        back = [key for key in fresh if key in gone] if gone else []
        excess = len(self._holders) + len(fresh) + len(gone) - len(back) - self.capacity
        if back and excess > 0:
            self._let_in(self._in_order(change, first))
        else:
            for key in back:
                del gone[key]
            self.stores += len(fresh) - len(back)
            for _ in range(excess):
                gone.popitem(last=False)
        self._add(change)
        for held in change.left:
            for key in self._remove(held):
                gone[key] = None
        for key in renewed:
            if key in gone:
                gone.move_to_end(key)
        renewed.clear()

    def _let_in(self, fresh: list[tuple[int, int, int]]) -> None:
        """Mirror fresh keys one by one: some of them may be evicted before their turn comes."""
        gone = self._gone
        size = len(self._holders) + len(gone)
        for _, _, key in fresh:
            if key in gone:
                del gone[key]
                continue
            if size == self.capacity:
                gone.popitem(last=False)
            else:
                size += 1
            self.stores += 1

    def _pass_that_spills(self, change: _Change) -> None:
        """A pass with more remaining blocks than the tier has, whose members grow alone.

        All keys that only one member has are stored anew.
        """
        batch, holders = self._batch, self._holders
        present = len(batch)
        had = {held.seq.rank: held.blocks for held, _, _ in change.grown}
        self._add(change)
        # those that have left still count as holders: they may have used a shared range last
        left = {held.seq.rank for held in change.left}
        members = [(h.spans, h.blocks) for rank, h in batch.items() if rank not in left]
        new = walk(members, holders, present - len(left))
        old = self._walk
        if old is None or not old.agrees_with(new):
            then = islice(batch.items(), present)
            old = walk([(h.spans, had.get(rank, h.blocks)) for rank, h in then], holders)
        self.stores += new.private + shared_misses(old, new, self.capacity)
        self._walk = new
        for held in change.left:
            self._remove(held)

    def _passes_that_spill(self, change: _Change, first: int, last: int) -> None:
        """Several such passes with constant membership, at the clocks ``first..last``."""
        self._add(change)
        batch, holders, size = list(self._batch.values()), self._holders, self._block_size
        self.stores += sum(_summed_blocks(held.seq, first, last, size) for held in batch)
        final = walk([(held.spans, held.blocks) for held in batch], holders)
        walks = {last: final}
        if self._walk is not None and self._walk.agrees_with(final):
            walks[first - 1] = self._walk
        self._walk = final
        if not final.shared:
            return

        def walk_at(clock: int) -> Walk:
            if clock not in walks:
                members = [(h.spans, indexed_blocks(h.seq, clock, size)) for h in batch]
                walks[clock] = walk(members, holders)
            return walks[clock]

        def misses(clock: int) -> int:
            return shared_misses(walk_at(clock - 1), walk_at(clock), self.capacity)

        # distances only grow in a run, and misses with them
        self.stores += sum_monotone(misses, first, last) - final.shared * (last - first + 1)

    def _add(self, change: _Change) -> None:
        """Take joined members and grown blocks into the batch."""
        holders = self._holders
        for held, blocks, keys in change.grown:
            held.blocks = blocks
            for key in keys:
                holders[key] = holders.get(key, 0) + 1
        for held in change.joined:
            self._batch[held.seq.rank] = held
            for key in held.keys(0, held.blocks):
                holders[key] = holders.get(key, 0) + 1

    def _remove(self, held: _Held) -> list[int]:
        """Take a member out of the batch. Returns the keys that nobody has any more."""
        del self._batch[held.seq.rank]
        holders = self._holders
        free: list[int] = []
        for key in held.keys(0, held.blocks):
            others = holders[key] - 1
            if others:
                holders[key] = others
            else:
                del holders[key]
                free.append(key)
        return free

    # ------------------------------------------------------------------------ block by block

    def _carry_out(self, members: Sequence[KVSequence], change: _Change) -> None:
        """One pass over regular sequences."""
        tier = self._spelled_out()
        self._walk = None
        self._renewed.clear()
        self._add(change)
        for held in change.left:
            self._remove(held)
        batch, holders = self._batch, self._holders
        for seq in members:
            held = batch[seq.rank]
            self._use(tier, held.keys(0, held.blocks))
        self._gone = OrderedDict()
        if len(holders) < self.capacity:
            self._gone = OrderedDict.fromkeys(key for key in tier if key not in holders)

    def _touch(self, members: Sequence[KVSequence], first: int, last: int) -> None:
        """The passes at the clocks ``first..last``, whatever the sequences are like."""
        tier = self._spell_out()
        size = self._block_size
        for clock in range(first, last + 1):
            for seq in members:
                if seq.layout is None:
                    self._use(tier, islice(seq.keys, indexed_blocks(seq, clock, size)))
                else:
                    self._use(tier, [key for key in seq.layout.keys if key >= 0])
        if all(seq.layout is None for seq in members):
            self._explicit = None
            change = _Change()
            change.joined = [_Held(seq, indexed_blocks(seq, last, size)) for seq in members]
            self._add(change)
            holders = self._holders
            self._gone = OrderedDict.fromkeys(key for key in tier if key not in holders)

    def _use(self, tier: OrderedDict[int, None], keys: Iterable[int]) -> None:
        """Mirror blocks one by one."""
        capacity = self.capacity
        for key in keys:
            if key in tier:
                tier.move_to_end(key)
                continue
            if len(tier) == capacity:
                tier.popitem(last=False)
            tier[key] = None
            self.stores += 1

    def _spell_out(self) -> OrderedDict[int, None]:
        """Go over to the explicit form."""
        if self._explicit is None:
            self._explicit = self._spelled_out()
            self._walk = None
            self._batch = {}
            self._holders = {}
            self._gone = OrderedDict()
            self._renewed = {}
        return self._explicit

    def _spelled_out(self) -> OrderedDict[int, None]:
        """Everything on the CPU, the oldest first."""
        if self._explicit is not None:
            return self._explicit
        tier = self._gone.copy()
        for held in self._batch.values():
            for key in held.keys(0, held.blocks):
                tier[key] = None
                tier.move_to_end(key)
        while len(tier) > self.capacity:
            tier.popitem(last=False)
        for key in self._renewed:
            tier.move_to_end(key)
        return tier


def indexed_blocks(seq: KVSequence, clock: int, block_size: int) -> int:
    """How many leading blocks of a regular sequence were indexed when the clock said so."""
    if block_size == 1:
        return seq.prompt_stored  # a one-token block that decoding fills is not
    stored = max(seq.stored, clock - seq.offset) if seq.decoding else seq.stored
    return (stored - seq.start) // block_size


def _summed_blocks(seq: KVSequence, first: int, last: int, block_size: int) -> int:
    """Sum of ``indexed_blocks`` over the clocks ``first..last`` of a run of decode steps."""
    if not seq.decoding or block_size == 1:
        return indexed_blocks(seq, last, block_size) * (last - first + 1)
    zero = seq.offset + seq.start
    return _quotients(last - zero, block_size) - _quotients(first - 1 - zero, block_size)


def _quotients(n: int, size: int) -> int:
    """Sum of ``i // size`` for i in 0..n."""
    cycles, rest = divmod(n + 1, size)
    return size * (cycles * (cycles - 1) // 2) + cycles * rest
