"""The laws of every scorer, and the figures of this one."""

from __future__ import annotations

import pytest

from blis_core.testing import FixedFleet, ScorerTests, make_request
from blis_scorer_demo.scorers import Headroom


class TestHeadroom(ScorerTests):
    """Runs everything that a scorer must keep to."""

    def make(self):
        return Headroom()


@pytest.mark.parametrize(
    ("free", "cached", "expected"),
    [
        ([1000, 40, 20, 0], 0, [1.0, 1.0, 0.5, 0.0]),
        ([20, 20, 20], [0, 5, 9], [0.5, 1.0, 1.0]),
    ],
    ids=["memory", "cache"],
)
def test_nine_blocks_and_a_rest(free, cached, expected):
    fleet = FixedFleet(free_blocks=free, cached_blocks=cached)
    scores = Headroom().score(make_request(prompt_len=9 * 16 + 3), fleet)
    assert scores.tolist() == expected


def test_a_short_prompt_needs_one_block():
    scores = Headroom().score(make_request(prompt_len=5), FixedFleet(free_blocks=[0, 1, 4]))
    assert scores.tolist() == [0.0, 0.25, 1.0]
