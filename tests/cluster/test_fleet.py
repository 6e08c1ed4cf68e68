"""What a fleet knows of its instances, which it lets lag behind."""

from __future__ import annotations

import numpy as np
import pytest

from blis_core.cluster.fleet import Fleet, Snapshot
from blis_core.contracts import KVSetup, Request
from blis_core.engine.formation import Limits
from blis_core.engine.instance import Instance
from blis_core.engine.schedulers import PRIORITY_POLICIES, Fcfs
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore
from tests.engine.regression import Regression

STEP = 52  # us of a decode step of one request


def make_fleet(*, lazy: bool = True, **options) -> Fleet:
    """Two instances, the first with a request that decodes for 100 steps."""
    chains = ChainTable(4)
    instances = [
        Instance(
            f"instance_{i}",
            latency=Regression(),
            store=PagedKVStore(KVSetup(total_blocks=50, block_size=4)),
            chains=chains,
            scheduler=Fcfs(PRIORITY_POLICIES["constant"]),
            limits=Limits(max_running=4, max_tokens=100, long_prefill=0, max_model_len=0),
        )
        for i in range(2)
    ]
    fleet = Fleet(instances, chains, **options)
    fleet.lazy = lazy
    fleet.inject(0, new_request(), 0)
    return fleet


def new_request() -> Request:
    return Request("r0", 0, np.arange(106, dtype=np.int32), 6, 100)


SIGNALS = ("queue_depth", "running", "in_flight", "free_blocks", "kv_utilization")


def test_counts_do_not_advance_silent_instances():
    fleet = make_fleet()
    instance = fleet.instances[0]
    Snapshot(fleet, 100).load  # noqa: B018 - reading it is the point
    known = set()
    for now in range(200, 4000, 100):
        assert Snapshot(fleet, now).load.tolist() == [2, 0]
        known.add(instance.log.steps)
    assert len(known) <= 2
    assert Snapshot(fleet, 10_000).load.tolist() == [0, 0]


@pytest.mark.parametrize("first", range(60, 60 + 4 * STEP, 7))
def test_blocks_are_followed_from_the_first_look_on(first):
    """Wherever in a step, and in a block, the first look at KV blocks finds an instance."""
    lazy, eager = make_fleet(), make_fleet(lazy=False)
    for now in (first - 20, first - 1):
        assert Snapshot(lazy, now).load.tolist() == Snapshot(eager, now).load.tolist()
    for now in range(first, first + 12 * STEP, 13):
        seen, true = Snapshot(lazy, now), Snapshot(eager, now)
        assert seen.kv_utilization.tolist() == true.kv_utilization.tolist(), now


@pytest.mark.parametrize("interval", [0, 170])
def test_every_signal_is_that_of_a_fleet_in_step(interval):
    """At each instant, and after a second request has joined."""
    fleets = [make_fleet(lazy=lazy, refresh_interval=interval) for lazy in (True, False)]
    for now in range(0, 6000, 37):
        views = []
        for fleet in fleets:
            fleet.build(now)
            view = Snapshot(fleet, now)
            views.append([getattr(view, name).tolist() for name in SIGNALS])
            if now == 37 * 40:
                fleet.inject(0, new_request(), now)
        assert views[0] == views[1], now


@pytest.mark.parametrize("lazy", [True, False])
def test_frozen_caches_are_those_of_the_refresh(lazy):
    """Instances may be far ahead when somebody looks, or far behind."""
    fleet = make_fleet(lazy=lazy, cache_delay=1000)
    same = new_request()
    fleet.build(0)
    fleet.build(500)  # not due
    assert fleet.cached_blocks(same, 500).tolist() == [0, 0]
    fleet.build(1000)
    fleet.sync_all(1900)  # ahead of the frozen state
    assert fleet.cached_blocks(same, 1900).tolist() == [1, 0]
    fleet.build(2000)
    fleet.build(3000)  # nobody has looked since
    assert fleet.cached_blocks(same, 3000).tolist() == [1, 0]


def test_a_prompt_without_relatives_is_looked_up_nowhere():
    fleet = make_fleet(cache_delay=0)
    other = Request("r1", 900, np.arange(500, 600, dtype=np.int32), 90, 10)
    before = fleet.instances[0].log.steps
    assert fleet.cached_blocks(other, 900).tolist() == [0, 0]
    assert fleet.instances[0].log.steps == before
    assert fleet.cached_blocks(new_request(), 900).tolist() == [1, 0]
