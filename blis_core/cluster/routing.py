"""Built-in routing policies.

A policy is built as ``factory(RoutingSetup)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from blis_core.contracts import FleetView, Request, RoutingDecision, RoutingPolicy, Scorer
from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.contracts import FloatArray, IntArray
    from blis_core.rng import GoRand


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RoutingSetup(Record):
    """What a routing policy is built from."""

    random: GoRand
    """The router's stream: one ``intn(m)`` per decision with m >= 2 tied candidates."""
    scorers: tuple[tuple[Scorer, float], ...] = ()
    """Scorers with their weights, in configured order (only for policies that use them)."""


def _pick(tied: IntArray, random: GoRand) -> int:
    """One of the tied candidates; draws only if there is a choice."""
    return int(tied[random.intn(len(tied))] if len(tied) > 1 else tied[0])


_MANY = 12
"""Instances from which on arrays are cheaper than lists.

Of an array, the place of the largest element is found several times sooner than its value alone.
"""


def _in_range(scores: FloatArray) -> bool:
    """Whether all scores are in [0, 1]."""
    if len(scores) >= _MANY:
        return bool(scores.item(scores.argmin()) >= 0.0 and scores.item(scores.argmax()) <= 1.0)
    values: list[float] = scores.tolist()
    return min(values) >= 0.0 and max(values) <= 1.0


def _best(scores: FloatArray, random: GoRand) -> tuple[int, float]:
    """Position and value of the largest score; ties are drawn."""
    if len(scores) >= _MANY:
        best: float = scores.item(scores.argmax())
        return _pick((scores == best).nonzero()[0], random), best
    values: list[float] = scores.tolist()
    largest = max(values)
    if values.count(largest) == 1:
        return values.index(largest), largest
    return _pick((scores == largest).nonzero()[0], random), largest


class RoundRobin(RoutingPolicy):
    """Each request to the next instance in turn."""

    reads_fleet = False

    def __init__(self, setup: RoutingSetup) -> None:
        self._count = 0

    def route(self, request: Request, fleet: FleetView) -> RoutingDecision:
        """The n-th call goes to instance n modulo the number of candidates."""
        count = self._count
        self._count += 1
        return RoutingDecision(count % len(fleet), f"round-robin[{count}]")


class LeastLoaded(RoutingPolicy):
    """The instance with the smallest load; ties are drawn."""

    def __init__(self, setup: RoutingSetup) -> None:
        self._random = setup.random

    def route(self, request: Request, fleet: FleetView) -> RoutingDecision:
        """Smallest queue_depth + running + in_flight."""
        load = fleet.load
        least = load.item(load.argmin())
        index = _pick((load == least).nonzero()[0], self._random)
        return RoutingDecision(index, f"least-loaded (load={least})")


class AlwaysBusiest(RoutingPolicy):
    """The instance with the largest load: a deliberately bad policy to measure others against."""

    def __init__(self, setup: RoutingSetup) -> None:
        pass

    def route(self, request: Request, fleet: FleetView) -> RoutingDecision:
        """Largest load, the first of equals."""
        load = fleet.load
        index = int(load.argmax())
        return RoutingDecision(index, f"always-busiest (load={load[index]})")


class Weighted(RoutingPolicy):
    """The instance with the best weighted sum of scores; ties are drawn.

    Scores are clamped to [0, 1]; weights are divided by their sum. Exact float equality decides
    what a tie is, so terms are added in the configured order.
    """

    def __init__(self, setup: RoutingSetup) -> None:
        self._random = setup.random
        total = 0.0
        for _, weight in setup.scorers:
            total += weight
        self._scorers = [(scorer, weight / total) for scorer, weight in setup.scorers]

    def route(self, request: Request, fleet: FleetView) -> RoutingDecision:
        """Largest composite score."""
        import numpy as np

        composite = np.zeros(len(fleet))
        for scorer, weight in self._scorers:
            scores = np.asarray(scorer.score(request, fleet), dtype=np.float64)
            if not _in_range(scores):
                scores = np.clip(scores, 0.0, 1.0)
            composite += scores * weight
        index, best = _best(composite, self._random)
        for scorer, _ in self._scorers:
            scorer.routed(request, index)
        return RoutingDecision(index, f"weighted-scoring (score={best:.3f})", composite)
