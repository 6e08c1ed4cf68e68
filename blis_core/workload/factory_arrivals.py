"""Arrival samplers of clients that an expansion gave a factory instead of a process."""

from __future__ import annotations

import numpy as np

from blis_core.contracts import ArrivalSampler
from blis_core.rng import GoRand
from blis_core.workload import numeric
from blis_core.workload.arrivals import NormalizedExponentialArrivals
from blis_core.workload.numeric import positive_trunc, trunc_int64
from blis_core.workload.spec import Factory, NormalisedExponential


class ExactRateArrivals(ArrivalSampler):
    """Exponential gaps at a fixed rate in requests per us; one exponential draw each.

    Unlike the ``poisson`` process, rates below 1e-15 are taken as they are.
    """

    def __init__(self, rate_per_us: float) -> None:
        self._rate = rate_per_us

    def sample(self, rng: GoRand, n: int) -> list[int]:
        with np.errstate(all="ignore"):
            return positive_trunc(rng.exps(n) / self._rate)

    def next(self, rng: GoRand) -> int:
        return max(1, trunc_int64(numeric.divide(rng.exp(), self._rate)))


def make_sampler(factory: Factory, seed: int) -> ArrivalSampler:
    """The sampler that ``factory`` describes.

    ``seed`` must be drawn from the client's own stream for either kind; only the normalised gaps
    use it: they are all drawn here, from a stream of their own. BlisError if they cannot be.
    """
    if isinstance(factory, NormalisedExponential):
        return NormalizedExponentialArrivals(factory.count, factory.duration_us, GoRand(seed))
    return ExactRateArrivals(factory.rate_per_us)
