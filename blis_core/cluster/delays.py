"""Random delays of nodes, instances and decisions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.rng import GoRand


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NormalDelay(Record):
    """A normally distributed delay, never below 0."""

    mean: float = 0.0
    """Mean in s, at least 0."""
    stddev: float = 0.0
    """Standard deviation in s, at least 0."""

    def sample(self, random: GoRand) -> int:
        """A delay in us, at least 0. Draws one normal number, but none if it would not matter."""
        seconds = self.mean
        if self.stddev > 0:
            seconds = max(0.0, random.norm() * self.stddev + self.mean)
        return int(seconds * 1e6) if math.isfinite(seconds) else 0


NO_DELAY = NormalDelay()
