"""What admission and routing decided, and how much better another choice would have looked.

Totals are kept as the decisions are made; the decisions themselves only if somebody wants them.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

import attrs

from blis_core.contracts import FleetView, Request, RoutingDecision
from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.cluster.parents import Parent
    from blis_core.contracts import FloatArray


class AdmissionRecord(NamedTuple):
    """One request at the entrance."""

    request: str
    """Id of the request."""
    time: int
    """us."""
    admitted: bool
    reason: str
    """Why it was rejected; empty if it was admitted."""


class Candidate(NamedTuple):
    """One instance as the router saw it."""

    instance: str
    score: float
    queue_depth: int
    running: int
    in_flight: int
    kv_utilization: float
    free_blocks: int


class RoutingRecord(NamedTuple):
    """One choice of an instance."""

    request: str
    """Id of the request."""
    time: int
    """us."""
    instance: str
    reason: str
    scores: tuple[float, ...] | None
    """The policy's scores in instance order, if it works with scores."""
    candidates: tuple[Candidate, ...]
    """The best k instances, best first; equal scores by id as text."""
    regret: float
    """By how much the best score exceeds that of the chosen instance; at least 0."""


class DisaggregationRecord(NamedTuple):
    """Whether one request was to be prefilled and decoded in pools."""

    request: str
    """Id of the request."""
    time: int
    """us."""
    disaggregated: bool


class TransferRecord(NamedTuple):
    """One KV cache that moved from a prefill to a decode instance with room for it."""

    request: str
    """Id of the whole request."""
    start: int
    """us."""
    duration: int
    """us."""
    blocks: int
    source: str
    target: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TraceSummary(Record):
    """Totals of all decisions."""

    total: int = 0
    """Admission decisions."""
    admitted: int = 0
    rejected: int = 0
    targets: dict[str, int] = attrs.field(factory=dict)
    """How many requests each instance was given, by id in text order (10 before 2)."""
    mean_regret: float = 0.0
    """Per routed request; 0 if none was routed, or no counterfactuals were asked for."""
    max_regret: float = 0.0
    disaggregation_decisions: int = 0
    disaggregated: int = 0
    """How many of these sent a request to the pools."""
    transfers: int = 0
    """KV caches for which there was room on a decode instance."""
    mean_transfer_us: float = 0.0
    """0 without transfers."""


class DecisionLog:
    """Takes decisions down, in the order in which they are made.

    Without scores of the policy an instance counts as good as its load is small, so regret is then
    measured in requests.
    """

    def __init__(self, *, counterfactual_k: int = 0, keep_records: bool = False) -> None:
        """``counterfactual_k``: candidates to keep per record; 0 = no candidates, no regret."""
        self._k = counterfactual_k
        self._keep = keep_records
        self._admitted = 0
        self._rejected = 0
        self._targets: dict[str, int] = {}
        self._regret_sum = 0.0
        self._regret_max = 0.0
        self._asked = 0
        self._disaggregated = 0
        self._transfers = 0
        self._transfer_sum = 0
        self.admissions: list[AdmissionRecord] = []
        """Empty unless records are kept."""
        self.routings: list[RoutingRecord] = []
        """Empty unless records are kept; without those of pools."""
        self.disaggregations: list[DisaggregationRecord] = []
        """Empty unless records are kept."""
        self.prefill_routings: list[RoutingRecord] = []
        """Empty unless records are kept; by id of the whole request, as in the next one."""
        self.decode_routings: list[RoutingRecord] = []
        """Empty unless records are kept."""
        self.transfers: list[TransferRecord] = []
        """Empty unless records are kept."""

    def admission(self, request: Request, now: int, reason: str | None) -> None:
        """``request`` was admitted (``reason`` None) or rejected at ``now``."""
        if reason is None:
            self._admitted += 1
        else:
            self._rejected += 1
        if self._keep:
            self.admissions.append(AdmissionRecord(request.id, now, reason is None, reason or ""))

    def routing(
        self, request: Request, now: int, decision: RoutingDecision, fleet: FleetView
    ) -> None:
        """``request`` was routed at ``now``; ``fleet`` is still as the policy saw it."""
        target = fleet.ids[decision.target]
        self._targets[target] = self._targets.get(target, 0) + 1
        record = self.record(request, now, decision, fleet)
        self._regret_sum += record.regret
        self._regret_max = max(self._regret_max, record.regret)
        if self._keep:
            self.routings.append(record)

    def disaggregation(self, request: Request, now: int, disaggregated: bool) -> None:
        """The decider has decided upon ``request`` at ``now``."""
        self._asked += 1
        self._disaggregated += disaggregated
        if self._keep:
            self.disaggregations.append(DisaggregationRecord(request.id, now, disaggregated))

    def prefill_routing(self, record: RoutingRecord) -> None:
        """The prefill of a request was routed within a pool. It counts in no total."""
        if self._keep:
            self.prefill_routings.append(record)

    def decode_routing(self, record: RoutingRecord, parent: Parent) -> None:
        """The decode of ``parent`` was routed to an instance that had room for its KV cache."""
        if self._keep:
            self.decode_routings.append(record)
        duration = parent.transfer_complete - parent.transfer_start
        self._transfers += 1
        self._transfer_sum += duration
        if self._keep:
            self.transfers.append(
                TransferRecord(
                    parent.request.id,
                    parent.transfer_start,
                    duration,
                    parent.blocks,
                    parent.prefill_instance,
                    parent.decode_instance,
                )
            )

    def record(
        self, request: Request, now: int, decision: RoutingDecision, fleet: FleetView
    ) -> RoutingRecord:
        """A choice among the instances of ``fleet``, to be made while it is as the policy saw it.

        Scores and candidates only if records are kept.
        """
        regret = 0.0
        candidates: tuple[Candidate, ...] = ()
        if self._k > 0:
            scores = decision.scores
            if scores is None:
                scores = -fleet.load.astype(float)
            regret = max(0.0, float(scores.max()) - float(scores[decision.target]))
            if self._keep:
                candidates = _best(scores, fleet, self._k)
        given: tuple[float, ...] | None = None
        if self._keep and decision.scores is not None:
            given = tuple(decision.scores.tolist())
        target = fleet.ids[decision.target]
        return RoutingRecord(request.id, now, target, decision.reason, given, candidates, regret)

    def summary(self) -> TraceSummary:
        """Totals up to now."""
        routed = sum(self._targets.values())
        return TraceSummary(
            total=self._admitted + self._rejected,
            admitted=self._admitted,
            rejected=self._rejected,
            targets=dict(sorted(self._targets.items())),
            mean_regret=self._regret_sum / routed if routed else 0.0,
            max_regret=self._regret_max,
            disaggregation_decisions=self._asked,
            disaggregated=self._disaggregated,
            transfers=self._transfers,
            mean_transfer_us=self._transfer_sum / self._transfers if self._transfers else 0.0,
        )


def _best(scores: FloatArray, fleet: FleetView, k: int) -> tuple[Candidate, ...]:
    """The ``k`` instances with the highest scores, ids deciding between equals."""
    values, ids = scores.tolist(), fleet.ids
    chosen = nsmallest(k, range(len(ids)), key=lambda j: (-values[j], ids[j]))
    waiting, running, in_flight = fleet.queue_depth, fleet.running, fleet.in_flight
    used, free = fleet.kv_utilization, fleet.free_blocks
    return tuple(
        Candidate(
            ids[j],
            values[j],
            int(waiting[j]),
            int(running[j]),
            int(in_flight[j]),
            float(used[j]),
            int(free[j]),
        )
        for j in chosen
    )
