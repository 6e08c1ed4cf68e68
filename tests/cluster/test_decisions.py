"""Records of decisions, candidates, regret, totals."""

from __future__ import annotations

import numpy as np
import pytest

from blis_core.cluster.decisions import AdmissionRecord, Candidate, DecisionLog, TraceSummary
from blis_core.contracts import RoutingDecision
from tests.cluster.fleets import FixedFleet, loaded, request

ROUND_ROBIN = [
    *([0, 0, 0], [2, 0, 0], [2, 2, 0], [2, 2, 2], [4, 2, 2], [4, 4, 2]),
    *([4, 4, 4], [6, 4, 2], [6, 6, 2], [4, 4, 4], [6, 4, 2], [4, 4, 0]),
]
BUSIEST = [[load, 0, 0] for load in (0, 2, 4, 6, 8, 10, 12, 14, 14, 14, 14, 12)]
"""Loads before each decision in two recorded runs with 3 instances."""


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize(
    ("loads", "targets", "mean", "most"),
    [(ROUND_ROBIN, [0, 1, 2] * 4, "0.333333", 2), (BUSIEST, [0] * 12, "9.166667", 14)],
)
def test_regret_as_in_the_reference(
    loads: list[list[int]], targets: list[int], mean: str, most: float, k: int
) -> None:
    log = DecisionLog(counterfactual_k=k)
    for now, (row, target) in enumerate(zip(loads, targets, strict=True)):
        log.admission(request(), now, None)
        log.routing(request(), now, RoutingDecision(target, "why"), loaded(*row))
    summary = log.summary()
    assert f"{summary.mean_regret:.6f}" == mean
    assert summary.max_regret == most
    assert (summary.total, summary.admitted, summary.rejected) == (12, 12, 0)
    assert sum(summary.targets.values()) == 12
    assert log.routings == log.admissions == []


def test_scores_of_the_policy_come_first() -> None:
    log = DecisionLog(counterfactual_k=1, keep_records=True)
    decision = RoutingDecision(1, "weighted", np.array([0.25, 0.5, 0.75]))
    log.routing(request("r"), 5, decision, loaded(0, 9, 9))
    (record,) = log.routings
    assert record.regret == 0.25
    assert record.scores == (0.25, 0.5, 0.75)
    assert [c.instance for c in record.candidates] == ["instance_2"]


def test_records() -> None:
    log = DecisionLog(counterfactual_k=2, keep_records=True)
    fleet = FixedFleet([1, 2, 3, 0.5], [0, 1, 1, 0.25], [0, 1, 1, 0.75])
    log.admission(request("a"), 4, None)
    log.admission(request("b"), 5, "reject-all")
    log.routing(request("a"), 6, RoutingDecision(0, "because"), fleet)
    assert log.admissions == [
        AdmissionRecord("a", 4, True, ""),
        AdmissionRecord("b", 5, False, "reject-all"),
    ]
    (record,) = log.routings
    assert record[:5] == ("a", 6, "instance_0", "because", None)
    assert record.regret == 4
    assert record.candidates == (
        Candidate("instance_1", -2.0, 0, 1, 1, 0.25, 101),
        Candidate("instance_2", -2.0, 0, 1, 1, 0.75, 102),
    )


def test_equal_candidates_are_ordered_by_id_as_text() -> None:
    log = DecisionLog(counterfactual_k=4, keep_records=True)
    log.routing(request(), 0, RoutingDecision(0, ""), loaded(*[0] * 12))
    names = [c.instance for c in log.routings[0].candidates]
    assert names == ["instance_0", "instance_1", "instance_10", "instance_11"]


def test_without_counterfactuals_nothing_is_read() -> None:
    class Blind(FixedFleet):
        @property
        def load(self):  # type: ignore[no-untyped-def]
            raise AssertionError("read")

    log = DecisionLog(keep_records=True)
    log.routing(request(), 0, RoutingDecision(1, ""), Blind([0, 0, 9, 0], [0, 0, 0, 0]))
    assert log.routings[0].candidates == ()
    assert log.summary().max_regret == 0


def test_totals() -> None:
    log = DecisionLog()
    assert log.summary() == TraceSummary()
    for number in (2, 10, 10, 1):
        log.admission(request(), 0, None)
        log.routing(request(), 0, RoutingDecision(number, ""), loaded(*[0] * 11))
    log.admission(request(), 0, "no")
    summary = log.summary()
    assert list(summary.targets.items()) == [
        ("instance_1", 1),
        ("instance_10", 2),
        ("instance_2", 1),
    ]
    assert (summary.total, summary.admitted, summary.rejected) == (5, 4, 1)
