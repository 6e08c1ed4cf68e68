"""Each load scorer on fleets small enough to compute by hand, and laws that hold for any fleet."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.testing import FixedFleet as Fleet
from blis_core.testing import make_request
from blis_routing import plugin, scorers

REQUEST = make_request(100)
LOAD_SCORERS = [
    getattr(scorers, name)
    for name in (
        "ActiveRequests KVUtilization LoadAware LoadBalance QueueDepth RunningRequests"
        " VllmDataParallel"
    ).split()
]


def score(scorer, fleet):
    return scorer().score(REQUEST, fleet).tolist()


@pytest.mark.parametrize(
    ("scorer", "fleet", "expected"),
    [
        (scorers.QueueDepth, Fleet(queue_depth=[0, 3, 6]), [1.0, 0.5, 0.0]),
        (scorers.QueueDepth, Fleet(queue_depth=[4, 4]), [1.0, 1.0]),
        (scorers.RunningRequests, Fleet(running=[5, 1, 2]), [0.0, 1.0, 0.75]),
        (scorers.VllmDataParallel, Fleet(queue_depth=[1, 0], running=[0, 4]), [1.0, 1.0]),
        (scorers.VllmDataParallel, Fleet(queue_depth=[1, 0, 2]), [0.5, 1.0, 0.0]),
        (scorers.ActiveRequests, Fleet(in_flight=[0, 1, 4]), [1.0, 0.75, 0.0]),
        (scorers.ActiveRequests, Fleet(2), [1.0, 1.0]),
        (scorers.ActiveRequests, Fleet(in_flight=[3, 3]), [0.0, 0.0]),
        (
            scorers.LoadBalance,
            Fleet(queue_depth=[0, 1], running=[0, 1], in_flight=[0, 1]),
            [1.0, 0.25],
        ),
        (scorers.LoadAware, Fleet(queue_depth=[0, 64, 128, 500]), [0.5, 0.25, 0.0, 0.0]),
        (scorers.KVUtilization, Fleet(kv_utilization=[0.0, 0.006]), [1.0, 0.994]),
    ],
)
def test_formula(scorer, fleet, expected):
    assert score(scorer, fleet) == expected


def test_registered_addresses_exist():
    found = {}
    plugin.blis_register_scorers(lambda name, factory, **_: found.__setitem__(name, factory))
    for name, factory in found.items():
        module, _, attribute = factory.partition(":")
        assert module.startswith("blis_routing."), name
        assert hasattr(import_module(module), attribute), name


def observed(number, scorer, signals, expected):
    """A recorded decision of the reference: [waiting, running, in flight, KV use] by instance."""
    waiting, running, in_flight, used = zip(*signals, strict=True)
    fleet = Fleet(queue_depth=waiting, running=running, in_flight=in_flight, kv_utilization=used)
    return pytest.param(scorer, fleet, expected, id=f"{number}-{scorer.__name__}")


SEVENTH = [[0, 2, 2, 0.0045], [0, 2, 2, 0.005], [1, 2, 3, 0.006]]


@pytest.mark.parametrize(
    ("scorer", "fleet", "expected"),
    [
        observed(
            7,
            scorers.QueueDepth,
            [[1, 2, 3, 0.0055], [0, 1, 1, 0.002], [1, 2, 3, 0.005]],
            [0.0, 1.0, 0.0],
        ),
        observed(7, scorers.LoadBalance, SEVENTH, [0.2, 0.2, 0.14285714285714285]),
        observed(7, scorers.ActiveRequests, SEVENTH, [0.3333333333333333] * 2 + [0.0]),
        observed(12, scorers.ActiveRequests, [[0, 0, 4, 0]] * 3, [0.0, 0.0, 0.0]),
        observed(7, scorers.RunningRequests, SEVENTH, [1.0, 1.0, 1.0]),
        observed(
            7, scorers.VllmDataParallel, [[0, 2, 2, 0], [0, 2, 2, 0], [1, 2, 3, 0]], [1.0, 1.0, 0.0]
        ),
        observed(
            7,
            scorers.LoadAware,
            [[1, 2, 3, 0], [0, 2, 2, 0], [1, 2, 3, 0]],
            [0.49609375, 0.5, 0.49609375],
        ),
        observed(
            7,
            scorers.KVUtilization,
            [[0, 2, 2, 0.0045], [0, 2, 2, 0.0055], [1, 2, 3, 0.0055]],
            [0.9955, 0.9945, 0.9945],
        ),
    ],
)
def test_decisions_of_the_reference(scorer, fleet, expected):
    assert score(scorer, fleet) == expected


counts = st.integers(0, 1000)
instances = st.lists(
    st.tuples(counts, counts, counts, st.floats(0, 1)), min_size=1, max_size=12
).map(
    lambda rows: Fleet(
        **dict(
            zip(
                ("queue_depth", "running", "in_flight", "kv_utilization"),
                zip(*rows, strict=True),
                strict=True,
            )
        )
    )
)


@pytest.mark.parametrize("scorer", LOAD_SCORERS)
@given(fleet=instances)
def test_scores_are_in_range(scorer, fleet):
    scores = scorer().score(REQUEST, fleet)
    assert scores.shape == (len(fleet),)
    assert scores.dtype == np.float64
    assert ((scores >= 0) & (scores <= 1)).all()


@given(fleet=instances)
def test_a_longer_queue_never_scores_higher(fleet):
    order = np.argsort(fleet.queue_depth, kind="stable")
    for scorer in (scorers.QueueDepth, scorers.LoadAware):
        sorted_scores = scorer().score(REQUEST, fleet)[order]
        assert (np.diff(sorted_scores) <= 0).all()


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=70))
def test_the_fewest_are_best(counts):
    rated = scorers.fewest_best(np.array(counts))
    low, high = min(counts), max(counts)
    expected = [(high - c) / (high - low) if high > low else 1.0 for c in counts]
    assert rated.tolist() == expected


def test_scores_that_are_shared_cannot_be_changed():
    rated = scorers.fewest_best(np.array([2, 2, 2]))
    assert rated is scorers.fewest_best(np.array([7, 7, 7]))
    with pytest.raises(ValueError, match="read-only"):
        rated[0] = 0.5
