"""Scorers that look for a prompt's prefix: recorded decisions, memory, changing fleets."""

from __future__ import annotations

import numpy as np
import pytest

from blis_core.testing import FixedFleet, make_request
from blis_routing.prefix import NoHitLru, PrecisePrefixCache, PrefixAffinity
from blis_routing.scorers import LoadBalance


def group(*lengths, shared):
    """Requests whose prompts begin with the same ``shared`` tokens."""
    first = make_request(lengths[0])
    rest = (make_request(n, prefix_of=first, prefix_len=shared) for n in lengths[1:])
    return [first, *rest]


def tell(scorer, request, fleet, target):
    """Score, then route to ``target``. Returns the scores."""
    scores = scorer.score(request, fleet).tolist()
    scorer.routed(request, target)
    return scores


# -------------------------------------------------------------- recorded decisions of the reference


def test_prefix_affinity():
    """252 tokens are 15 blocks, 10 of which a request routed to instance 0 has, too."""
    scorer, fleet = PrefixAffinity(), FixedFleet(3)
    earlier, request = group(230, 252, shared=160)
    assert tell(scorer, earlier, fleet, 0) == [0.0, 0.0, 0.0]
    assert tell(scorer, request, fleet, 0) == [0.6666666666666666, 0.0, 0.0]


@pytest.mark.parametrize(
    ("cached", "expected"),
    [
        ([10, 0, 0], [1.0, 0.0, 0.0]),
        ([0, 0, 0], [1.0, 1.0, 1.0]),
        ([10, 0, 10], [1.0, 0.0, 1.0]),
        ([2, 4, 6], [0.0, 0.5, 1.0]),
        ([5, 5, 5], [1.0, 1.0, 1.0]),
    ],
)
def test_precise_prefix_cache(cached, expected):
    fleet = FixedFleet(cached_blocks=cached)
    assert PrecisePrefixCache().score(make_request(252), fleet).tolist() == expected


def test_no_hit_lru():
    """Requests 0 to 4: cold ones go where none went for longest, a warm one makes no difference."""
    scorer = NoHitLru()
    cold, warm = FixedFleet(3), FixedFleet(cached_blocks=[10, 0, 0])
    requests = [make_request(200) for _ in range(5)]
    tell(scorer, requests[0], cold, 0)
    assert tell(scorer, requests[1], cold, 1) == [0.0, 1.0, 0.5]
    assert tell(scorer, requests[2], warm, 0) == [0.5, 0.5, 0.5]
    assert tell(scorer, requests[3], cold, 2) == [0.5, 0.0, 1.0]
    assert tell(scorer, requests[4], cold, 0) == [1.0, 0.5, 0.0]


def test_a_weighted_mix():
    """prefix-affinity:3, no-hit-lru:1, load-balance:1.5, added up as ``weighted`` does."""
    affinity, lru = PrefixAffinity(), NoHitLru()
    earlier, request = group(230, 252, shared=160)
    cold = FixedFleet(3)
    tell(affinity, earlier, cold, 0)
    tell(lru, earlier, cold, 0)
    tell(lru, make_request(200), cold, 1)
    view = FixedFleet(3, in_flight=[2, 2, 0])
    composite = np.zeros(3)
    for scorer, weight in ((affinity, 3.0), (lru, 1.0), (LoadBalance(), 1.5)):
        composite += scorer.score(request, view) * (weight / 5.5)
    assert composite.tolist() == [0.5454545454545454, 0.0909090909090909, 0.45454545454545453]


# ------------------------------------------------------------------------------ prefix-affinity


def test_the_longest_remembered_beginning_counts():
    scorer, fleet = PrefixAffinity(), FixedFleet(3)
    first = make_request(16 * 8)
    second = make_request(16 * 8, prefix_of=first, prefix_len=16 * 2)
    tell(scorer, first, fleet, 0)
    tell(scorer, second, fleet, 1)
    third = make_request(16 * 4, prefix_of=first, prefix_len=16 * 4)
    assert scorer.score(third, fleet).tolist() == [1.0, 0.5, 0.0]


def test_a_prompt_below_one_block_scores_nothing():
    scorer, fleet = PrefixAffinity(), FixedFleet(2)
    short = make_request(15)
    assert tell(scorer, short, fleet, 1) == [0.0, 0.0]
    assert tell(scorer, short, fleet, 1) == [0.0, 0.0]


def test_the_least_recently_used_blocks_are_forgotten(monkeypatch):
    monkeypatch.setattr(PrefixAffinity, "capacity", 4)
    scorer, fleet = PrefixAffinity(), FixedFleet(2)
    a, b = make_request(32), make_request(32)
    tell(scorer, a, fleet, 0)
    tell(scorer, b, fleet, 0)
    tell(scorer, a, fleet, 0)  # used again, so b is older now
    tell(scorer, make_request(16), fleet, 0)
    assert scorer.score(a, fleet).tolist() == [1.0, 0.0]
    assert scorer.score(b, fleet).tolist() == [0.0, 0.0]  # its first block is gone
    assert sum(map(len, scorer._recent.values())) == 4
    assert sum(mask.bit_count() for mask in scorer._holders.values()) == 4


def test_instances_are_remembered_by_name():
    scorer = PrefixAffinity()
    request = make_request(64)
    tell(scorer, request, FixedFleet(ids=["a", "b", "c"], size=3), 2)
    assert scorer.score(request, FixedFleet(ids=["c", "b"])).tolist() == [1.0, 0.0]
    assert scorer.score(request, FixedFleet(ids=["a", "b"])).tolist() == [0.0, 0.0]


def test_no_scan_of_the_memory_of_instances():
    """However many prompts an instance has seen, only the blocks of this one are looked up."""
    scorer, fleet = PrefixAffinity(), FixedFleet(4)
    for i in range(50):
        tell(scorer, make_request(160), fleet, i % 4)
    touched = []

    class Watched(dict):
        def get(self, key, default=None):
            touched.append(key)
            return super().get(key, default)

    scorer._holders = Watched(scorer._holders)
    scorer.score(make_request(160), fleet)
    assert len(touched) <= 10


# ------------------------------------------------------------------------------------ no-hit-lru


def test_a_single_instance_scores_one_when_cold():
    assert NoHitLru().score(make_request(), FixedFleet(1)).tolist() == [1.0]
    assert NoHitLru().score(make_request(), FixedFleet(1, cached_blocks=1)).tolist() == [0.5]


def test_cold_prompts_take_turns():
    scorer, fleet = NoHitLru(), FixedFleet(5)
    targets = []
    for _ in range(10):
        request = make_request()
        best = int(np.argmax(scorer.score(request, fleet)))
        scorer.routed(request, best)
        targets.append(best)
    assert targets == [0, 1, 2, 3, 4] * 2
