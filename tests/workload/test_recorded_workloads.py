"""Whole workloads against the reference's own: requests, sessions, follow-ups, warnings."""

from __future__ import annotations

from typing import Any

import pytest

from blis_core.contracts import MAX_INT64
from blis_core.errors import BlisError
from blis_core.workload.pipeline import prepare
from blis_core.workload.sessions import SessionManager
from blis_core.workload.spec import parse_spec
from tests.workload import spec_verdicts
from tests.workload.recorded import (
    CASES,
    all_sha,
    assert_equals,
    described_session,
    serve,
    workload_of,
)


def warnings_in(capsys: pytest.CaptureFixture[str]) -> int:
    """Number of warnings logged so far."""
    return capsys.readouterr().err.count("[warning")


def test_all_cases_are_there() -> None:
    assert len(CASES) == 49


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["case"])
def test_workload_of_the_reference(
    case: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    workload = workload_of(case)
    requests = list(workload.requests)
    assert len(requests) == case["num_generated"]
    for request, known in zip(requests, case.get("requests", []), strict=False):
        assert_equals(request, known)
    assert all_sha(requests) == case["all_sha"]
    assert workload.follow_up_budget == case["follow_up_budget"]
    assert len(workload.sessions) == case.get("num_sessions", 0)
    assert [described_session(b) for b in workload.sessions] == case.get("sessions", [])
    assert len(workload.warnings) + warnings_in(capsys) == case["warnings"]


@pytest.mark.parametrize("case", [c for c in CASES if "sessions" in c], ids=lambda c: c["case"])
def test_follow_ups_of_the_reference(case: dict[str, Any]) -> None:
    workload = workload_of(case)
    manager = SessionManager(workload.sessions, workload.follow_up_budget)
    # The recording ends after so many follow-ups.
    most = 100 if any(b.max_rounds is None for b in workload.sessions) else 60
    sent = serve(workload.requests, manager, most)
    known = case.get("follow_ups", [])
    assert len(sent) == len(known) == manager.follow_ups
    for request, recorded in zip(sent, known, strict=True):
        assert_equals(request, recorded)


@pytest.mark.parametrize(
    "case",
    [c for c in spec_verdicts.CASES if c["result"] != "load_error"],
    ids=lambda c: c["name"],
)
def test_verdict_of_generation(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    spec = parse_spec(case["yaml"], "spec.yaml")
    horizon = spec.horizon if spec.horizon > 0 else MAX_INT64
    if case["result"] != "ok":  # where the reference crashes, an error is due as well
        with pytest.raises(BlisError):
            prepare(spec, horizon=horizon, max_requests=spec.num_requests)
        return
    workload = prepare(spec, horizon=horizon, max_requests=spec.num_requests)
    assert len(list(workload.requests)) == case["num_generated"]
    assert len(workload.warnings) + warnings_in(capsys) == case.get("warnings", 0)
