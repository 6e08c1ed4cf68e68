"""Keeping requests that have ended as numbers changes nothing that anybody sees."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from blis_core.api import CompactRequests, Request, Results, simulate, slo_attainment
from blis_core.cluster import simulation
from blis_core.engine import instance
from blis_core.results import metrics_file, text

_BASE: dict[str, Any] = {"model": "qwen/qwen3-14b", "num_requests": 300, "rate": 30.0}
_SPEC = {
    "version": "2",
    "seed": 5,
    "aggregate_rate": 40,
    "num_requests": 300,
    "clients": [
        {
            "id": name,
            "tenant_id": tenant,
            "slo_class": slo_class,
            "rate_fraction": 0.5,
            "arrival": {"process": "poisson"},
            "input_distribution": {"type": "exponential", "params": {"mean": 60}},
            "output_distribution": {"type": "exponential", "params": {"mean": 40}},
        }
        for name, tenant, slo_class in (("a", "t1", "critical"), ("b", "", "batch"))
    ],
}
_TALK = _SPEC | {
    "clients": [
        _SPEC["clients"][0]
        | {
            "reasoning": {
                "reason_ratio_distribution": {"type": "constant", "params": {"value": 10}},
                "multi_turn": {
                    "max_rounds": 3,
                    "think_time_us": 100,
                    "context_growth": "accumulate",
                },
            }
        }
    ]
}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Requests are made compact every few arrivals."""
    monkeypatch.setattr(simulation, "_CATCH_UP", 7)
    monkeypatch.setattr(simulation, "_STRIDE", 3)
    monkeypatch.setattr(instance, "_COMPACT", 4)


CASES: list[dict[str, Any]] = [
    {},
    {"num_instances": 3, "routing_policy": "weighted"},
    {"num_instances": 3, "spec": _SPEC, "rate": None, "num_requests": None},
    {"num_instances": 2, "spec": _TALK, "rate": None, "num_requests": None},
    {"concurrency": 9, "rate": None},
    {"concurrency": 9, "rate": None, "num_instances": 2},
    {"total_kv_blocks": 120, "max_model_len": 900, "rate": 90.0},
    {"timeout": 2, "rate": 200.0},
    {"horizon": 3_000_000, "num_instances": 2},
    {"flow_control": True, "saturation_detector": "utilization", "num_instances": 2},
    {"num_instances": 2, "priority_policy": "slo-based", "scheduler": "priority-fcfs"},
]


def _run(options: dict[str, Any], *, compact: bool) -> Results:
    given = {name: value for name, value in (_BASE | options).items() if value is not None}
    return simulate(**given, compact=compact)


@pytest.mark.parametrize("options", CASES, ids=lambda case: " ".join(case) or "alone")
def test_results_are_the_same(options):
    plain, compact = (_run(options, compact=compact) for compact in (False, True))
    assert isinstance(compact.requests, CompactRequests)
    assert text.render(compact) == text.render(plain)
    assert compact.to_json() == plain.to_json()
    assert metrics_file.render(compact) == metrics_file.render(plain)
    assert compact.cautions == plain.cautions
    assert compact.offered_rps == plain.offered_rps
    targets = {"default": 500_000.0, "critical": 300_000.0}
    met = [slo_attainment(results.requests, targets) for results in (compact, plain)]
    assert met[0] == met[1]
    kept = [name for name in Request.__slots__ if name not in {"tokens", "keys", "output_keys"}]
    shown = [
        [[getattr(r, name) for name in kept if name != "engine"] for r in results.requests]
        for results in (plain, compact)
    ]
    assert shown[0] == shown[1]
    for name, column in compact.requests.arrays().columns().items():
        np.testing.assert_array_equal(column, plain.requests.arrays().columns()[name], name)


def test_records_behave_like_a_list():
    plain, compact = (
        _run({"num_instances": 3}, compact=compact).requests for compact in (False, True)
    )
    assert len(compact) == len(plain) == 300
    ids = [request.id for request in plain]
    assert [request.id for request in compact[5:200:3]] == ids[5:200:3]
    assert (compact[0].id, compact[-1].id, compact[150].id) == (ids[0], ids[-1], ids[150])
    assert [request.id for request in reversed(compact)] == ids[::-1]
    with pytest.raises(IndexError):
        compact[300]


def test_pools_and_recordings_keep_objects():
    pools = {"prefill_instances": 1, "decode_instances": 1, "pd_decider": "always"}
    assert isinstance(_run({"num_instances": 2} | pools, compact=True).requests, list)
    recorded = simulate(**_BASE, compact=True, keep_recording=True)
    assert isinstance(recorded.requests, list)


@pytest.mark.parametrize("options", [{}, {"num_instances": 2}, {"concurrency": 5, "rate": None}])
def test_objects_go(options, monkeypatch):
    """Few requests are there at any time, however many there were."""
    most = 0
    sweep = instance.Instance.compact

    def watched(self):
        nonlocal most
        sweep(self)
        gc.collect()
        most = max(most, sum(type(found) is Request for found in gc.get_objects()))

    monkeypatch.setattr(instance.Instance, "compact", watched)
    gc.collect()
    before = sum(type(found) is Request for found in gc.get_objects())
    results = _run({"rate": 2.0, "num_requests": 400, "timeout": -1} | options, compact=True)
    assert len(results.requests) == 400
    assert 0 < most - before < 60
