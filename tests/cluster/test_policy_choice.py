"""Options, policy file, defaults: who wins."""

from __future__ import annotations

from typing import Any

import pytest

from blis_core.cluster.admission import AdmissionSetup, TierShed
from blis_core.config import RunConfig
from blis_core.engine.schedulers import ShortestJobFirst
from blis_core.errors import BlisError
from blis_core.policies.bundle import PolicyBundle
from blis_core.policies.choice import Policies, resolve_policies
from blis_core.policies.scorers import DEFAULT_SCORERS, make_scorers, parse_scorers
from blis_core.structuring import load_yaml, structure


def choose(text: str = "", **options: Any) -> Policies:
    bundle = structure(load_yaml(text, "p.yaml"), PolicyBundle, "p.yaml") if text else None
    return resolve_policies(RunConfig(model="acme/small", **options), bundle)


def test_defaults() -> None:
    chosen = choose()
    assert chosen == Policies(admission_setup=chosen.admission_setup)
    assert (chosen.admission, chosen.routing) == ("always-admit", "round-robin")
    assert (chosen.priority.name, chosen.scheduler) == ("constant", "fcfs")
    assert chosen.tenant_budgets is None
    setup = chosen.admission_setup
    assert (setup.token_bucket_capacity, setup.token_bucket_refill_rate) == (10_000, 1000)
    assert (setup.tier_shed_threshold, setup.tier_shed_min_priority) == (0, 0)
    assert (setup.gaie_qd_threshold, setup.gaie_kv_threshold) == (5, 0.8)


FILE = """\
admission: {policy: token-bucket, token_bucket_capacity: 5, token_bucket_refill_rate: 7}
routing: {policy: always-busiest}
priority: {policy: slo-based}
scheduler: sjf
tenant_budgets: {t: 0.5}
"""


def test_the_file_wins_over_defaults() -> None:
    chosen = choose(FILE)
    assert (chosen.admission, chosen.routing) == ("token-bucket", "always-busiest")
    assert (chosen.priority.name, chosen.scheduler) == ("slo-based", "sjf")
    assert chosen.tenant_budgets == {"t": 0.5}
    setup = chosen.admission_setup
    assert (setup.token_bucket_capacity, setup.token_bucket_refill_rate) == (5, 7)
    assert isinstance(chosen.make_scheduler(), ShortestJobFirst)


def test_options_win_over_the_file() -> None:
    chosen = choose(
        FILE,
        admission_policy="reject-all",
        routing_policy="least-loaded",
        priority_policy="inverted-slo",
        scheduler="priority-fcfs",
        token_bucket_capacity=1.5,
    )
    assert (chosen.admission, chosen.routing) == ("reject-all", "least-loaded")
    assert (chosen.priority.name, chosen.scheduler) == ("inverted-slo", "priority-fcfs")
    setup = chosen.admission_setup
    assert (setup.token_bucket_capacity, setup.token_bucket_refill_rate) == (1.5, 7)


def test_options_that_are_given_win_even_with_the_default_value() -> None:
    chosen = choose(FILE, admission_policy="always-admit", token_bucket_refill_rate=1000.0)
    assert chosen.admission == "always-admit"
    assert chosen.admission_setup.token_bucket_refill_rate == 1000


def test_an_empty_option_is_the_default_and_wins() -> None:
    chosen = choose(FILE, admission_policy="", routing_policy="", priority_policy="", scheduler="")
    assert (chosen.admission, chosen.routing) == ("always-admit", "round-robin")
    assert (chosen.priority.name, chosen.scheduler) == ("constant", "fcfs")


@pytest.mark.parametrize(
    ("text", "option", "minimum"),
    [
        ("admission: {policy: tier-shed}", None, 3),
        ("admission: {policy: tier-shed}", "tier-shed", 3),
        ("admission: {tier_shed_threshold: 2}", "tier-shed", 0),
        ("admission: {policy: tier-shed, tier_shed_min_priority: 0}", None, 0),
        ("admission: {tier_shed_min_priority: -2}", "tier-shed", -2),
    ],
)
def test_least_priority_of_tier_shed(text: str, option: str | None, minimum: int) -> None:
    chosen = choose(text, admission_policy=option)
    assert chosen.admission == "tier-shed"
    assert chosen.admission_setup.tier_shed_min_priority == minimum
    assert isinstance(chosen.make_admission(), TierShed)


def test_figures_that_only_the_file_has() -> None:
    chosen = choose(
        "admission: {tier_shed_threshold: 9, gaie_qd_threshold: 2, gaie_kv_threshold: 0.25,"
        " slo_priorities: {standard: -5, gold: 8}}"
    )
    setup: AdmissionSetup = chosen.admission_setup
    assert (setup.tier_shed_threshold, setup.gaie_qd_threshold) == (9, 2)
    assert setup.gaie_kv_threshold == 0.25
    priorities = chosen.slo_priorities
    assert [priorities.of(c) for c in ("standard", "gold", "critical", "")] == [-5, 8, 4, 3]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["capacity", "refill_rate"])
def test_the_token_bucket_needs_positive_figures(name: str, value: float) -> None:
    option = {f"token_bucket_{name}": value}
    with pytest.raises(BlisError, match=f"--token-bucket-{name.replace('_', '-')}: must be fin"):
        choose(admission_policy="token-bucket", **option)
    choose(**option)  # nobody uses it
    choose(FILE, admission_policy="reject-all", **option)
    if value == 0:
        with pytest.raises(BlisError, match="--token-bucket"):
            choose(f"admission: {{policy: token-bucket, token_bucket_{name}: 0}}")


# --------------------------------------------------------------------------------------- scorers


def test_scorers() -> None:
    listed = "routing: {policy: weighted, scorers: [{name: queue-depth, weight: 3}]}"
    assert choose(routing_policy="weighted").scorers == DEFAULT_SCORERS
    assert choose("routing: {policy: weighted}").scorers == DEFAULT_SCORERS
    assert choose(listed).scorers == (("queue-depth", 3),)
    assert choose(listed, routing_scorers="").scorers == (("queue-depth", 3),)
    given = choose(listed, routing_scorers=" load-balance : 1.5 , queue-depth:.5")
    assert given.scorers == (("load-balance", 1.5), ("queue-depth", 0.5))
    assert [weight for _, weight in make_scorers(given.scorers)] == [1.5, 0.5]


def test_scorers_of_other_policies_are_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert choose(routing_scorers="bad").scorers == ()
    assert "--routing-scorers has no effect" in capsys.readouterr().err
    assert choose("routing: {scorers: [{name: queue-depth, weight: 3}]}").scorers == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("queue-depth", "'queue-depth' is not of the form name:weight"),
        ("queue-depth:1,", "'' is not of the form name:weight"),
        (":1", "':1' is not of the form"),
        ("best:1", "unknown scorer 'best'"),
        ("queue-depth:1,queue-depth:2", "scorer 'queue-depth' is listed twice"),
        *(
            (f"queue-depth:{weight}", "the weight of queue-depth must be a finite number greater")
            for weight in ("", "x", "0", "-1", "nan", "inf", "1e999", "1:2")
        ),
    ],
)
def test_malformed_scorers(text: str, message: str) -> None:
    with pytest.raises(BlisError, match=f"^--routing-scorers: {message}"):
        parse_scorers(text)


# ----------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "admission_policy",
            "--admission-policy: unknown admission policy 'x' .available: always-admit",
        ),
        ("routing_policy", "--routing-policy: unknown routing policy 'x'"),
        ("priority_policy", "--priority-policy: unknown priority policy 'x' .available: constant"),
        ("scheduler", "--scheduler: unknown scheduler 'x'"),
    ],
)
def test_unknown_names(option: str, message: str) -> None:
    with pytest.raises(BlisError, match=message):
        choose(**{option: "x"})
