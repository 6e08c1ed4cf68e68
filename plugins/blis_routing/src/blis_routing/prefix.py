"""Scorers that look for a prompt's prefix: in the KV caches, or in what was routed before.

The formulas are those of the BLIS reference simulator. Prefixes are compared by block keys (see
blis_core.kv.chains), computed once per request, so nothing here is paid per token.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from blis_core.api import Scorer
from blis_routing.scorers import extremes, ones

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from blis_core.api import FleetView, Request

    FloatArray = npt.NDArray[np.float64]


class PrecisePrefixCache(Scorer):
    """The most leading blocks of the prompt in the KV cache, relative to the other instances."""

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """Min-max over the cached blocks; all 1 if they are equal, even if nothing is cached."""
        cached = fleet.cached_blocks(request)
        low, high = extremes(cached)
        return (cached - low) / (high - low) if high > low else ones(len(cached))


class PrefixAffinity(Scorer):
    """The instance to which prompts with the same beginning were sent.

    Remembers, per instance, the block keys of the prompts routed there, the ``capacity`` most
    recently used ones; what the KV caches really hold plays no part.
    """

    reads_cache: ClassVar[bool] = False
    capacity: ClassVar[int] = 10_000

    def __init__(self) -> None:
        self._recent: dict[str, OrderedDict[int, None]] = {}
        self._bits: dict[str, int] = {}  # instance -> its bit in the masks
        self._holders: dict[int, int] = {}  # key -> mask of the instances that remember it
        self._keys: Sequence[int] = []
        self._matched: dict[int, int] = {}
        self._ids: Sequence[str] = ()

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """Leading blocks remembered / all full blocks of the prompt."""
        keys = self._keys = fleet.prompt_keys(request)
        ids = self._ids = fleet.ids
        scores = np.zeros(len(ids))
        self._matched = matched = self._match(keys)
        if matched:
            bits = self._bits
            for position, name in enumerate(ids):
                scores[position] = matched.get(bits.get(name, 0), 0) / len(keys)
        return scores

    def _match(self, keys: Sequence[int]) -> dict[int, int]:
        """Bits of the instances that remember the first key -> number of leading keys that they
        remember."""
        holders = self._holders.get
        left = holders(keys[0], 0) if keys else 0
        matched: dict[int, int] = {}
        for depth, key in enumerate(keys):
            if not left:
                return matched
            lost = left & ~holders(key, 0)
            if lost:
                left -= lost
                matched.update(dict.fromkeys(_single_bits(lost), depth))
        matched.update(dict.fromkeys(_single_bits(left), len(keys)))
        return matched

    def routed(self, request: Request, index: int) -> None:
        """Remember the prompt's blocks, from the first to the last."""
        name = self._ids[index]
        recent = self._recent.get(name)
        if recent is None:
            recent = self._recent[name] = OrderedDict()
            self._bits[name] = 1 << len(self._bits)
        bit = self._bits[name]
        holders, room = self._holders, self.capacity - len(recent)
        keys = self._keys
        known = self._matched.get(bit, 0)
        deque(map(recent.move_to_end, keys[:known]), 0)  # the cheapest loop there is
        new = keys[known:]
        if len(new) <= room and recent.keys().isdisjoint(new):
            recent.update(dict.fromkeys(new))
            if holders.keys().isdisjoint(new):
                holders.update(dict.fromkeys(new, bit))
            else:
                for key in new:
                    holders[key] = holders.get(key, 0) | bit
            return
        for key in new:
            if key in recent:
                recent.move_to_end(key)
                continue
            if room > 0:
                room -= 1
            else:
                forgotten, _ = recent.popitem(last=False)
                remaining = holders[forgotten] & ~bit
                if remaining:
                    holders[forgotten] = remaining
                else:
                    del holders[forgotten]
            recent[key] = None
            holders[key] = holders.get(key, 0) | bit


def _single_bits(mask: int) -> Iterator[int]:
    """The powers of two that ``mask`` is the sum of."""
    while mask:
        bit = mask & -mask
        yield bit
        mask -= bit


class NoHitLru(Scorer):
    """Prompts that no cache knows go to the instance that has been given none for longest.

    A warm prompt (some cache holds its first block) scores 0.5 everywhere.
    """

    def __init__(self) -> None:
        self._given: list[str] = []  # instances that were given a cold prompt, latest first
        self._cold = False
        self._ids: tuple[str, ...] = ()

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """1 for the instance that waited longest, 0 for the latest, linear in between."""
        ids = self._ids = tuple(fleet.ids)
        self._cold = not fleet.cached_blocks(request).any()
        if not self._cold:
            return np.full(len(ids), 0.5)
        if len(ids) == 1:
            return np.ones(1)
        here = set(ids)
        self._given = [name for name in self._given if name in here]
        given = set(self._given)
        order = [name for name in ids if name not in given] + self._given[::-1]
        rank = {name: position for position, name in enumerate(order)}
        return np.array([1.0 - rank[name] / (len(ids) - 1) for name in ids])

    def routed(self, request: Request, index: int) -> None:
        """A cold prompt makes its instance the latest one."""
        if self._cold:
            name = self._ids[index]
            if name in self._given:
                self._given.remove(name)
            self._given.insert(0, name)
