"""How far apart the uses of shared blocks lie in passes over a batch.

A block is still in a least-recently-used tier of K blocks at its next use if and only if fewer than
K other blocks have been used in between. All blocks of a range that the same members have behave
alike: each is followed by the rest of the range, preceded by its beginning, and what lies between
the two uses of the range is the same for all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence


class Walk:
    """A pass, as far as shared ranges matter. The lists have one entry per use of such a range."""

    __slots__ = ("before", "known", "private", "ranges", "shared", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        """First key of the range, which names it."""
        self.before: list[int] = []
        """Private blocks used before it in the pass."""
        self.ranges: dict[int, int] = {}
        """Sizes of the ranges."""
        self.private = 0
        """Blocks that only one member has."""
        self.shared = 0
        """Sum of the sizes of all uses."""
        self.known = 0
        """Number of the uses by members that were there before."""

    def agrees_with(self, other: Walk) -> bool:
        """Whether both divide the keys into the same ranges.

        All members that have keys of a segment have its beginning, so that different divisions
        differ in a range that starts at the same key.
        """
        mine = self.ranges
        return all(mine.get(start, size) == size for start, size in other.ranges.items())


def walk(
    members: Iterable[tuple[Sequence[tuple[int, int]], int]],
    holders: Mapping[int, int],
    known: int = -1,
) -> Walk:
    """A pass over members that are given by ranges of keys, of which they have so many blocks.

    The first ``known`` of them were in the pass before (-1: all). ``holders`` says how many members
    have a key; each range begins a segment of the key tree, so that this number never rises within
    a range.
    """
    result = Walk()
    starts, before, ranges = result.starts, result.before, result.ranges
    private = shared = 0
    number = 0
    for spans, blocks in members:
        if number == known:
            result.known = len(starts)
        number += 1
        for key, length in spans:
            if blocks <= length:
                if not blocks:
                    break
                length = blocks
            blocks -= length
            count = holders[key]
            if count == 1:
                private += length
                continue
            end = key + length
            while count > 1:
                stop = end
                if holders[end - 1] != count:
                    stop = bisect_left(range(end), 1 - count, key, key=lambda k: -holders[k])
                starts.append(key)
                before.append(private)
                ranges[key] = stop - key
                shared += stop - key
                key = stop
                count = holders[key] if key < end else 1
            private += end - key
    if number == known or known < 0:
        result.known = len(starts)
    result.private, result.shared = private, shared
    return result


def shared_misses(old: Walk, new: Walk, capacity: int) -> int:
    """Shared blocks that are gone from a tier of ``capacity`` blocks when the pass ``new``, which
    follows the pass ``old``, comes to them.

    The members that take part in both have more blocks than the tier. So blocks that only one
    member had in the old pass are gone, and newcomers find nothing that only others have left.
    """
    starts, before, ranges = new.starts, new.before, new.ranges
    if not starts:
        return 0
    last_old = {start: i for i, start in enumerate(old.starts)}
    most = sum((old.ranges | ranges).values())
    latest: dict[int, int] = {}
    misses = 0
    for i, start in enumerate(starts):
        size = ranges[start]
        previous = latest.get(start, -1)
        latest[start] = i
        if previous >= 0:
            between = before[i] - before[previous]
        elif i < new.known and start in last_old:
            between = old.private - old.before[last_old[start]] + before[i]
        else:
            misses += size
            continue
        # the use is a miss if the private and the shared blocks in between reach this
        limit = capacity - size + 1
        if between < limit <= between + most - size:
            if previous >= 0:
                others = set(starts[previous + 1 : i])
                between += sum(map(ranges.__getitem__, others))
            else:
                others = set(old.starts[last_old[start] + 1 :])
                others.update(starts[:i])
                between += sum(ranges.get(other) or old.ranges[other] for other in others)
        if between >= limit:
            misses += size
    return misses


def sum_monotone(value: Callable[[int], int], first: int, last: int) -> int:
    """Sum of ``value`` over ``first..last``, where it never falls, with few evaluations."""
    low = value(first)
    total, stack = low, [(first, low, last, value(last))] if last > first else []
    while stack:
        a, at_a, b, at_b = stack.pop()  # the sum over a+1..b is missing
        if at_a == at_b or b - a == 1:
            total += at_b * (b - a)
        else:
            middle = (a + b) // 2
            at_middle = value(middle)
            stack += [(a, at_a, middle, at_middle), (middle, at_middle, b, at_b)]
    return total
