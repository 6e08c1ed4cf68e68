"""Laws of deciders: which requests are disaggregated."""

from __future__ import annotations

from blis_core.contracts import FleetView, PDDecider, PDDeciderSetup, Request
from blis_core.testing.asking import Ask, Asking, require_same
from blis_core.testing.checks import UNPREDICTABLE, require


class PDDeciderTests(Asking):
    """Subclass it and define ``make``.

    Answers are true or false, and repeatable; looking at a request changes no later answer; fleet
    and request stay as they are; the cost does not grow with the tokens of the prompt, nor with the
    number of decisions.
    """

    what = "the decider"

    def make(self, setup: PDDeciderSetup) -> PDDecider:
        """A new decider."""
        raise NotImplementedError("define make(self, setup), which returns a new decider")

    def setup(self) -> PDDeciderSetup:
        """What the decider is built from. Override it to have other figures."""
        return PDDeciderSetup(block_size=16, prefix_threshold=64)

    def new(self) -> Ask:
        """A new decider as a function: ask it, then tell it that the request was routed."""
        decider = self.make(self.setup())

        def ask(request: Request, fleet: FleetView) -> bool:
            answer = decider.disaggregates(request, fleet)
            decider.routed(request, fleet)
            return answer

        return ask

    # ---------------------------------------------------------------------------------- laws

    def test_answers_true_or_false(self) -> None:
        """Not a number, and nothing that only looks like an answer."""
        ask = self.new()
        for request, fleet in self.questions():
            answer = ask(request, fleet)
            require(
                type(answer) is bool,
                f"disaggregates() returned {answer!r} for {request}; return True to prefill it in"
                " one pool and decode it in the other, False to leave it in one piece",
            )

    def test_same_questions_get_same_answers(self) -> None:
        """Two deciders of the same kind, asked the same, agree."""
        one, other = self.new(), self.new()
        for request, fleet in self.questions():
            require_same(
                one(request, fleet),
                other(request, fleet),
                f"two new deciders, asked the same, differ for {request} ({UNPREDICTABLE})",
            )

    def test_learns_from_routing_only(self) -> None:
        """Requests may be rejected after they were decided upon, or come back to be decided."""
        once, twice = self.make(self.setup()), self.make(self.setup())
        for request, fleet in self.questions():
            twice.disaggregates(request, fleet)
            require_same(
                once.disaggregates(request, fleet),
                twice.disaggregates(request, fleet),
                f"disaggregates() answers otherwise for {request} if it was asked before; learn"
                " from routed(), which tells what really happened",
            )
            once.routed(request, fleet)
            twice.routed(request, fleet)
