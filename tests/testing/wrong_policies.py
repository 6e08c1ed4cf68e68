"""Scorers, policies and schedulers with one mistake each."""

from __future__ import annotations

import random

import numpy as np

from blis_core.api import (
    AdmissionPolicy,
    PDDecider,
    RoutingDecision,
    RoutingPolicy,
    Scheduler,
    Scorer,
)
from blis_core.testing import (
    AdmissionPolicyTests,
    PDDeciderTests,
    RoutingPolicyTests,
    SchedulerTests,
    ScorerTests,
)


def scorer(score, law, message, reads_cache=True):
    """A case: a scorer with this method, the law that it breaks, and what is said of it."""
    made = type("Wrong", (Scorer,), {"score": score, "reads_cache": reads_cache})
    kit = type("Kit", (ScorerTests,), {"make": lambda self: made()})
    return kit, law, message


def routing(route, law, message, **attributes):
    made = type("Wrong", (RoutingPolicy,), {"route": route, **attributes})
    kit = type("Kit", (RoutingPolicyTests,), {"make": lambda self, setup: made()})
    return kit, law, message


def admission(admit, law, message, **attributes):
    made = type("Wrong", (AdmissionPolicy,), {"admit": admit, **attributes})
    kit = type("Kit", (AdmissionPolicyTests,), {"make": lambda self, setup: made()})
    return kit, law, message


def decider(disaggregates, law, message, **attributes):
    made = type("Wrong", (PDDecider,), {"disaggregates": disaggregates, **attributes})
    kit = type("Kit", (PDDeciderTests,), {"make": lambda self, setup: made()})
    return kit, law, message


def scheduler(key, law, message, **attributes):
    made = type("Wrong", (Scheduler,), {"key": key, **attributes})
    kit = type("Kit", (SchedulerTests,), {"make": lambda self, priority: made(priority)})
    return kit, law, message


def ones(fleet):
    return np.ones(len(fleet))


def writes(self, request, fleet):
    fleet.queue_depth.sort()
    return ones(fleet)


def rebinds(self, request, fleet):
    fleet.in_flight = fleet.in_flight + 1
    return ones(fleet)


def marks(self, request, fleet):
    request.priority += 1
    return ones(fleet)


def per_token(self, request, fleet):
    return ones(fleet) * (sum(1 for _ in range(request.prompt_len)) % 2)


def token_array(self, request, fleet):
    return ones(fleet) * (np.arange(request.prompt_len).sum() % 2)


def all_pairs(self, request, fleet):
    return np.array([sum(q < other for other in fleet.queue_depth) for q in fleet.queue_depth]) / (
        len(fleet)
    )


def remembers(self, request, fleet):
    seen = self.__dict__.setdefault("seen", [])
    seen.append(request.id)
    return ones(fleet) * (sum(name == request.id for name in seen) > 1)


SCORERS = [
    scorer(
        lambda self, request, fleet: 1 - fleet.queue_depth / fleet.queue_depth.max(),
        "gives_each_instance_a_finite_score_from_0_to_1",
        "score() returned [nan] for",
    ),
    scorer(
        lambda self, request, fleet: fleet.queue_depth / 10,
        "gives_each_instance_a_finite_score_from_0_to_1",
        "scores lie in [0, 1], so that weights mean what they say",
    ),
    scorer(
        lambda self, request, fleet: fleet.kv_utilization[:1],
        "gives_each_instance_a_finite_score_from_0_to_1",
        "score() returned an array of shape (1,) for Request('request_1'",
    ),
    scorer(
        lambda self, request, fleet: list(fleet.ids),
        "gives_each_instance_a_finite_score_from_0_to_1",
        "return numbers",
    ),
    scorer(
        lambda self, request, fleet: [random.random() for _ in fleet.ids],
        "same_questions_get_same_answers",
        "two new scorers, asked the same, differ for Request('request_0'",
    ),
    scorer(writes, "leaves_fleet_and_request_as_they_are", "score() changes an array of the fleet"),
    scorer(rebinds, "leaves_fleet_and_request_as_they_are", "score() changes fleet.in_flight"),
    scorer(marks, "leaves_fleet_and_request_as_they_are", "score() changes request.priority"),
    scorer(
        lambda self, request, fleet: ones(fleet) / request.output_len,
        "reads_nothing_that_no_server_knows",
        "score() reads request.output_len: no server knows",
    ),
    scorer(
        lambda self, request, fleet: ones(fleet) * (request.tokens[0] % 2),
        "reads_nothing_that_no_server_knows",
        "fleet.prompt_keys(request) has one key for each full block",
    ),
    scorer(
        lambda self, request, fleet: fleet.cached_blocks(request) > 0,
        "asks_for_caches_only_if_it_says_so",
        "although Wrong.reads_cache is False",
        reads_cache=False,
    ),
    scorer(per_token, "cost_does_not_grow_with_the_prompt", "its cost grows with the tokens"),
    scorer(token_array, "cost_does_not_grow_with_the_prompt", "its cost grows with the tokens"),
    scorer(all_pairs, "cost_grows_no_faster_than_the_fleet", "grows faster than the fleet"),
    scorer(remembers, "cost_does_not_grow_with_history", "bound what it remembers"),
]


def first(fleet, target=0, reason="because", scores=None):
    return RoutingDecision(target, reason, scores)


def route_by_chance(self, request, fleet):
    return first(fleet, random.randrange(len(fleet)))


def route_and(effect):
    """Do something wrong, then choose the first."""

    def route(self, request, fleet):
        effect(self, request, fleet)
        return first(fleet)

    return route


ROUTING = [
    routing(lambda s, r, f: 0, "chooses_an_instance_and_says_why", "return a RoutingDecision"),
    routing(lambda s, r, f: first(f, len(f)), "chooses_an_instance_and_says_why", "from 0 to 0"),
    routing(
        lambda s, r, f: first(f, f.load.argmin()), "chooses_an_instance_and_says_why", "Python int"
    ),
    routing(
        lambda s, r, f: first(f, reason=""), "chooses_an_instance_and_says_why", "say in a few"
    ),
    routing(
        lambda s, r, f: first(f, scores=f.load / f.load.max()),
        "chooses_an_instance_and_says_why",
        "one finite score per instance",
    ),
    routing(route_by_chance, "same_seed_gives_same_targets", "chose differently"),
    routing(
        lambda s, r, f: first(f, int(f.load.argmin())),
        "reads_the_fleet_only_if_it_says_so",
        "reads_fleet is False",
        reads_fleet=False,
    ),
    routing(route_and(writes), "leaves_fleet_and_request_as_they_are", "route() changes an array"),
    routing(
        route_and(lambda s, r, f: r.output_len), "reads_nothing_that_no_server_knows", "output_len"
    ),
    routing(route_and(per_token), "cost_does_not_grow_with_the_prompt", "grows with the tokens"),
    routing(route_and(all_pairs), "cost_grows_no_faster_than_the_fleet", "faster than the fleet"),
    routing(route_and(remembers), "cost_does_not_grow_with_history", "bound what it remembers"),
]


def admit_by_chance(self, request, fleet, now):
    return random.choice([None, "no"])


def admit_and(effect):
    """Do something wrong, then admit."""

    def admit(self, request, fleet, now):
        effect(self, request, fleet)

    return admit


ADMISSION = [
    admission(lambda s, r, f, now: True, "answers_none_or_a_reason", "return None to admit it"),
    admission(lambda s, r, f, now: "", "answers_none_or_a_reason", "say why it is turned away"),
    admission(admit_by_chance, "same_questions_get_same_answers", "asked the same, differ"),
    admission(
        lambda s, r, f, now: "busy" if f.load.max() > 9 else None,
        "copes_with_an_empty_fleet",
        "Look at len(fleet) first",
    ),
    admission(
        lambda s, r, f, now: "busy" if f.load.sum() > 9 else None,
        "reads_the_fleet_only_if_it_says_so",
        "reads_fleet is False",
        reads_fleet=False,
    ),
    admission(admit_and(marks), "leaves_fleet_and_request_as_they_are", "changes request.priority"),
    admission(
        admit_and(lambda s, r, f: r.output_len), "reads_nothing_that_no_server_knows", "output_len"
    ),
    admission(admit_and(per_token), "cost_does_not_grow_with_the_prompt", "grows with the tokens"),
    admission(admit_and(all_pairs), "cost_grows_no_faster_than_the_fleet", "faster than the fleet"),
    admission(admit_and(remembers), "cost_does_not_grow_with_history", "bound what it remembers"),
]


def decide_and(effect):
    """Do something wrong, then leave the request in one piece."""

    def disaggregates(self, request, fleet):
        effect(self, request, fleet)
        return False

    return disaggregates


def every_other(self, request, fleet):
    self.__dict__["asked"] = self.__dict__.get("asked", 0) + 1
    return self.__dict__["asked"] % 2 == 1


DECIDERS = [
    decider(lambda s, r, f: r.prompt_len, "answers_true_or_false", "return True to prefill it"),
    decider(lambda s, r, f: np.bool_(r.prompt_len > 9), "answers_true_or_false", "return True to"),
    decider(
        lambda s, r, f: random.random() < 0.5, "same_questions_get_same_answers", "asked the same"
    ),
    decider(every_other, "learns_from_routing_only", "learn from routed()"),
    decider(decide_and(marks), "leaves_fleet_and_request_as_they_are", "changes request.priority"),
    decider(
        decide_and(lambda s, r, f: r.output_len), "reads_nothing_that_no_server_knows", "output_len"
    ),
    decider(decide_and(per_token), "cost_does_not_grow_with_the_prompt", "grows with the tokens"),
    decider(decide_and(all_pairs), "cost_grows_no_faster_than_the_fleet", "faster than the fleet"),
    decider(decide_and(remembers), "cost_does_not_grow_with_history", "bound what it remembers"),
]


class Circle:
    """Rock, paper, scissors: comparable, but without an order."""

    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        return (other.number - self.number) % 5 in (1, 2)


class Turn:
    def __init__(self):
        self.count = 0

    def __call__(self, request):
        self.count += 1
        return self.count, request.id


def turns(self, request):
    return self.__dict__.setdefault("turn", Turn())(request)


def touches(self, request):
    request.priority = 5.0
    return request.id


SCHEDULERS = [
    scheduler(lambda s, r: r.arrival, "keys_are_unique", "End the key with request.arrival"),
    scheduler(
        lambda s, r: r.id if r.prompt_len > 99 else r.arrival,
        "keys_are_comparable",
        "keys cannot be compared",
    ),
    scheduler(lambda s, r: complex_key(r), "keys_are_comparable", "keys have no order"),
    scheduler(lambda s, r: Circle(r.prompt_len), "keys_are_comparable", "have no"),
    scheduler(turns, "keys_stay_the_same_while_requests_wait", "the key must not change"),
    scheduler(
        lambda s, r: (id(s), r.id), "keys_stay_the_same_while_requests_wait", "two schedulers"
    ),
    scheduler(touches, "leaves_requests_as_they_are", "key() changes Request('request_0'"),
    scheduler(
        lambda s, r: (r.output_len, r.id), "leaves_requests_as_they_are", "reads request.output_len"
    ),
    scheduler(
        lambda s, r: (len(list(range(r.prompt_len))), r.id),
        "cost_does_not_grow_with_the_prompt",
        "its cost grows with the prompt",
    ),
]


def complex_key(request):
    return frozenset([request.id])


CASES = [*SCORERS, *ROUTING, *ADMISSION, *DECIDERS, *SCHEDULERS]
