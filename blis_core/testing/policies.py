"""Laws of routing and admission policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from blis_core.cluster.admission import AdmissionSetup
from blis_core.cluster.routing import RoutingSetup
from blis_core.contracts import (
    AdmissionPolicy,
    FleetView,
    Request,
    RoutingDecision,
    RoutingPolicy,
    Scorer,
)
from blis_core.rng import GoRand
from blis_core.testing.asking import Ask, Asking, require_same
from blis_core.testing.checks import UNPREDICTABLE, require
from blis_core.testing.fleet import FixedFleet

if TYPE_CHECKING:
    from blis_core.contracts import FloatArray


class _ShortQueue(Scorer):
    """Something for policies that use scorers: short queues."""

    reads_cache: ClassVar[bool] = False

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        return 1.0 / (1.0 + fleet.queue_depth.astype(np.float64))


class _FreeMemory(Scorer):
    """And free KV memory."""

    reads_cache: ClassVar[bool] = False

    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        return 1.0 - fleet.kv_utilization


def _otherwise(fleet: FixedFleet) -> FixedFleet:
    """As many instances in quite another state."""
    size = len(fleet)
    return FixedFleet(
        queue_depth=[400 - i for i in range(size)],
        running=[i % 7 for i in range(size)],
        kv_utilization=[1.0 - i / size for i in range(size)],
        cached_blocks=[i % 3 for i in range(size)],
    )


class RoutingPolicyTests(Asking):
    """Subclass it and define ``make``.

    Targets exist, reasons are given, the same seed gives the same targets; fleet and request stay
    as they are; the cost does not grow with the tokens of the prompt, nor with the number of
    decisions.
    """

    what = "route()"

    def make(self, setup: RoutingSetup) -> RoutingPolicy:
        """A new policy."""
        raise NotImplementedError("define make(self, setup), which returns a new routing policy")

    def scorers(self) -> Sequence[tuple[Scorer, float]]:
        """New scorers with weights, for policies that use them."""
        return (_ShortQueue(), 2.0), (_FreeMemory(), 1.0)

    def policy(self) -> RoutingPolicy:
        """A new policy with a random stream of its own, always from the same seed."""
        return self.make(RoutingSetup(random=GoRand(42), scorers=tuple(self.scorers())))

    def new(self) -> Ask:
        """A new policy as a function."""
        return self.policy().route

    # ---------------------------------------------------------------------------------- laws

    def test_chooses_an_instance_and_says_why(self) -> None:
        """A position in the view, a reason, and scores for all or none."""
        policy = self.policy()
        for request, fleet in self.questions():
            decision = policy.route(request, fleet)
            where = f"for {request} in a fleet of {len(fleet)}"
            require(
                isinstance(decision, RoutingDecision),
                f"route() returned {decision!r} {where}; return a RoutingDecision",
            )
            target, scores = decision.target, decision.scores
            reason: object = decision.reason
            require(
                target in range(len(fleet)) and type(target) is int,
                f"route() chose {target!r} {where}; the target is a position in the fleet view, a"
                f" Python int from 0 to {len(fleet) - 1}",
            )
            require(
                isinstance(reason, str) and reason,
                f"route() gave the reason {reason!r} {where}; say in a few words why",
            )
            require(
                scores is None or (np.shape(scores) == (len(fleet),) and np.isfinite(scores).all()),
                f"route() returned the scores {scores} {where}; give one finite score per"
                " instance, or None",
            )

    def test_same_seed_gives_same_targets(self) -> None:
        """Ties are drawn from the stream of the setup, nothing else is random."""
        one, other = self.policy(), self.policy()
        for request, fleet in self.questions():
            require_same(
                one.route(request, fleet).target,
                other.route(request, fleet).target,
                f"two policies with the same seed chose differently for {request}"
                f" ({UNPREDICTABLE})",
            )

    def test_reads_the_fleet_only_if_it_says_so(self) -> None:
        """``reads_fleet = False``: the choice depends on the sequence of requests only."""
        one, other = self.policy(), self.policy()
        if one.reads_fleet:
            return
        for request, fleet in self.questions():
            require_same(
                one.route(request, fleet).target,
                other.route(request, _otherwise(fleet)).target,
                "reads_fleet is False, but the choice depends on the state of the fleet, which is"
                " then not kept up to date",
            )


class AdmissionPolicyTests(Asking):
    """Subclass it and define ``make``.

    Answers are None or a reason, and repeatable; an empty fleet is no problem; fleet and request
    stay as they are; the cost does not grow with the tokens of the prompt, nor with the number of
    decisions.
    """

    what = "admit()"

    def make(self, setup: AdmissionSetup) -> AdmissionPolicy:
        """A new policy."""
        raise NotImplementedError("define make(self, setup), which returns a new admission policy")

    def setup(self) -> AdmissionSetup:
        """What the policy is built from. Override it to have others than the default figures."""
        return AdmissionSetup()

    def new(self) -> Ask:
        """A new policy as a function; a request is asked about when it arrives."""
        policy = self.make(self.setup())
        return lambda request, fleet: policy.admit(request, fleet, request.arrival)

    # ---------------------------------------------------------------------------------- laws

    def test_answers_none_or_a_reason(self) -> None:
        """None = admitted; True and False would mean the opposite of what they seem to."""
        ask = self.new()
        for request, fleet in self.questions():
            answer = ask(request, fleet)
            require(
                answer is None or (isinstance(answer, str) and answer),
                f"admit() returned {answer!r} for {request}; return None to admit it, or say why"
                " it is turned away",
            )

    def test_same_questions_get_same_answers(self) -> None:
        """Two policies of the same kind, asked the same at the same times, agree."""
        one, other = self.new(), self.new()
        for request, fleet in self.questions():
            require_same(
                one(request, fleet),
                other(request, fleet),
                f"two new policies, asked the same, differ for {request} ({UNPREDICTABLE})",
            )

    def test_copes_with_an_empty_fleet(self) -> None:
        """That is what a request sees for whose model there is no instance."""
        ask, nobody = self.new(), FixedFleet(0)
        for request in self.requests():
            try:
                ask(request, nobody)
            except (ArithmeticError, LookupError, ValueError) as error:
                require(
                    False,
                    f"admit() fails if the fleet is empty ({type(error).__name__}: {error}): a"
                    " request may name a model that no instance serves. Look at len(fleet) first",
                )

    def test_reads_the_fleet_only_if_it_says_so(self) -> None:
        """``reads_fleet = False``: the answer depends on requests and times only."""
        one, other = self.make(self.setup()), self.make(self.setup())
        if one.reads_fleet:
            return
        for request, fleet in self.questions():
            now = request.arrival
            require_same(
                one.admit(request, fleet, now),
                other.admit(request, _otherwise(fleet), now),
                "reads_fleet is False, but the answer depends on the state of the fleet, which is"
                " then not kept up to date",
            )
