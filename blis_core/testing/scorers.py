"""Laws of scorers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blis_core.contracts import FleetView, Request, Scorer
from blis_core.testing.asking import Ask, Asking, require_same
from blis_core.testing.checks import UNPREDICTABLE, require
from blis_core.testing.fleet import FixedFleet
from blis_core.testing.requests import asked

if TYPE_CHECKING:
    from blis_core.contracts import FloatArray, IntArray


class _CacheWatch(FleetView):
    """Passes everything on, and counts who asks for cached blocks."""

    def __init__(self, fleet: FixedFleet) -> None:
        self.ids = fleet.ids
        self.queue_depth = fleet.queue_depth
        self.running = fleet.running
        self.in_flight = fleet.in_flight
        self.kv_utilization = fleet.kv_utilization
        self.free_blocks = fleet.free_blocks
        self._fleet = fleet
        self.count = 0

    def cached_blocks(self, request: Request) -> IntArray:
        self.count += 1
        return self._fleet.cached_blocks(request)

    def prompt_keys(self, request: Request) -> tuple[int, ...]:
        return tuple(self._fleet.prompt_keys(request))


class ScorerTests(Asking):
    """Subclass it and define ``make``.

    Scores are finite, in [0, 1], one per instance, and repeatable; fleet and request stay as they
    are; the cost does not grow with the tokens of the prompt, nor with the number of decisions.
    ``fleets`` and ``requests`` say what the scorer is asked about.
    """

    what = "score()"

    def make(self) -> Scorer:
        """A new scorer."""
        raise NotImplementedError("define make(self), which returns a new scorer")

    def new(self) -> Ask:
        """A new scorer as a function: score, then tell it that the best instance was chosen."""
        scorer = self.make()

        def ask(request: Request, fleet: FleetView) -> FloatArray:
            scores = scorer.score(request, fleet)
            scorer.routed(request, int(np.argmax(scores)))
            return scores

        return ask

    # ---------------------------------------------------------------------------------- laws

    def test_gives_each_instance_a_finite_score_from_0_to_1(self) -> None:
        """Whatever the fleet looks like, and if it changes between two requests."""
        scorer = self.make()
        for request, fleet in self.questions():
            scores = np.asarray(scorer.score(request, fleet))
            where = f"for {request} in a fleet of {len(fleet)}"
            require(
                scores.shape == (len(fleet),),
                f"score() returned an array of shape {scores.shape} {where}; return one number per"
                " instance, in order",
            )
            require(
                scores.dtype.kind in "fiub",
                f"score() returned an array of {scores.dtype} {where}; return numbers",
            )
            finite = np.isfinite(scores)
            require(
                finite.all(),
                f"score() returned {scores[~finite][:1].tolist()} {where}: scores must be finite"
                " (a fleet may be idle, or evenly loaded: guard divisions)",
            )
            outside = (scores < 0) | (scores > 1)
            require(
                not outside.any(),
                f"score() returned {scores[outside][:1].tolist()} {where}: scores lie in [0, 1],"
                " so that weights mean what they say",
            )
            scorer.routed(request, int(scores.argmax()))

    def test_same_questions_get_same_answers(self) -> None:
        """Two scorers of the same kind, asked the same, agree."""
        one, other = self.new(), self.new()
        for request, fleet in self.questions():
            require_same(
                one(request, fleet),
                other(request, fleet),
                f"two new scorers, asked the same, differ for {request} ({UNPREDICTABLE})",
            )

    def test_asks_for_caches_only_if_it_says_so(self) -> None:
        """``reads_cache = False`` spares the simulation from watching the KV caches."""
        scorer = self.make()
        for request, fleet in asked(self.requests(), self.fleets()):
            watch = _CacheWatch(fleet)
            scores = scorer.score(request, watch)
            scorer.routed(request, int(np.argmax(scores)))
            require(
                scorer.reads_cache or not watch.count,
                f"score() calls fleet.cached_blocks although {type(scorer).__name__}.reads_cache"
                " is False: caches are then not watched, and the counts may be wrong",
            )
