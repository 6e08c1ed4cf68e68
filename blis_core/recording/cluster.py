"""A cluster that takes notes of what happens to requests before they reach an instance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from blis_core.cluster.simulation import Cluster
from blis_core.recording.phases import Outcome, Phase

if TYPE_CHECKING:
    from blis_core.contracts import Request
    from blis_core.recording.notes import Notes


class RecordedCluster(Cluster):
    """Does what a cluster does, and takes notes."""

    def __init__(self, *args: Any, notes: Notes, **parts: Any) -> None:
        super().__init__(*args, **parts)
        self._notes = notes
        self._lost_before = self._losses()

    @property
    def entrance_latency(self) -> int:
        """us from the arrival of a request to an instance if nothing holds it."""
        return self._admission_latency + self.routing_latency

    def _admit(self, request: Request, now: int) -> None:
        note = self._notes.of(request)
        if not note.marks:
            note.mark(request.arrival, Phase.ROUTING)
        if self._gateway is not None:
            note.mark(now, Phase.GATEWAY)
        super()._admit(request, now)

    def plan_routing(self, request: Request, now: int) -> None:
        self._notes.of(request).mark(now, Phase.ROUTING)
        super().plan_routing(request, now)

    def return_to_entrance(self, requests: Iterable[Request], now: int) -> None:
        requests = list(requests)
        for request in requests:
            self._notes.of(request).mark(now, Phase.ROUTING)
        super().return_to_entrance(requests, now)

    def lose(self, request: Request, now: int) -> None:
        losses = self._losses()
        for outcome, count in losses.items():
            if count > self._lost_before[outcome]:
                self._notes.of(request).ended(now, outcome)
        self._lost_before = losses  # else a half has ended, of which its instance took note
        super().lose(request, now)

    def _losses(self) -> dict[Outcome, int]:
        """What the cluster has counted; the counters are raised before ``lose`` is called."""
        outcome, pools = self.outcome, self.disaggregation
        return {
            Outcome.REJECTED: outcome.rejected,
            Outcome.SHED: outcome.gateway_shed,
            Outcome.UNROUTABLE: outcome.unroutable,
            Outcome.DRAINED: outcome.drained,
            Outcome.NO_ROOM: pools.dropped if pools is not None else 0,
        }
