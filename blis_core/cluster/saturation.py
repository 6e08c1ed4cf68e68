"""How full the cluster is, as one number: 1 and more means saturated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from blis_core import log
from blis_core.contracts import FleetView

SATURATED = 1.0
"""Saturation from which on requests are held."""


def mean_pressure(fleet: FleetView, queue_depth: float, kv_utilization: float) -> float:
    """Mean over the instances of the larger of two ratios; 1 if there is no instance.

    The ratios are waiting requests to ``queue_depth`` and used share of KV blocks to
    ``kv_utilization``, both limits above 0.
    """
    if not len(fleet):
        return SATURATED
    total = 0.0  # added one by one, since the last digit may decide
    pairs = zip(fleet.queue_depth.tolist(), fleet.kv_utilization.tolist(), strict=True)
    for waiting, used in pairs:
        total += max(waiting / queue_depth, used / kv_utilization)
    return total / len(fleet)


class SaturationDetector(ABC):
    """Measures saturation for the gateway."""

    reads_fleet: ClassVar[bool] = True
    """False: the answer does not depend on the instances."""

    @abstractmethod
    def saturation(self, fleet: FleetView) -> float:
        """At least 0; ``SATURATED`` and more holds requests back. ``fleet`` may be empty."""


class NeverSaturated(SaturationDetector):
    """Everything passes the gateway at once."""

    reads_fleet = False

    def saturation(self, fleet: FleetView) -> float:
        """Always 0."""
        return 0.0


class Utilization(SaturationDetector):
    """Saturated when queues or KV caches are full on average."""

    def __init__(self, queue_depth: float, kv_utilization: float) -> None:
        """The fullness of an instance that counts as 1: waiting requests, used share of blocks."""
        self._queue_depth = queue_depth
        self._kv_utilization = kv_utilization

    def saturation(self, fleet: FleetView) -> float:
        """The mean pressure."""
        return mean_pressure(fleet, self._queue_depth, self._kv_utilization)


class Concurrency(SaturationDetector):
    """Saturated when the instances together have as many requests as they may."""

    def __init__(self, limit: int) -> None:
        """``limit`` requests per instance on average count as 1."""
        self._limit = limit

    def saturation(self, fleet: FleetView) -> float:
        """Requests in flight / places; 1 if there is no instance."""
        if not len(fleet):
            return SATURATED
        return int(fleet.in_flight.sum()) / (len(fleet) * self._limit)


def make_detector(
    name: str, *, queue_depth_threshold: float, kv_cache_util_threshold: float, max_concurrency: int
) -> SaturationDetector:
    """The detector called ``name`` (checked already; "" = never) with its thresholds."""
    if name == "utilization":
        return Utilization(queue_depth_threshold, kv_cache_util_threshold)
    if name == "concurrency":
        return Concurrency(max_concurrency)
    log.warning("--flow-control holds nothing back with --saturation-detector never")
    return NeverSaturated()
