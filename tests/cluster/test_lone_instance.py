"""What saves time and memory changes no result: the way of a lone instance, forgotten prompts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.api import simulate
from blis_core.cluster import simulation
from blis_core.kv import chains

_BASE: dict[str, Any] = {"model": "qwen/qwen3-14b", "latency_model": "trained-physics"}


def _figures(**options: Any) -> Any:
    results = simulate(**_BASE, **options)
    requests = [(r.id, r.ttft, r.e2e, r.itl_sum, r.state) for r in results.requests]
    return results.cluster, results.kv, sorted(requests)


@given(
    options=st.fixed_dictionaries(
        {
            "seed": st.integers(0, 10_000),
            "rate": st.sampled_from([2.0, 20.0, 400.0]),
            "num_requests": st.integers(1, 60),
            "total_kv_blocks": st.sampled_from([60, 150, 4000]),
            "prefix_tokens": st.sampled_from([0, 100]),
            "timeout": st.sampled_from([3, 20, 300]),
            "horizon": st.sampled_from([None, 2_000_000]),
            "max_model_len": st.just(900),
        }
    ),
    stride=st.sampled_from([1, 7, 256]),
)
@settings(max_examples=25, deadline=None)
def test_the_short_way_gives_what_the_whole_cluster_gives(options, stride):
    """Recorded decisions make every request pass admission and routing one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "_STRIDE", stride)
        short = _figures(**options)
    assert short == _figures(**options, trace_level="decisions")


@pytest.mark.parametrize(
    "options",
    [
        {"num_instances": 4, "routing_policy": "weighted"},
        {"num_instances": 3, "routing_policy": "weighted", "cache_signal_delay": 0},
        {"num_instances": 2, "routing_policy": "weighted", "routing_scorers": "prefix-affinity:1"},
        {"num_instances": 3},
        {},
        {"concurrency": 20, "rate": None},
    ],
    ids=lambda options: " ".join(map(str, options.values())) or "alone",
)
def test_forgetting_old_prompts_changes_nothing(options, monkeypatch):
    common = {"num_requests": 300, "prefix_tokens": 64, "total_kv_blocks": 700, "rate": 40.0}
    expected = _figures(**common | options)
    monkeypatch.setattr(simulation, "_CATCH_UP", 5)
    monkeypatch.setattr(chains, "FORGET", 9000)
    monkeypatch.setattr(simulation, "_STRIDE", 4)
    assert _figures(**common | options) == expected


def test_old_prompts_are_forgotten(monkeypatch):
    """The table of prompts stays as small as what is cached and in flight."""
    kept: list[int] = []
    original = simulation.Cluster._forget

    def watched(self: Any) -> None:
        original(self)
        kept.append(len(self.fleet.chains._roots))

    monkeypatch.setattr(simulation.Cluster, "_forget", watched)
    monkeypatch.setattr(simulation, "_CATCH_UP", 20)
    monkeypatch.setattr(chains, "FORGET", 30_000)
    simulate(**_BASE, num_instances=2, num_requests=1500, rate=5.0, total_kv_blocks=200)
    assert len(kept) > 5
    assert max(kept) < 200
