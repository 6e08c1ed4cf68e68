"""Inter-token latencies without lists: one value per step, shared by all who decode in it.

All members of a step see the same inter-token latency, so a request's latencies are the values of
a range of steps. A value counts as often as completed requests were decoding in that step.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blis_core.contracts import FloatArray, IntArray

_BLOCK = 1 << 14
"""Steps whose changes are summed up at once."""


class StepLog:
    """Per-step token latencies of one instance, in us."""

    __slots__ = ("_ends", "_gaps", "_starts", "_values", "steps", "total")

    def __init__(self) -> None:
        self.steps = 0
        """Steps so far; also the number of the next step."""
        self.total = 0
        """Sum of all values, so that sums over ranges are differences."""
        self._values = array("q")
        self._starts = array("q")
        self._ends = array("q")
        self._gaps = array("q")

    def add(self, value: int) -> None:
        """Log one step."""
        self._values.append(value)
        self.steps += 1
        self.total += value

    def add_many(self, values: array[int] | list[int], total: int) -> None:
        """Log consecutive steps; ``total`` is the sum of ``values``."""
        self._values.extend(values)
        self.steps += len(values)
        self.total += total

    def value(self, step: int) -> int:
        """What was logged for a step."""
        return self._values[step]

    def count(self, start: int, end: int) -> None:
        """A completed request decoded in the steps ``start..end-1``."""
        self._starts.append(start)
        self._ends.append(end)

    def count_gaps(self, values: list[int]) -> None:
        """A completed request had these latencies between its tokens as well."""
        self._gaps.extend(values)

    def weighted(self) -> tuple[IntArray, FloatArray]:
        """Values and how often each counts (whole numbers). Nothing can be logged any more."""
        import numpy as np

        # Without copies, since there may be millions of steps; as floats, since those are what
        # bincount takes as weights.
        values: IntArray = np.frombuffer(self._values, dtype=np.int64)
        change = np.zeros(self.steps + 1)
        np.add.at(change, np.frombuffer(self._starts, dtype=np.int64), 1.0)
        np.subtract.at(change, np.frombuffer(self._ends, dtype=np.int64), 1.0)
        decoding = 0.0
        for start in range(0, len(change), _BLOCK):  # numpy would copy the whole to sum it up
            part = change[start : start + _BLOCK]
            part[0] += decoding
            np.cumsum(part, out=part)
            decoding = part[-1]
        weights: FloatArray = change[: self.steps]
        if self._gaps:
            gaps = np.frombuffer(self._gaps, dtype=np.int64)
            return np.concatenate((values, gaps)), np.concatenate((weights, np.ones(len(gaps))))
        return values, weights
