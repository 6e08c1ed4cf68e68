"""Distributions and time lines as a row of bars in a line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from blis_core.contracts import FloatArray

BARS = "▁▂▃▄▅▆▇█"


def bars(heights: Any) -> str:
    """One character per height, the tallest in full; a blank where there is nothing at all."""
    values = np.asarray(heights, dtype=np.float64)
    top = values.max(initial=0.0)
    if not top > 0:
        return " " * len(values)
    levels = np.ceil(values / top * len(BARS)).astype(int)
    return "".join(BARS[level - 1] if level > 0 else " " for level in levels)


def distribution(values: Any, width: int, weights: Any = None) -> str:
    """How often values occur, from the smallest to p99; what is above counts in the last bar.

    ``weights`` say how often each value counts. "" without values.
    """
    column = np.asarray(values, dtype=np.float64)
    counts = np.ones(len(column)) if weights is None else np.asarray(weights, dtype=np.float64)
    column, counts = column[counts > 0], counts[counts > 0]
    if not len(column):
        return ""
    low, high = float(column.min()), _p99(column, counts)
    edges = np.linspace(low, max(high, low + 1.0), width + 1)
    found, _ = np.histogram(np.minimum(column, edges[-1]), edges, weights=counts)
    return bars(found)


def time_line(moments: Any, end: float, width: int) -> str:
    """How many of the moments lie in each of ``width`` equal parts of the time from 0 to ``end``;
    "" without moments or time."""
    column = np.asarray(moments, dtype=np.float64)
    if not len(column) or not end > 0:
        return ""
    found, _ = np.histogram(np.clip(column, 0.0, end), np.linspace(0.0, end, width + 1))
    return bars(found)


def _p99(values: FloatArray, counts: FloatArray) -> float:
    """The smallest value with 99 % of all at or below it."""
    order = np.argsort(values)
    total = np.cumsum(counts[order])
    return float(values[order][int(np.searchsorted(total, 0.99 * total[-1]))])
