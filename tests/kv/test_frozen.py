"""What a KV store remembers of its index at an earlier time, against a copy taken then."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blis_core.engine.instance import Instance
from tests.engine.compare import product
from tests.engine.test_engine import EXAMPLES, scenarios

CUTS = range(0, 20_000, 211)


class Watched(Instance):
    """Freezes its store and looks prompts up in the past, at random interruptions."""

    rng = None
    texts = ()
    answers = ()

    def advance(self, limit=2**63):
        super().advance(limit)
        if limit not in CUTS or not self.texts:
            return
        rng, store = self.rng, self.store
        if rng.random() < 0.4 or not hasattr(self, "then"):
            store.freeze()
            self.then = store.cached_keys()
        if rng.random() < 0.5:
            # somebody else's prompt, which may share any stretch of an earlier sequence
            text = rng.choice(self.texts)
            text = text[: rng.randrange(1, len(text) + 1)] + [rng.randrange(5)] * rng.randrange(3)
            chain = self._chains.intern(np.array(text, dtype=np.int32), len(text))
            blocks = len(text) // store.block_size
            known = [key in self.then for key in list(chain)[:blocks]] + [False]
            self.answers.append((store.match_frozen(chain, blocks), known.index(False)))


@EXAMPLES
@given(scenarios(), st.randoms(use_true_random=False))
def test_the_past_is_remembered(scenario, rng):
    requests, latency, options = scenario
    Watched.rng, Watched.answers = rng, []
    Watched.texts = [[*prompt, *output] for _, _, prompt, output, _, _ in requests]
    product(requests, latency, cuts=CUTS, instance=Watched, **options)
    assert [got for got, _ in Watched.answers] == [want for _, want in Watched.answers]
