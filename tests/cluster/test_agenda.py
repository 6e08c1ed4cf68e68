"""Rare events: their order among themselves and among arrivals, admissions and routings."""

from __future__ import annotations

from typing import Any

import pytest

from blis_core.assembly import build_cluster
from blis_core.cluster.agenda import Agenda
from blis_core.cluster.simulation import Cluster
from blis_core.config import RunConfig
from blis_core.contracts import MAX_INT64, Request
from blis_core.deployment import resolve
from blis_core.engine.instance import Instance
from blis_core.planning import simulator_seed
from blis_core.run import _policies


def drain(agenda: Agenda) -> None:
    while agenda.entries:
        agenda.act()


def test_order_is_time_then_priority_then_planning() -> None:
    agenda, seen = Agenda(), []
    for time, priority, name in [(5, 4, "a"), (5, 3, "b"), (2, 9, "c"), (5, 3, "d"), (5, -1, "e")]:
        agenda.add(time, priority, lambda payload, now: seen.append((now, payload)), name)
    drain(agenda)
    assert seen == [(2, "c"), (5, "e"), (5, "b"), (5, "d"), (5, "a")]


def cluster_of(instances: int = 2, **options: Any) -> Cluster:
    config = RunConfig(
        model="qwen/qwen3-14b",
        latency_model="blackbox",
        alpha_coeffs=(0.0, 0.0, 0.0),
        beta_coeffs=(1000.0, 0.0, 0.0),
        total_kv_blocks=100,
        num_instances=instances,
        **options,
    )
    return build_cluster(
        config, resolve(config), _policies(config), MAX_INT64, simulator_seed(config)
    )


def requests(*arrivals: int) -> list[Request]:
    import numpy as np

    tokens = np.arange(12, dtype=np.int32)
    return [
        Request(f"request_{i}", arrival, tokens + 100 * i, 10, 2)
        for i, arrival in enumerate(arrivals)
    ]


def test_an_entry_of_the_present_instant_acts_in_its_turn() -> None:
    cluster = cluster_of()
    seen: list[tuple[str, int]] = []
    inject = cluster.fleet.inject

    def note(name: str, now: int) -> None:
        seen.append((name, now))
        if name == "late":
            cluster.agenda.add(now, -1, note, "early, planned late")

    def routed(index: int, request: Request, now: int) -> None:
        seen.append((request.id, now))
        inject(index, request, now)

    cluster.fleet.inject = routed  # type: ignore[method-assign]
    cluster.agenda.add(10, 3, note, "late")
    cluster.agenda.add(10, -2, note, "early")
    cluster.agenda.add(7, 9, note, "before")
    cluster.run(requests(10, 10))
    assert seen == [
        ("before", 7),
        ("early", 10),
        ("request_0", 10),
        ("request_1", 10),
        ("late", 10),
        ("early, planned late", 10),
    ]


def test_nothing_acts_beyond_the_horizon() -> None:
    seen: list[int] = []
    cluster = cluster_of(horizon=20)
    cluster._horizon = 20
    for time in (20, 21):
        cluster.agenda.add(time, 3, lambda _, now: seen.append(now))
    cluster.run(requests(1))
    assert seen == [20]


@pytest.mark.parametrize("watched", [False, True])
def test_instances_join_during_a_run(watched: bool) -> None:
    """They get requests as soon as they are routable, and only then (in turn: 0, 0, 0 of 2, 1)."""
    cluster = cluster_of(instances=1, snapshot_refresh_interval=5)
    spare: Instance = cluster_of(instances=2).instances[1]
    spare._chains = cluster.instances[0]._chains
    spare._formation._chains = spare._chains
    ends: list[tuple[int, int]] = []
    if watched:
        cluster.watch(lambda index, now: ends.append((index, now)))
    cluster.fleet.set_routable([0])
    cluster.agenda.add(50, 9, lambda _, now: cluster.add_instance(spare))
    cluster.agenda.add(150, -1, lambda _, now: cluster.fleet.set_routable(None))
    cluster.run(requests(10, 100, 200, 300))
    assert [len(i.finish().requests) for i in cluster.instances] == [3, 1]
    assert [i.metrics.completed for i in cluster.instances] == [3, 1]
    if watched:
        # steps of 1000 us; the two that came at 100 and 200 share one, and what ends in a step is
        # known at its start
        assert ends == [(0, 1010), (1, 1300), (0, 2010)]


def test_instances_leave_the_choice() -> None:
    cluster = cluster_of(instances=3)
    cluster.agenda.add(5, 8, lambda _, now: cluster.fleet.set_routable([0, 2]))
    cluster.agenda.add(150, 8, lambda _, now: cluster.fleet.set_routable([]))
    cluster.run(requests(10, 20, 30, 100, 200))
    assert [len(i.metrics.requests) for i in cluster.instances] == [2, 0, 2]
    assert cluster.outcome.unroutable == 1
