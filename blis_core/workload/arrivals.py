"""Samplers of the time between two arrivals of a client, in whole us, at least 1.

Rates are in requests per us; a rate below 1e-15 counts as 1e-15. Draw counts are part of the
contract: the same seed must give the same workload.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from blis_core import log
from blis_core.contracts import ArrivalSampler, ArrivalSetup
from blis_core.errors import BlisError
from blis_core.rng import GoRand, go_log
from blis_core.workload import numeric
from blis_core.workload.numeric import positive_trunc, trunc_int64

_LEAST_RATE = 1e-15
_SMALLEST = 5e-324
"""Stands in for a uniform draw of exactly 0, whose logarithm would be infinite."""


def _rate(setup: ArrivalSetup) -> float:
    return max(setup.rate_per_us, _LEAST_RATE)


def _cv(setup: ArrivalSetup) -> float:
    """Coefficient of variation, 1 if none is given."""
    cv = 1.0 if setup.cv is None else setup.cv
    if not 0 < cv < math.inf:
        raise BlisError(f"arrival.cv must be a finite number greater than 0, not {cv:g}")
    return cv


class ConstantArrivals(ArrivalSampler):
    """Equal gaps of ``1 / rate``, truncated. Draws nothing.

    Rates that are no exact binary fraction lose a microsecond: 10 requests per second arrive every
    99,999 us (reference quirk 04-9).
    """

    def __init__(self, setup: ArrivalSetup) -> None:
        self._gap = max(1, trunc_int64(1.0 / _rate(setup)))

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [self._gap] * n

    def next(self, rng: GoRand) -> int:
        return self._gap


class PoissonArrivals(ArrivalSampler):
    """Exponential gaps; one exponential draw each. ``cv`` is ignored."""

    def __init__(self, setup: ArrivalSetup) -> None:
        self._rate = _rate(setup)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return positive_trunc(rng.exps(n) / self._rate)

    def next(self, rng: GoRand) -> int:
        return max(1, trunc_int64(rng.exp() / self._rate))


class GammaArrivals(ArrivalSampler):
    """Gamma gaps of mean ``1 / rate`` and coefficient of variation ``cv``: bursts for cv > 1.

    Marsaglia and Tsang's method (2000): about one normal and one uniform draw each; a shape below 1
    (cv > 1) takes one uniform draw first. With cv > 10 the gaps are exponential instead.
    """

    def __init__(self, setup: ArrivalSetup) -> None:
        rate, cv = _rate(setup), _cv(setup)
        shape = 1.0 / (cv * cv)
        self._scale = 1.0 / rate * cv * cv
        self._poisson: PoissonArrivals | None = None
        if shape < 0.01:
            log.warning("gamma arrivals with cv > 10 are replaced by poisson arrivals", cv=cv)
            self._poisson = PoissonArrivals(setup)
        # Exponent of the factor that turns a draw of shape + 1 into one of a shape below 1.
        self._boost = 1.0 / shape if shape < 1.0 else 0.0
        self._d = (shape + 1.0 if shape < 1.0 else shape) - 1.0 / 3.0
        self._c = 1.0 / math.sqrt(9.0 * self._d)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        if self._poisson is not None:
            return self._poisson.sample(rng, n)
        return [self.next(rng) for _ in range(n)]

    def next(self, rng: GoRand) -> int:
        if self._poisson is not None:
            return self._poisson.next(rng)
        if self._boost:
            u = rng.float64()  # drawn before the gamma variate that it scales
            return max(1, trunc_int64(self._gamma(rng) * numeric.power(u, self._boost)))
        return max(1, trunc_int64(self._gamma(rng)))

    def _gamma(self, rng: GoRand) -> float:
        """A gamma variate of a shape of at least 1."""
        c, d = self._c, self._d
        while True:
            x = rng.norm()
            v = 1.0 + c * x
            while v <= 0:
                x = rng.norm()
                v = 1.0 + c * x
            v = v * v * v
            u = rng.float64()
            square = x * x
            if u < 1.0 - 0.0331 * square * square or go_log(u) < 0.5 * x * x + d * (
                (1.0 - v) + go_log(v)
            ):
                return d * v * self._scale


class WeibullArrivals(ArrivalSampler):
    """Weibull gaps of mean ``1 / rate`` and coefficient of variation ``cv``.

    The shape is found by bisection to within 0.001 of ``cv``, so that cv 1 is not exactly
    exponential (reference quirk 04-12). One uniform draw each.
    """

    def __init__(self, setup: ArrivalSetup) -> None:
        shape, converged = _weibull_shape(_cv(setup))
        if not converged:
            log.warning("no Weibull shape matches the cv; using the nearest", cv=setup.cv)
        self._exponent = 1.0 / shape
        self._scale = 1.0 / _rate(setup) / math.gamma(1.0 + 1.0 / shape)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [self._gap(u) for u in rng.float64s(n).tolist()]

    def next(self, rng: GoRand) -> int:
        return self._gap(rng.float64())

    def _gap(self, u: float) -> int:
        log_term = -go_log(u or _SMALLEST)
        return max(1, trunc_int64(self._scale * numeric.power(log_term, self._exponent)))


class NormalizedExponentialArrivals(ArrivalSampler):
    """Exactly ``count`` exponential gaps, scaled to fill ``duration_us``; afterwards 0 (exhausted).

    All draws are made at once, from the generator given to the constructor. Truncation leaves the
    sum of the gaps up to about ``count`` us short of the duration.
    """

    MAX_COUNT = 10_000_000

    def __init__(self, count: int, duration_us: int, rng: GoRand) -> None:
        if not 0 < count <= self.MAX_COUNT:
            raise BlisError(
                f"the number of requests of a client must be in [1, {self.MAX_COUNT}], not {count}"
            )
        if duration_us < count:
            raise BlisError(f"a duration of {duration_us} us is too short for {count} requests")
        raw = rng.exps(count) / (count / duration_us)
        # A cumulative sum adds from left to right, as the reference does; a plain sum would not.
        total = float(np.cumsum(raw)[-1])
        if not 0 < total < math.inf:
            raise BlisError("the drawn gaps cannot be scaled to the duration")
        self._gaps = iter(positive_trunc(raw * (duration_us / total)))

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [self.next(rng) for _ in range(n)]

    def next(self, rng: GoRand) -> int:
        return next(self._gaps, 0)


@lru_cache(maxsize=256)
def _weibull_shape(cv: float) -> tuple[float, bool]:
    """(shape whose coefficient of variation is ``cv``, whether the search converged)."""
    low, high = 0.1, 100.0
    for _ in range(100):
        middle = (low + high) / 2.0
        g1 = math.gamma(1.0 + 1.0 / middle)
        g2 = math.gamma(1.0 + 2.0 / middle)
        # Rounding can make the difference negative for large shapes; NaN then compares as the
        # reference's square root does.
        variance = g2 / (g1 * g1) - 1.0
        found = math.sqrt(variance) if variance >= 0 else math.nan
        if abs(found - cv) < 0.001:
            return middle, True
        if found > cv:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0, False
