"""Each scorer on fleets small enough to compute by hand, and laws that hold for any fleet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.api import FleetView, Request
from blis_routing import plugin, scorers

REQUEST = Request("r", 0, None, 100, 10)


class Fleet(FleetView):
    """A fleet given by its figures."""

    def __init__(self, queue=(0,), running=None, in_flight=None, utilization=None):
        size = len(queue)
        self.ids = [f"instance_{i}" for i in range(size)]
        self.queue_depth = np.array(queue, dtype=np.int64)
        self.running = np.array(running or [0] * size, dtype=np.int64)
        self.in_flight = np.array(in_flight or [0] * size, dtype=np.int64)
        self.kv_utilization = np.array(utilization or [0.0] * size)
        self.free_blocks = np.zeros(size, dtype=np.int64)

    def cached_blocks(self, request):
        return np.zeros(len(self), dtype=np.int64)


def score(scorer, fleet):
    return scorer().score(REQUEST, fleet).tolist()


@pytest.mark.parametrize(
    ("scorer", "fleet", "expected"),
    [
        (scorers.QueueDepth, Fleet([0, 3, 6]), [1.0, 0.5, 0.0]),
        (scorers.QueueDepth, Fleet([4, 4]), [1.0, 1.0]),
        (scorers.RunningRequests, Fleet([0, 0, 0], running=[5, 1, 2]), [0.0, 1.0, 0.75]),
        (scorers.VllmDataParallel, Fleet([1, 0], running=[0, 4]), [1.0, 1.0]),
        (scorers.VllmDataParallel, Fleet([1, 0, 2], running=[0, 0, 0]), [0.5, 1.0, 0.0]),
        (scorers.ActiveRequests, Fleet([0, 0, 0], in_flight=[0, 1, 4]), [1.0, 0.75, 0.0]),
        (scorers.ActiveRequests, Fleet([0, 0]), [1.0, 1.0]),
        (scorers.ActiveRequests, Fleet([0, 0], in_flight=[3, 3]), [0.0, 0.0]),
        (scorers.LoadBalance, Fleet([0, 1], running=[0, 1], in_flight=[0, 1]), [1.0, 0.25]),
        (scorers.LoadAware, Fleet([0, 64, 128, 500]), [0.5, 0.25, 0.0, 0.0]),
        (scorers.KVUtilization, Fleet([0, 0], utilization=[0.0, 0.006]), [1.0, 0.994]),
    ],
)
def test_formula(scorer, fleet, expected):
    assert score(scorer, fleet) == expected


def registered():
    found = {}
    plugin.blis_register_scorers(lambda name, factory, **_: found.__setitem__(name, factory))
    return found


def test_registered_addresses_exist():
    for name, factory in registered().items():
        module, _, attribute = factory.partition(":")
        assert module == "blis_routing.scorers", name
        assert hasattr(scorers, attribute), name


counts = st.integers(0, 1000)
instances = st.lists(
    st.tuples(counts, counts, counts, st.floats(0, 1)), min_size=1, max_size=12
).map(lambda rows: Fleet(*(list(column) for column in zip(*rows, strict=True))))


@pytest.mark.parametrize("factory", sorted(registered().values()))
@given(fleet=instances)
def test_scores_are_in_range_and_leave_the_fleet_alone(factory, fleet):
    fields = ["queue_depth", "running", "in_flight", "kv_utilization"]
    before = [getattr(fleet, field).copy() for field in fields]
    scores = getattr(scorers, factory.partition(":")[2])().score(REQUEST, fleet)
    assert scores.shape == (len(fleet),)
    assert scores.dtype == np.float64
    assert ((scores >= 0) & (scores <= 1)).all()
    for field, values in zip(fields, before, strict=True):
        assert (getattr(fleet, field) == values).all()


@given(fleet=instances)
def test_a_longer_queue_never_scores_higher(fleet):
    order = np.argsort(fleet.queue_depth, kind="stable")
    for scorer in (scorers.QueueDepth, scorers.LoadAware):
        sorted_scores = scorer().score(REQUEST, fleet)[order]
        assert (np.diff(sorted_scores) <= 0).all()
