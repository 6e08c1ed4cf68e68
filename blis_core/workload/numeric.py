"""Conversions from float to integer as the reference makes them (Go on amd64).

Anything outside int64, NaN included, becomes ``-2**63`` there; samplers then clamp it to their
minimum, so that an overflow yields the *smallest* value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    FloatArray = np.typing.NDArray[np.float64]

MIN_INT64 = -(2**63)
_LIMIT = 2.0**63


def trunc_int64(x: float) -> int:
    """``x`` truncated toward zero; -2**63 if it does not fit int64."""
    return int(x) if -_LIMIT <= x < _LIMIT else MIN_INT64


def round_int64(x: float) -> int:
    """``x`` rounded half away from zero; -2**63 if it does not fit int64."""
    if not -_LIMIT <= x < _LIMIT:
        return MIN_INT64
    k = int(x)
    rest = x - k  # exact
    return k + (rest >= 0.5) - (rest <= -0.5)


def positive_trunc(x: FloatArray) -> list[int]:
    """``max(1, trunc_int64(v))`` for each v."""
    result: list[int] = np.where((x >= 1.0) & (x < _LIMIT), x, 1.0).astype(np.int64).tolist()
    return result


def positive_round(x: FloatArray) -> list[int]:
    """``max(1, round_int64(v))`` for each v."""
    x = np.where((x >= 1.0) & (x < _LIMIT), x, 1.0)
    whole = np.floor(x)
    whole += x - whole >= 0.5
    result: list[int] = whole.astype(np.int64).tolist()
    return result


def exp(x: float) -> float:
    """e**x, infinite where it overflows."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def power(x: float, y: float) -> float:
    """x**y for x >= 0, infinite where it overflows or divides by zero."""
    try:
        return math.pow(x, y)
    except (OverflowError, ValueError):
        return math.inf


def divide(x: float, y: float) -> float:
    """x / y as IEEE defines it: a zero divisor gives an infinity, or NaN for 0/0."""
    if y:
        return x / y
    return math.copysign(math.inf, x) * math.copysign(1.0, y) if x else math.nan
