"""The highest rate that is carried: a bracket by doubling, then bisection.

Downwards the steps of the bracket become longer, because the answer may be that there is no such
rate.

The search takes it that what is carried at a rate is carried at every lower one. Close to the limit
that is true only up to chance; the answer is a rate that was tried and carried, next to one that
was tried and not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import attrs

from blis_plan.probing import Probe

MOST_TRIALS: Final = 200


@attrs.frozen(kw_only=True)
class Saturation:
    """The outcome of a search."""

    probes: tuple[Probe, ...]
    """All trials, in the order in which they were made."""
    best: Probe | None
    """The highest rate that is carried; None = not even the lowest one is."""
    beyond: Probe | None
    """The lowest rate above it that is not; None = even the highest one is carried."""


def rounded(rate: float) -> float:
    """A rate as people write it: with four significant digits."""
    return float(f"{rate:.4g}")


def find_highest(
    attempt: Callable[[float], Probe],
    start: float,
    *,
    lowest: float,
    highest: float,
    precision: float,
) -> Saturation:
    """The highest rate in [lowest, highest] that ``attempt`` finds to be carried.

    ``precision`` is the ratio, less 1, of the rates between which the answer lies in the end.
    """
    probes: list[Probe] = []

    def tried(rate: float) -> Probe:
        probe = attempt(rate)
        probes.append(probe)
        return probe

    best = beyond = None
    rate = min(max(start, lowest), highest)
    probe = tried(rate)
    if probe.met:
        best = probe
        while beyond is None and best.rate < highest:
            probe = tried(min(rounded(best.rate * 2), highest))
            best, beyond = (probe, None) if probe.met else (best, probe)
    else:
        beyond, step = probe, 2.0
        while best is None and beyond.rate > lowest:
            probe = tried(max(rounded(beyond.rate / step), lowest))
            best, beyond = (probe, beyond) if probe.met else (None, probe)
            step *= step
    while best is not None and beyond is not None and len(probes) < MOST_TRIALS:
        middle = rounded(math.sqrt(best.rate * beyond.rate))
        if beyond.rate <= best.rate * (1 + precision) or not best.rate < middle < beyond.rate:
            break
        probe = tried(middle)
        best, beyond = (probe, beyond) if probe.met else (best, probe)
    return Saturation(probes=tuple(probes), best=best, beyond=beyond)
