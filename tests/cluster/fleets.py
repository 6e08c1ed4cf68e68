"""Fleets with chosen signals, and requests that need only an id and a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blis_core.contracts import FleetView, Request

if TYPE_CHECKING:
    from blis_core.contracts import IntArray


class FixedFleet(FleetView):
    """Instances as the rows say: [waiting, running, in flight, KV utilization]."""

    def __init__(self, *rows: Sequence[float], ids: Sequence[str] | None = None) -> None:
        columns = np.array(rows, dtype=np.float64).reshape(len(rows), 4).T
        self.ids = list(ids) if ids is not None else [f"instance_{i}" for i in range(len(rows))]
        self.queue_depth, self.running, self.in_flight = columns[:3].astype(np.int64)
        self.kv_utilization = columns[3]
        self.free_blocks = np.arange(len(rows)) + 100

    def cached_blocks(self, request: Request) -> IntArray:
        return np.zeros(len(self), dtype=np.int64)

    def prompt_keys(self, request: Request) -> Sequence[int]:
        return ()


def loaded(*loads: int) -> FixedFleet:
    """Instances with these loads, all of it from requests in flight."""
    return FixedFleet(*([0, 0, load, 0.0] for load in loads))


def request(id: str = "request_0", slo_class: str = "", prompt: int = 10, **more: Any) -> Request:
    return Request(id, 0, None, prompt, 5, slo_class=slo_class, **more)
