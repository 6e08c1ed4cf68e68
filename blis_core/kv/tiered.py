"""The two-tier KV store: GPU blocks as in kv.paged, mirrored into CPU memory.

Every step copies the full blocks of all running requests to the CPU tier, which keeps the most
recently mirrored ones. They come back only when an allocation fails: then the blocks of the prompt
that are missing on the GPU are loaded, one after the other, and what they take lengthens the step.
A failed attempt keeps its side effects and is repeated in every step (reference quirks 02-7, 02-9).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import ClassVar

from blis_core.contracts import KVSequence, KVSetup
from blis_core.errors import BlisError
from blis_core.kv.chains import Chain
from blis_core.kv.cpu_tier import CpuTier
from blis_core.kv.displaced import DisplacedKVStore, Layout
from blis_core.kv.paged import Hit


class TieredKVStore(DisplacedKVStore):
    """KV memory on the GPU and ``cpu_blocks`` (at least 1) blocks behind it."""

    refusals_are_pure: ClassVar[bool] = False
    mirrors: ClassVar[bool] = True

    def __init__(self, setup: KVSetup) -> None:
        if setup.cpu_blocks <= 0:
            raise BlisError(
                "--kv-cpu-blocks: a tiered KV store needs at least 1 CPU block,"
                f" got {setup.cpu_blocks}"
            )
        bandwidth, latency = setup.transfer_bandwidth, setup.transfer_base_latency
        if not (math.isfinite(bandwidth) and bandwidth > 0):
            raise BlisError(
                f"--kv-transfer-bandwidth: must be finite and greater than 0, got {bandwidth:g}"
            )
        if latency < 0:
            raise BlisError(f"--kv-transfer-base-latency: must be at least 0, got {latency}")
        super().__init__(setup)
        self.cpu = CpuTier(setup.cpu_blocks, setup.block_size)
        self.cpu_misses = 0
        self.pending_us = 0
        """Transfer time that no step has been charged with yet."""
        # documented as blocks per us, the bandwidth acts as tokens per us: reference quirk 02-11
        self._reload_us = latency + math.ceil(float(self.block_size) / bandwidth)
        self._kept: dict[Chain, tuple[list[int], Layout]] = {}

    # ------------------------------------------------------------------------------- queries

    def hit_rate(self) -> float:
        """Hit blocks / (hit + newly taken blocks + failed look-ups on the CPU), 0 if none."""
        total = self.hits + self.misses + self.cpu_misses
        return self.hits / total if total else 0.0

    def thrashing_rate(self) -> float:
        """Evictions from the CPU tier / stores into it, 0 if none."""
        return self.cpu.evictions / self.cpu.stores if self.cpu.stores else 0.0

    def consume_transfer_us(self) -> int:
        """us by which reloads lengthen the step at hand."""
        pending, self.pending_us = self.pending_us, 0
        return pending

    # ------------------------------------------------------------------------------- changes

    def admit(self, seq: KVSequence, hit: Hit, new_tokens: int) -> bool:
        """See KVStore; a refusal may leave blocks claimed (reference quirk 02-7)."""
        start = len(hit) * self.block_size
        end = start + new_tokens
        kept = self._kept.pop(seq.keys, None) if self._kept else None
        if kept is not None:
            seq.blocks, layout = kept
            self._displace(seq, layout)
            admitted = self._allocate(seq, layout, start, end, hit.ids)
        elif super().admit(seq, hit, new_tokens):
            return True
        elif not self._reload(seq.keys):
            self.cpu_misses += 1
            return False
        else:
            layout = self._displace(seq)
            admitted = self._after_reload(seq, layout, start, end, 0)
        if admitted:
            self._regularise(seq, layout, end)
        else:
            self._keep(seq, layout)
        return admitted

    def restart(self, seq: KVSequence, keys: Chain, start: int) -> None:
        """See KVStore; with blocks that a refused admission left there is nothing to start."""
        if not seq.held:
            super().restart(seq, keys, start)

    def extend(self, seq: KVSequence, start: int, end: int) -> bool:
        """See KVStore."""
        layout: Layout | None = seq.layout
        if layout is None:
            if super().extend(seq, start, end):
                return True
            if not self._reload(seq.keys):
                self.cpu_misses += 1
                return False
            layout = self._displace(seq)
            extended = self._after_reload(seq, layout, start, end, -(-start // self.block_size))
        else:
            extended = self._allocate(seq, layout, start, end, ())
        self._regularise(seq, layout, end if extended else start)
        return extended

    def append(self, seq: KVSequence, position: int) -> bool:
        """See KVStore. A refusal means that no block is free, so that nothing can be reloaded."""
        if super().append(seq, position):
            return True
        self.cpu_misses += 1
        return False

    def forget(self, keys: Chain) -> None:
        """See KVStore."""
        kept = self._kept.pop(keys, None)
        if kept is not None:
            self._give_back(kept[0])

    def mirror(self, members: Iterable[KVSequence], steps: int) -> None:
        """See KVStore."""
        self.cpu.mirror(list(members), self.clock, steps)

    # ------------------------------------------------------------------------- after a failure

    def _allocate(
        self, seq: KVSequence, layout: Layout, start: int, end: int, hit: Sequence[int]
    ) -> bool:
        """Store prompt tokens of a displaced sequence, with all that comes of a failure."""
        if start == end:
            return True
        if self._fits(seq, layout, end - start, hit):
            self._put(seq, layout, start, end)
            return True
        if not self._reload(seq.keys):
            self.cpu_misses += 1
            return False
        return self._after_reload(seq, layout, start, end, -(-start // self.block_size))

    def _after_reload(
        self, seq: KVSequence, layout: Layout, start: int, end: int, first: int
    ) -> bool:
        """Second attempt at positions ``start..end-1``: claim the blocks of the prompt from number
        ``first`` on that are cached now, and store only what follows them.

        They are appended whether or not the last block is full and whether or not they reach
        beyond ``end``: reference quirk 02-10. If the reload has not lengthened the hit, a second
        attempt needs as much as the first, which failed: reference quirk 02-8.
        """
        size = self.block_size
        hit = self.match(seq.keys, seq.keys.prompt_blocks).ids
        cached = len(hit) * size
        if cached <= start:
            return False
        if cached >= end:
            self._claim_more(seq, layout, hit[first : -(-end // size)], first)
            return True
        self._claim_more(seq, layout, hit[first:], first)
        if not self._fits(seq, layout, end - cached, hit):
            return False
        self._put(seq, layout, cached, end)
        return True

    def _keep(self, seq: KVSequence, layout: Layout) -> None:
        """Remember what a refused admission has claimed for the request: reference quirk 02-7."""
        if seq.blocks:
            self._kept[seq.keys] = seq.blocks, layout
        seq.blocks, seq.layout = [], None
        seq.held = False
        self._displaced -= 1
        self._tracked -= 1

    def _reload(self, keys: Chain) -> bool:
        """Bring blocks of the prompt that are on the CPU only back to the GPU, unclaimed.

        They take free blocks, which may lose parts of the same prefix (reference quirk 02-8), and
        go to the end of the queue. False: nothing was brought back.
        """
        room = self.free_blocks
        if not room:
            return False
        index, own = self._index, keys.own
        private = range(0)
        if own is not None and not own.shared:
            private = range(own.base, own.base + self._cached_tail(keys))
        done = 0
        for key in islice(keys, keys.prompt_blocks):
            if key in index or key in private:
                continue
            if done == room or not self.cpu.holds(key):
                break
            if not done and own is not None:
                own.share()
                private = range(0)
            self._reload_block(key)
            done += 1
        return done > 0

    def _reload_block(self, key: int) -> None:
        block, _ = self._take_one()
        self.used_blocks -= 1  # nobody holds it
        self.misses -= 1
        if block < 0:
            block = self._next_id
            self._next_id += 1
        self._enter(key, block)
        self._enqueue([block])
        self.cpu.renew(key)
        self.pending_us += self._reload_us

    def _cached_tail(self, keys: Chain) -> int:
        """How many blocks of the private tail of ``keys`` are indexed on the GPU."""
        own = keys.own
        assert own is not None
        seq = self._running.get(own.base)
        if seq is not None:
            return self._indexed(seq) - len(keys.head)
        extent = self._extents.get(own.base)
        return extent.full if extent is not None else 0
