"""Means and percentiles with the reference's order of floating-point operations.

Two families of figures exist side by side: "ms" figures take us and give ms (specification 01,
section 8.4), "distributions" stay in us (06, section 12.3). They interpolate in different orders
of operations, so neither can be derived from the other.
"""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING

import numpy as np

from blis_core.results.model import Distribution

if TYPE_CHECKING:
    from collections.abc import Iterable

    from blis_core.contracts import FloatArray, IntArray

_EXACT = 2**53
"""Sums of integers below this are exact in double precision, whatever the order."""


def _ordered_sum(ascending: FloatArray) -> float:
    """Left-to-right sum; numpy's own ``sum`` adds pairwise and may differ in the last digit."""
    return float(np.add.accumulate(ascending)[-1])


def _rank(p: float, n: int) -> tuple[int, int, float]:
    """The two neighbouring positions of percentile ``p`` among ``n`` values, and the rank."""
    rank = (p / 100.0) * float(n - 1)
    return floor(rank), ceil(rank), rank


def plain_sum(values: Iterable[float]) -> float:
    """Left-to-right sum of a few floats; the built-in compensates for rounding since 3.12."""
    total = 0.0
    for value in values:
        total += value
    return total


def mean_ms(ascending: FloatArray) -> float:
    """Mean in ms of ascending values in us; 0 when there are none."""
    n = len(ascending)
    return _ordered_sum(ascending) / float(n) / 1000.0 if n else 0.0


def percentile_ms(ascending: FloatArray, p: float) -> float:
    """Percentile ``p`` (0 to 100) in ms of ascending values in us; 0 when there are none."""
    n = len(ascending)
    if not n:
        return 0.0
    low, high, rank = _rank(p, n)
    below = float(ascending[low])
    if low == high:
        return below / 1000.0
    return below / 1000.0 + ((float(ascending[high]) - below) * (rank - float(low))) / 1000.0


class WeightedIntegers:
    """A list of integers in us, kept as distinct positions with multiplicities.

    The figures equal those of the expanded, sorted list to the last bit.
    """

    def __init__(self, values: IntArray, weights: IntArray | FloatArray | None = None) -> None:
        """``values`` in any order, repeats allowed; ``weights`` are whole numbers >= 0 (None = once
        each)."""
        if weights is None:
            weights = np.ones(len(values))
        if len(values):
            lowest, highest = int(values.min()), int(values.max())
            if lowest >= 0 and highest < 4 * len(values):
                lowest = 0  # spares a copy
            if highest - lowest < 4 * len(values):
                # Counting is several times faster than sorting. The counts are floats, but exact.
                counts = np.bincount(values - lowest if lowest else values, weights)
                offsets = np.flatnonzero(counts)
                values, weights = offsets + lowest, counts[offsets]
            else:
                order = np.argsort(values)
                values, weights = values[order], weights[order]
        self._values = values
        self._weights: IntArray = weights.astype(np.int64)
        self._ends = np.cumsum(self._weights)
        self.count = int(self._ends[-1]) if len(self._ends) else 0

    def _at(self, position: int) -> int:
        """Value at ``position`` of the expanded list."""
        return int(self._values[int(np.searchsorted(self._ends, position, side="right"))])

    def mean_ms(self) -> float:
        """Mean in ms; 0 when there are none."""
        if not self.count:
            return 0.0
        return self._sum() / float(self.count) / 1000.0

    def percentile_ms(self, p: float) -> float:
        """Percentile ``p`` (0 to 100) in ms; 0 when there are none."""
        if not self.count:
            return 0.0
        low, high, rank = _rank(p, self.count)
        below = self._at(low)
        if low == high:
            return float(below) / 1000.0
        # The difference is formed between integers, before it becomes a float.
        step = float(self._at(high) - below)
        return float(below) / 1000.0 + (step * (rank - float(low))) / 1000.0

    def _sum(self) -> float:
        """Float sum of the expanded list, left to right."""
        largest = max(abs(int(self._values[0])), abs(int(self._values[-1])))
        if largest * self.count < _EXACT:
            return float(np.dot(self._values, self._weights))
        total = 0.0  # rounding starts to matter: add one by one, but a value's repeats in chunks
        for value, weight in zip(self._values.tolist(), self._weights.tolist(), strict=True):
            while weight > 0:
                chunk = min(weight, 1 << 20)
                terms = np.full(chunk + 1, float(value))
                terms[0] = total
                total = _ordered_sum(terms)
                weight -= chunk
        return total


def distribution(values: FloatArray) -> Distribution:
    """Summary in us of values in us, in any order; all zero when there are none."""
    n = len(values)
    if not n:
        return Distribution()
    ascending = np.sort(values)
    return Distribution(
        mean=_ordered_sum(ascending) / float(n),
        p50=_percentile_us(ascending, 50),
        p95=_percentile_us(ascending, 95),
        p99=_percentile_us(ascending, 99),
        count=n,
    )


def _percentile_us(ascending: FloatArray, p: float) -> float:
    """Percentile ``p`` in us of ascending values in us (at least one)."""
    low, high, rank = _rank(p, len(ascending))
    below = float(ascending[low])
    if low == high:
        return below
    return below + (rank - float(low)) * (float(ascending[high]) - below)
