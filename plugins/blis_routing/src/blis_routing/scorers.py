"""Scorers that look at load and memory. Scores are in [0, 1], one per instance; higher is better.

The formulas are those of the BLIS reference simulator (its weighted routing policy). All work on
whole arrays, so a decision costs about the same for 8 instances and for 800.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from blis_core.api import Scorer

if TYPE_CHECKING:
    import numpy.typing as npt

    from blis_core.api import FleetView, Request

    IntArray = npt.NDArray[np.int64]
    FloatArray = npt.NDArray[np.float64]


def extremes(counts: IntArray) -> tuple[int, int]:
    """The smallest and the largest count; sooner than by two reductions."""
    return counts.item(counts.argmin()), counts.item(counts.argmax())


@lru_cache(maxsize=64)
def ones(n: int) -> FloatArray:
    """``n`` ones, which cannot be changed."""
    made = np.ones(n)
    made.flags.writeable = False
    return made


def fewest_best(counts: IntArray) -> FloatArray:
    """1 for the smallest count, 0 for the largest, linear in between; all 1 if they are equal."""
    low, high = extremes(counts)
    return (high - counts) / (high - low) if high > low else ones(len(counts))


class _Load(Scorer):
    """Looks at load and memory only."""

    reads_cache: ClassVar[bool] = False


class QueueDepth(_Load):
    """Few waiting requests, relative to the other instances."""

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """Min-max over the waiting requests."""
        return fewest_best(fleet.queue_depth)


class RunningRequests(_Load):
    """A small running batch, relative to the other instances."""

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """Min-max over the running requests."""
        return fewest_best(fleet.running)


class VllmDataParallel(_Load):
    """Few requests, a waiting one counting four times, as vLLM's data-parallel balancer counts."""

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """Min-max over 4 x waiting + running."""
        return fewest_best(4 * fleet.queue_depth + fleet.running)


class ActiveRequests(_Load):
    """Few requests in flight, relative to the busiest instance."""

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """(most - in flight) / most; all 1 in an idle fleet, all 0 in an evenly busy one."""
        in_flight = fleet.in_flight
        _, most = extremes(in_flight)
        return (most - in_flight) / most if most > 0 else ones(len(in_flight))


class LoadBalance(_Load):
    """A small load in absolute terms."""

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """1 / (1 + load)."""
        return 1.0 / (1 + fleet.load).astype(np.float64)


class LoadAware(_Load):
    """A short queue in absolute terms: 0.5 for an empty one, 0 from 128 waiting requests on."""

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """0.5 x (1 - min(waiting, 128) / 128)."""
        return 0.5 * (1.0 - np.minimum(fleet.queue_depth, 128) / 128)


class KVUtilization(_Load):
    """Free KV memory."""

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """1 - used blocks / all blocks."""
        return 1.0 - fleet.kv_utilization
