"""Which requests are disaggregated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import PDDeciderSetup
from blis_core.plugins import get_registry
from blis_core.policies.deciders import PrefixThreshold
from blis_core.testing import FixedFleet, make_request

BLOCK = 16


def threshold(tokens: int) -> PrefixThreshold:
    return PrefixThreshold(PDDeciderSetup(block_size=BLOCK, prefix_threshold=tokens))


@pytest.mark.parametrize(("name", "answer"), [("never", False), ("always", True)])
def test_the_simple_ones(name: str, answer: bool) -> None:
    decider = get_registry().create("pd-decider", name, PDDeciderSetup(block_size=BLOCK))
    assert decider.disaggregates(make_request(1000), FixedFleet(2)) is answer


def test_prompts_that_grow_as_the_reference_saw_them() -> None:
    """Each the beginning of the next, routed after its decision; no step adds over 40 tokens."""
    decider, fleet = threshold(40), FixedFleet(2)
    whole = make_request(105)
    for length in (15, 40, 41, 64, 64, 100, 100, 105):
        request = make_request(length, prefix_of=whole, prefix_len=length)
        assert not decider.disaggregates(request, fleet)
        decider.routed(request, fleet)
    assert decider.disaggregates(make_request(41), fleet)


@given(st.integers(1, 400), st.integers(0, 400))
def test_new_tokens_alone_decide(length: int, tokens: int) -> None:
    decider, fleet = threshold(tokens), FixedFleet(1)
    request = make_request(length)
    assert decider.disaggregates(request, fleet) == (length > tokens)
    decider.routed(request, fleet)
    # only full blocks are remembered
    assert decider.disaggregates(request, fleet) == (length % BLOCK > tokens)


def test_looking_does_not_keep_but_routing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrefixThreshold, "capacity", 4)
    decider, fleet = threshold(0), FixedFleet(1)
    first, second, third = (make_request(2 * BLOCK) for _ in range(3))
    decider.routed(first, fleet)
    decider.routed(second, fleet)
    assert not decider.disaggregates(first, fleet)
    decider.routed(third, fleet)  # forgets the first, although it was asked for last
    assert decider.disaggregates(first, fleet)
    decider.routed(second, fleet)
    decider.routed(first, fleet)
    assert not decider.disaggregates(second, fleet)
    assert decider.disaggregates(third, fleet)
