"""From some number of instances on decisions are taken with arrays; they stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.cluster import routing
from blis_core.rng import GoRand

_SCORES = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0, 1.5]), min_size=1, max_size=9)


@given(scores=_SCORES, seed=st.integers(0, 1000))
def test_lists_and_arrays_choose_the_same(scores, seed):
    array = np.array(scores)
    found = []
    for many in (1, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(routing, "_MANY", many)
            random = GoRand(seed)
            found.append((routing._best(array, random), routing._in_range(array), random.int63()))
    assert found[0] == found[1]
