"""Samplers of prompt and output lengths, in tokens.

Every sampler but :class:`EmpiricalLengths` and a :class:`GaussianLengths` with equal bounds
returns at least 1. Draw counts are part of the contract: the same seed must give the same workload.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left

import numpy as np

from blis_core.contracts import LengthSampler, LengthSetup
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.workload import numeric
from blis_core.workload.numeric import positive_round, round_int64, trunc_int64

_SMALLEST = 5e-324
"""Stands in for a uniform draw of exactly 0, whose logarithm or power would be infinite."""


def _require(setup: LengthSetup, kind: str, *names: str) -> list[float]:
    """The named parameters, in order. Raises BlisError that lists the missing ones."""
    missing = [name for name in names if name not in setup.params]
    if missing:
        others = [name for name in setup.params if name not in names]
        hint = f"; not one of them: {', '.join(others)}" if others else ""
        raise BlisError(
            f"length distribution '{kind}' needs the parameters {', '.join(names)}; "
            f"missing: {', '.join(missing)}{hint}"
        )
    return [setup.params[name] for name in names]


class ConstantLengths(LengthSampler):
    """Always ``value``, truncated to a whole number, at least 1. Draws nothing."""

    def __init__(self, setup: LengthSetup) -> None:
        (value,) = _require(setup, "constant", "value")
        self._value = max(1, trunc_int64(value))

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [self._value] * n

    def next(self, rng: GoRand) -> int:
        return self._value


_HALVES = float(1 << 52)
"""From here on numbers have no halves, so there is nothing to round."""


class GaussianLengths(LengthSampler):
    """Normal with ``mean`` and ``std_dev``, clamped to [``min``, ``max``], rounded half up.

    Bounds are truncated to whole numbers. Equal bounds are returned as they are, even below 1, and
    nothing is drawn; otherwise each value takes one normal draw. With min > max, max wins.
    """

    def __init__(self, setup: LengthSetup) -> None:
        mean, deviation, low, high = _require(setup, "gaussian", "mean", "std_dev", "min", "max")
        self._mean, self._deviation = float(mean), float(deviation)
        self._low, high = trunc_int64(low), trunc_int64(high)
        self._fixed = self._low == high
        self._lowest, self._highest = float(self._low), float(high)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        if self._fixed:
            return [self._low] * n
        with np.errstate(over="ignore"):
            values = rng.norms(n) * self._deviation + self._mean
        return positive_round(np.minimum(self._highest, np.maximum(self._lowest, values)))

    def next(self, rng: GoRand) -> int:
        if self._fixed:
            return self._low
        v = rng.norm() * self._deviation + self._mean
        if v < self._lowest:
            v = self._lowest
        if v > self._highest:
            v = self._highest
        if v < 1.5:  # rounds to at most 1
            return 1
        if v < _HALVES:
            return int(v + 0.5)
        return int(v)


class ExponentialLengths(LengthSampler):
    """Exponential with ``mean``, rounded; one exponential draw each."""

    def __init__(self, setup: LengthSetup) -> None:
        (mean,) = _require(setup, "exponential", "mean")
        self._mean = float(mean)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        with np.errstate(over="ignore"):
            return positive_round(rng.exps(n) * self._mean)

    def next(self, rng: GoRand) -> int:
        return max(1, round_int64(rng.exp() * self._mean))


class ParetoLognormalLengths(LengthSampler):
    """A mixture: Pareto(``alpha``, ``xm``) with probability ``mix_weight``, otherwise
    log-normal(``mu``, ``sigma``).

    Draws a uniform number for the choice, then a uniform (Pareto) or a normal (log-normal) one.
    """

    def __init__(self, setup: LengthSetup) -> None:
        alpha, self._xm, self._mu, self._sigma, self._mix = _require(
            setup, "pareto_lognormal", "alpha", "xm", "mu", "sigma", "mix_weight"
        )
        self._exponent = numeric.divide(1.0, alpha)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [self.next(rng) for _ in range(n)]

    def next(self, rng: GoRand) -> int:
        if rng.float64() < self._mix:
            u = rng.float64() or _SMALLEST
            v = numeric.divide(self._xm, numeric.power(u, self._exponent))
        else:
            v = numeric.exp(self._mu + self._sigma * rng.norm())
        return max(1, round_int64(v))


class LognormalLengths(LengthSampler):
    """Log-normal(``mu``, ``sigma``) with optional ``min`` and ``max`` (0 = none), at least 1.

    Not allowed for prompts and outputs; used for multimodal sizes, reasoning shares and think
    times. One normal draw each.
    """

    def __init__(self, setup: LengthSetup) -> None:
        self._mu, self._sigma = _require(setup, "lognormal", "mu", "sigma")
        self._low = trunc_int64(setup.params.get("min", 0.0))
        self._high = trunc_int64(setup.params.get("max", 0.0))

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [self.next(rng) for _ in range(n)]

    def next(self, rng: GoRand) -> int:
        v = numeric.exp(self._mu + self._sigma * rng.norm())
        if not math.isfinite(v):
            return self._low if self._low > 0 else 1
        k = round_int64(v)
        if k < self._low and self._low > 0:
            k = self._low
        if k > self._high > 0:
            k = self._high
        return max(1, k)


class EmpiricalLengths(LengthSampler):
    """Values with given weights, by inversion of the cumulative distribution.

    ``params`` maps the text of a length to its weight. Of the text only a leading integer counts
    (``3.9`` is 3). Weights need not sum to 1; entries with weights <= 0 never come up, yet a
    negative one lowers the total. No entry at all gives 1; a single one is returned without a draw;
    otherwise each value takes one uniform draw.
    """

    def __init__(self, setup: LengthSetup) -> None:
        if not setup.params:
            raise BlisError("length distribution 'empirical' needs at least one length and weight")
        weights: dict[int, float] = {}
        for text, weight in setup.params.items():
            found = re.match(r"\s*([+-]?[0-9]+)", text)
            if found is None:
                raise BlisError(
                    f"length distribution 'empirical': the length '{text}' is not a whole number"
                )
            weights[int(found[1])] = weight  # of equal lengths the last one counts
        total = 0.0
        for value in sorted(weights):
            total += weights[value]
        self._values: list[int] = []
        self._cdf: list[float] = []
        running = 0.0
        for value in sorted(weights):
            if weights[value] > 0:
                running += numeric.divide(weights[value], total)
                self._values.append(value)
                self._cdf.append(running)
        if self._cdf:
            self._cdf[-1] = 1.0
        if any(value < 0 for value in self._values):
            raise BlisError(
                f"length distribution 'empirical': the length {min(self._values)} is negative"
            )

    def sample(self, rng: GoRand, n: int) -> list[int]:
        if len(self._values) <= 1:
            return [self.next(rng)] * n
        return [self._find(u) for u in rng.float64s(n).tolist()]

    def next(self, rng: GoRand) -> int:
        if len(self._values) <= 1:
            return self._values[0] if self._values else 1
        return self._find(rng.float64())

    def _find(self, u: float) -> int:
        return self._values[min(bisect_left(self._cdf, u), len(self._values) - 1)]
