"""Means over seeds, and how far they can be trusted.

The interval of a mean of n independent values is mean +- t * s / sqrt(n), with their standard
deviation s (n - 1 in the denominator) and the quantile t of Student's distribution with n - 1
degrees of freedom. It is exact for normally distributed values and a good approximation for means
and percentiles of many requests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import attrs


@attrs.frozen(kw_only=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    deviation: float
    """Standard deviation of the values; NaN for a single one."""
    low: float
    """Lower end of the interval; NaN for a single value."""
    high: float
    count: int

    @property
    def half_width(self) -> float:
        """Half the length of the interval; NaN for a single value."""
        return (self.high - self.low) / 2


def estimate(values: Sequence[float], confidence: float) -> Estimate | None:
    """The mean of ``values`` with its interval; None if there are none."""
    n = len(values)
    if not n:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean=mean, deviation=math.nan, low=math.nan, high=math.nan, count=1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = t_quantile(confidence, n - 1) * deviation / math.sqrt(n)
    return Estimate(mean=mean, deviation=deviation, low=mean - half, high=mean + half, count=n)


@cache
def t_quantile(confidence: float, freedom: int) -> float:
    """The t beyond which Student's distribution has the share 1 - ``confidence``, both sides
    together. ``freedom`` is a whole number above 0, ``confidence`` above 0 and below 1."""
    # By the angle atan(t / sqrt(freedom)), in which the distribution is a finite sum.
    low, high = 0.0, math.pi / 2
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return math.tan(middle) * math.sqrt(freedom)
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle


def _within(angle: float, freedom: int) -> float:
    """Probability that a value of Student's distribution lies within +- tan(angle) * sqrt(freedom).

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(odd, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (k + 1) / (k + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
