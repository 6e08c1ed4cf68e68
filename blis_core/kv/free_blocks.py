"""The free blocks of a KV store: which one is taken next, and what it still holds until then.

Free blocks form a queue: taken at the head, given back at the tail, each keeping its content and
its entry in the prefix index until it is taken again. See kv.paged for the two forms of blocks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence


class Extent:
    """Blocks that lie next to each other in the queue of free blocks; the last is taken first."""

    # filled in by whoever makes one, which costs half of what a constructor in Python does
    __slots__ = ("base", "count", "full", "ids")

    count: int
    """Number of blocks, if they have no ids."""
    base: int
    """First key of the tail whose first ``count`` blocks these are; -1 = of no use."""
    full: int
    """How many of the leading blocks have been indexed."""
    ids: list[int] | None
    """Ids of tracked blocks; some may have been claimed since (see ``_vacate``)."""


class FreeBlocks:
    """The queue of free blocks and the index of what all blocks hold."""

    def __init__(self, total_blocks: int) -> None:
        self.used_blocks = 0
        self.hits = 0
        self.misses = 0
        untouched = Extent()  # comes before what is given back
        untouched.count, untouched.base, untouched.full, untouched.ids = total_blocks, -1, 0, None
        self._queue: deque[Extent] = deque((untouched,))
        self._index: dict[int, int] = {}  # key -> tracked block registered last under it
        self._key_of: dict[int, int] = {}  # tracked block -> its key
        # private tails in the queue with at least one indexed block, by their first key
        self._extents: dict[int, Extent] = {}
        # tracked block -> places in the queue that it has left
        self._stale = Counter[int]()
        self._lying: dict[int, Extent] = {}  # first id of an extent in the queue -> the extent
        # keys whose presence in the index has changed since ``freeze`` -> whether they were there
        self._changed: dict[int, bool] | None = None
        self._tails_then: dict[int, int] = {}  # private tail -> indexed blocks at ``freeze``

    def _take_one(self) -> tuple[int, int]:
        """Take the head of the queue: its id (-1 = none) and the key that lost its entry."""
        queue = self._queue
        while (ids := queue[0].ids) is not None:
            if not ids:
                queue.popleft()
                continue
            block = ids.pop()
            if not ids:
                self._lifted(queue[0], block)
            if block in self._stale:
                self._skip(block)
                continue
            self.used_blocks += 1
            self.misses += 1
            return block, self._forget(block)
        self._take(1)
        return -1, -1

    def _take(self, count: int) -> None:
        """Take ``count`` blocks, at least one, for a private tail. There must be so many."""
        self.used_blocks += count
        self.misses += count
        queue, frozen = self._queue, self._changed is not None
        while True:
            extent = queue[0]
            ids = extent.ids
            if ids is None:
                left = extent.count - count
                if left > 0:
                    extent.count = left
                    if extent.full > left:
                        if frozen:
                            self._note(extent)
                        extent.full = left
                    return
                queue.popleft()
                extent.count = 0
                if extent.full > 0:
                    if frozen:
                        self._note(extent)
                    extent.full = 0
                    if extent.base >= 0:
                        del self._extents[extent.base]
                count = -left
            else:
                stale, first = self._stale, ids[0] if ids else -1
                while count and ids:
                    block = ids.pop()
                    if block in stale:
                        self._skip(block)
                    else:
                        self._forget(block)
                        count -= 1
                if not ids:
                    queue.popleft()
                    self._lifted(extent, first)
            if not count:
                return

    def _note(self, extent: Extent) -> None:
        """An extent in the queue is about to lose indexed blocks: note what it had at freeze."""
        if extent.base >= 0:
            self._tails_then.setdefault(extent.base, extent.full)

    def _vacate(self, blocks: Sequence[int]) -> None:
        """Free blocks are claimed: take their places out of the queue, or note that they are void.

        A block that has been claimed before may have several places, all but one of them void. It
        makes no difference which one is taken out.
        """
        lying = self._lying
        while blocks:
            extent = lying.get(blocks[0])
            if extent is None or not extent.ids:
                break
            ids = extent.ids
            # what is claimed together has been given back together, as a rule
            count = min(len(ids), len(blocks))
            if ids[:count] != blocks[:count]:
                break
            del ids[:count], lying[blocks[0]]
            if ids:
                lying[ids[0]] = extent
            blocks = blocks[count:]
        if blocks:
            self._stale.update(blocks)

    def _enqueue(self, ids: list[int]) -> None:
        """Append tracked blocks to the queue; the last of them will be taken first."""
        self._lying[ids[0]] = extent = Extent()
        extent.count, extent.base, extent.full, extent.ids = 0, -1, 0, ids
        self._queue.append(extent)

    def _lifted(self, extent: Extent, first: int) -> None:
        """The last id of an extent, which was its ``first``, has been taken from the queue."""
        if self._lying.get(first) is extent:
            del self._lying[first]

    def _skip(self, block: int) -> None:
        """Pass over a place in the queue that ``block`` has left."""
        places = self._stale[block]
        if places == 1:
            del self._stale[block]
        else:
            self._stale[block] = places - 1

    def _forget(self, block: int) -> int:
        """A free block loses its content, and its key the index entry, whatever block that names
        (reference quirk 02-1). Returns the key, -1 if none."""
        key = self._key_of.pop(block, -1)
        if key >= 0 and self._index.pop(key, None) is not None and self._changed is not None:
            self._changed.setdefault(key, True)
        return key

    # ------------------------------------------------------------------------------- inspection

    def free_keys(self) -> list[int]:
        """Keys of the free blocks, next to be taken first; -1 = without (costs O(blocks))."""
        skip = dict(self._stale)
        keys: list[int] = []
        for extent in self._queue:
            if extent.ids is None:
                keys += [
                    extent.base + i if 0 <= i < extent.full and extent.base >= 0 else -1
                    for i in reversed(range(extent.count))
                ]
                continue
            for block in reversed(extent.ids):
                if skip.get(block, 0):
                    skip[block] -= 1
                else:
                    keys.append(self._key_of.get(block, -1))
        return keys
