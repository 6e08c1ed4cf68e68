"""What the classes for scorers, policies and deciders have in common: asking, watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blis_core.contracts import FleetView, Request
from blis_core.testing.checks import Cost, arrays_read_only, cost, fail, require
from blis_core.testing.fleet import FixedFleet
from blis_core.testing.requests import (
    WatchedRequest,
    asked,
    make_request,
    make_requests,
    sample_fleets,
)

Ask = Callable[[Request, FleetView], Any]
"""Puts one question to a policy, and tells it the consequences."""

_ARRAYS = ("ids", "queue_depth", "running", "in_flight", "kv_utilization", "free_blocks")
_BLOCKS = 6  # of the prompts whose costs are compared


class Asking:
    """What scorers, routing policies, admission policies and deciders have in common.

    All of them are asked about a request and a fleet. These are the questions, and the laws that do
    not depend on the kind of answer; subclass the class of your kind instead.
    """

    what = "the policy"
    """Names the call in messages."""

    def new(self) -> Ask:
        """A new policy, as the function that asks it."""
        raise NotImplementedError

    def fleets(self) -> Sequence[FixedFleet]:
        """Fleets to ask about. Override it if the policy needs others."""
        return sample_fleets()

    def requests(self) -> Sequence[Request]:
        """Requests to ask about, in order of arrival. Override it if the policy needs others."""
        return make_requests(40)

    def questions(self) -> list[tuple[Request, FixedFleet]]:
        """Each request with a fleet."""
        return asked(self.requests(), self.fleets())

    # ---------------------------------------------------------------------------------- laws

    def test_leaves_fleet_and_request_as_they_are(self) -> None:
        """Everybody reads the same arrays; a request belongs to the engine."""
        ask, what = self.new(), self.what
        for request, fleet in asked(make_requests(24, cls=WatchedRequest), self.fleets()):
            assert isinstance(request, WatchedRequest)
            facts = request.facts()
            before = {name: getattr(fleet, name) for name in _ARRAYS}
            values = {name: np.array(value) for name, value in before.items()}
            with arrays_read_only(what):
                ask(request, fleet)
            for name, value in before.items():
                require(
                    getattr(fleet, name) is value and np.array_equal(value, values[name]),
                    f"{what} changes fleet.{name}; all policies read the same view, so work on a"
                    " copy",
                )
            changed = [name for name, value in request.facts().items() if value != facts[name]]
            require(
                not changed,
                f"{what} changes request.{', request.'.join(changed)}; keep what you need to know"
                " in your own object",
            )

    def test_reads_nothing_that_no_server_knows(self) -> None:
        """The length of the answer is not known beforehand, and tokens may have been dropped."""
        ask, what = self.new(), self.what
        for request, fleet in asked(make_requests(24, cls=WatchedRequest), self.fleets()):
            assert isinstance(request, WatchedRequest)
            ask(request, fleet)
            require(
                "output_len" not in request.read,
                f"{what} reads request.output_len: no server knows the length of an answer before"
                " it has been generated (request.max_output is what the client allows)",
            )
            require(
                "tokens" not in request.read,
                f"{what} reads request.tokens, which may have been dropped, and whose cost grows"
                " with the prompt; fleet.prompt_keys(request) has one key for each full block",
            )

    def test_cost_does_not_grow_with_the_prompt(self) -> None:
        """Work per request or per block is fine, work per token is not."""
        short, long = (self._cost_of_prompt(16 * factor) for factor in (1, 1000))
        require(
            not long.exceeds(short),
            f"{self.what} takes {long} for a prompt a thousand times as long, of as many blocks,"
            f" instead of {short}: its cost grows with the tokens. Work with"
            " fleet.prompt_keys(request), one key for each full block",
        )

    def test_cost_grows_no_faster_than_the_fleet(self) -> None:
        """Vector operations, or at most a loop over the instances."""
        small, large = self._cost_of_fleet(10), self._cost_of_fleet(200)
        require(
            not large.exceeds(small, factor=20),
            f"{self.what} takes {large} for 200 instances and {small} for 10: its cost grows"
            " faster than the fleet. Use vector operations on the arrays of the fleet view",
        )

    def test_cost_does_not_grow_with_history(self) -> None:
        """The thousandth decision costs what the hundredth did."""
        ask = self.new()
        fleet = FixedFleet(8, queue_depth=range(8))
        costs: list[Cost] = []
        for number in (100, 900):
            for request in [make_request(96) for _ in range(number)]:
                ask(request, fleet)
            costs.append(self._cost(ask, make_request(96), fleet))
        early, late = costs
        require(
            not late.exceeds(early),
            f"{self.what} takes {late} after 1000 decisions instead of {early} after 100: bound"
            " what it remembers, or look it up instead of searching",
        )

    def _cost_of_prompt(self, block_size: int) -> Cost:
        ask = self.new()
        fleet = FixedFleet(8, queue_depth=range(8), cached_blocks=2, block_size=block_size)
        first = make_request(_BLOCKS * block_size)
        second = make_request(_BLOCKS * block_size, prefix_of=first, prefix_len=2 * block_size)
        self._prepared(ask, first, fleet)
        return self._cost(ask, second, fleet)

    def _cost_of_fleet(self, size: int) -> Cost:
        ask = self.new()
        fleet = FixedFleet(size, queue_depth=range(size), cached_blocks=2)
        for _ in range(3):
            self._prepared(ask, make_request(96), fleet)
        return self._cost(ask, make_request(96), fleet)

    def _prepared(self, ask: Ask, request: Request, fleet: FixedFleet) -> None:
        fleet.prompt_keys(request)
        ask(request, fleet)

    def _cost(self, ask: Ask, request: Request, fleet: FixedFleet) -> Cost:
        fleet.prompt_keys(request)
        return cost(lambda: ask(request, fleet))


def require_same(first: object, second: object, message: str) -> None:
    """Fail unless two answers are equal, arrays bit by bit."""
    __tracebackhide__ = True
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        same = np.array_equal(np.asarray(first), np.asarray(second))
    else:
        same = first == second
    if not same:
        fail(f"{message}: {first} and {second}")
