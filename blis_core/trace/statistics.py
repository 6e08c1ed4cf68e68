"""How far a simulated vector is from a measured one.

The order of operations is part of the contract: sums run from left to right, so that results equal
those of the reference to the last digit. Specification 05a, section 5.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import attrs

from blis_core.records import Record

PERCENTILES = (50, 90, 95, 99)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkloadLevel(Record):
    """The two distributions as a whole. Values in us; percent errors are fractions of the real
    figure, 0 if that is 0. Errors are simulated minus real, percent errors have no sign."""

    real_mean: float
    sim_mean: float
    mean_error: float
    mean_percent_error: float
    real_median: float
    sim_median: float
    median_error: float
    median_percent_error: float
    real_p50: float
    sim_p50: float
    real_p90: float
    sim_p90: float
    real_p95: float
    sim_p95: float
    real_p99: float
    sim_p99: float


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestLevel(Record):
    """Request by request."""

    mape: float
    """Mean of |real - simulated| / real over the requests whose real value is not 0; a fraction."""
    pearson_r: float
    """Correlation, 0 for fewer than three pairs and where it is not defined."""
    bias_direction: str
    """``over-predict``, ``under-predict`` or ``neutral``; empty if no real value differs from 0."""
    quality: str
    """``excellent``, ``good``, ``fair`` or ``poor``, by the two figures above."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MetricComparison(Record):
    """One metric of both sides."""

    workload_level: WorkloadLevel
    request_level: RequestLevel
    count: int
    """Number of pairs."""


def compare(real: Sequence[float], sim: Sequence[float]) -> MetricComparison:
    """Compare two vectors (us) of equal length, at least 1, pair by pair and as a whole."""
    return MetricComparison(
        workload_level=_workload_level(real, sim),
        request_level=_request_level(real, sim),
        count=len(real),
    )


def total(values: Iterable[float]) -> float:
    """The sum from left to right. (Python's own ``sum`` corrects rounding errors since 3.12.)"""
    result = 0.0
    for value in values:
        result += value
    return result


def percentile(ordered: Sequence[float], p: float) -> float:
    """The ``p``-th percentile (0 to 100) of ascending values, linearly interpolated."""
    if len(ordered) == 1:
        return ordered[0]
    rank = p / 100.0 * (len(ordered) - 1)
    low, high = math.floor(rank), math.ceil(rank)
    if low == high:
        return ordered[low]
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def _workload_level(real: Sequence[float], sim: Sequence[float]) -> WorkloadLevel:
    real_mean, sim_mean = total(real) / len(real), total(sim) / len(sim)
    real_ordered, sim_ordered = sorted(real), sorted(sim)
    figures: dict[str, float] = {}
    for p in PERCENTILES:
        figures[f"real_p{p}"] = percentile(real_ordered, p)
        figures[f"sim_p{p}"] = percentile(sim_ordered, p)
    mean_error = sim_mean - real_mean
    median_error = figures["sim_p50"] - figures["real_p50"]
    return WorkloadLevel(
        real_mean=real_mean,
        sim_mean=sim_mean,
        mean_error=mean_error,
        mean_percent_error=_relative(mean_error, real_mean),
        real_median=figures["real_p50"],
        sim_median=figures["sim_p50"],
        median_error=median_error,
        median_percent_error=_relative(median_error, figures["real_p50"]),
        **figures,
    )


def _relative(error: float, real: float) -> float:
    return abs(error) / real if real != 0 else 0.0


def _request_level(real: Sequence[float], sim: Sequence[float]) -> RequestLevel:
    pairs = [(r, s) for r, s in zip(real, sim, strict=True) if r != 0]
    mape, direction = 0.0, ""
    if pairs:
        mape = total(abs(r - s) / r for r, s in pairs) / len(pairs)
        bias = total(s - r for r, s in pairs)
        direction = "neutral"
        if bias:
            direction = "over-predict" if bias > 0 else "under-predict"
    r = pearson(real, sim)
    return RequestLevel(
        mape=mape,
        pearson_r=r,
        bias_direction=direction,
        quality=quality(mape, r) if len(real) >= 3 else "poor",
    )


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """The correlation of two vectors, in one pass; 0 for fewer than three pairs.

    Rounding can make one of the two variances negative, and the root of their product undefined. It
    is 0 then, like that of a constant vector (the reference fails: reference quirk 05a-8).
    """
    n = len(x)
    if n < 3:
        return 0.0
    sx, sy = total(x), total(y)
    sxy = total(a * b for a, b in zip(x, y, strict=True))
    sxx, syy = total(a * a for a in x), total(b * b for b in y)
    product = (n * sxx - sx * sx) * (n * syy - sy * sy)
    if not 0 < product < math.inf:
        return 0.0
    r = (n * sxy - sx * sy) / math.sqrt(product)
    return r if math.isfinite(r) else 0.0


_QUALITIES = (("excellent", 0.10, 0.95), ("good", 0.20, 0.85), ("fair", 0.35, 0.70))
"""Names with what the error must stay below and the correlation above."""


def quality(mape: float, r: float) -> str:
    """A word for an error and a correlation."""
    for name, error, correlation in _QUALITIES:
        if mape < error and r > correlation:
            return name
    return "poor"
