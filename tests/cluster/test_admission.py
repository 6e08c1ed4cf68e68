"""Admission policies, class priorities, tenant budgets and saturation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.cluster.admission import (
    AdmissionSetup,
    AlwaysAdmit,
    GaieLegacy,
    RejectAll,
    TierShed,
    TokenBucket,
)
from blis_core.cluster.saturation import make_detector
from blis_core.cluster.slo import DEFAULT_PRIORITIES, SloPriorities
from blis_core.cluster.tenants import TenantBudgets
from blis_core.contracts import AdmissionPolicy
from blis_core.plugins import get_registry
from tests.cluster.fleets import FixedFleet, loaded, request

NOBODY = FixedFleet()
CLASSES = st.sampled_from([*DEFAULT_PRIORITIES, "", "gold", "Standard"])


class Untouchable(FixedFleet):
    """A fleet whose load must not be read."""

    @property
    def load(self) -> Any:  # type: ignore[override]
        raise AssertionError("read")


# ------------------------------------------------------------------------------------- policies


def test_the_built_in_policies_are_registered() -> None:
    registry = get_registry()
    made = {name: registry.create("admission-policy", name, AdmissionSetup()) for name in POLICIES}
    assert {name: type(policy) for name, policy in made.items()} == POLICIES


POLICIES: dict[str, type[AdmissionPolicy]] = {
    "always-admit": AlwaysAdmit,
    "reject-all": RejectAll,
    "token-bucket": TokenBucket,
    "tier-shed": TierShed,
    "gaie-legacy": GaieLegacy,
}


def test_simple_policies() -> None:
    assert AlwaysAdmit(AdmissionSetup()).admit(request(), NOBODY, 0) is None
    assert RejectAll(AdmissionSetup()).admit(request(), NOBODY, 0) == "reject-all"


def test_token_bucket_as_in_the_reference() -> None:
    setup = AdmissionSetup(token_bucket_capacity=300, token_bucket_refill_rate=2000)
    bucket = TokenBucket(setup)
    prompts = [62, 60, 72, 107, 76, 84, 76, 165, 101, 84, 95, 68]
    before, rejected = [], []
    for number, prompt in enumerate(prompts):
        now = 20_000 * (number + 1)
        bucket.admit(request(prompt=0), NOBODY, now)  # costs nothing, but refills
        before.append(bucket.tokens)
        if bucket.admit(request(prompt=prompt), NOBODY, now) == "insufficient tokens":
            rejected.append(number)
    assert before == [300, 278, 258, 226, 159, 123, 79, 43, 83, 123, 79, 119]
    assert rejected == [7, 8, 10]


@given(
    st.floats(0.1, 1e6),
    st.floats(0.001, 1e9),
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 2000))),
)
def test_token_bucket_stays_between_empty_and_full(
    capacity: float, rate: float, arrivals: list[tuple[int, int]]
) -> None:
    bucket = TokenBucket(
        AdmissionSetup(token_bucket_capacity=capacity, token_bucket_refill_rate=rate)
    )
    now, spent = 0, 0
    for gap, prompt in arrivals:
        now += gap
        if bucket.admit(request(prompt=prompt), NOBODY, now) is None:
            spent += prompt
        assert 0 <= bucket.tokens <= capacity
    assert spent <= (capacity + now * rate / 1e6) * (1 + 1e-9)


def test_tier_shed_as_in_the_reference() -> None:
    policy = TierShed(AdmissionSetup(tier_shed_threshold=4, tier_shed_min_priority=3))
    batch = request(slo_class="batch")
    assert policy.admit(batch, loaded(2, 6, 4), 90_076) == (
        "tier-shed: class=batch priority=-1 < min=3 load=6"
    )
    assert policy.admit(batch, loaded(2, 4, 4), 0) is None
    assert policy.admit(batch, NOBODY, 0) is None
    for name in ("critical", "standard", "", "gold"):
        assert policy.admit(request(slo_class=name), loaded(9), 0) is None


def test_tier_shed_counts_every_part_of_the_load() -> None:
    policy = TierShed(AdmissionSetup())
    reason = policy.admit(request(slo_class="background"), FixedFleet([2, 1, 3, 0.5]), 0)
    assert reason == "tier-shed: class=background priority=-3 < min=0 load=6"


def test_tier_shed_looks_only_where_it_matters() -> None:
    policy = TierShed(AdmissionSetup())
    fleet = Untouchable([0, 0, 9, 0.0])
    assert policy.admit(request(slo_class="standard"), fleet, 0) is None


def test_gaie_as_in_the_reference() -> None:
    policy = GaieLegacy(AdmissionSetup(gaie_qd_threshold=2, gaie_kv_threshold=0.5))
    full = FixedFleet([2, 1, 3, 0.006], [2, 1, 3, 0.0045], [3, 1, 4, 0.0085])
    assert policy.admit(request(slo_class="batch"), full, 155_289) == (
        "gaie-saturated: class=batch saturation=1.17"
    )
    assert policy.admit(request(slo_class="standard"), full, 155_289) is None
    half = FixedFleet([1, 1, 2, 0.0], [0, 1, 1, 0.499])
    assert policy.admit(request(slo_class="batch"), half, 0) is None
    memory = FixedFleet([0, 0, 0, 0.5])
    assert policy.admit(request(slo_class="batch"), memory, 0) == (
        "gaie-saturated: class=batch saturation=1.00"
    )


def test_gaie_without_instances_refuses_what_can_be_shed() -> None:
    policy = GaieLegacy(AdmissionSetup())
    assert policy.admit(request(slo_class="sheddable"), NOBODY, 0) == (
        "gaie-saturated: class=sheddable saturation=1.00"
    )
    assert policy.admit(request(), NOBODY, 0) is None


def test_gaie_follows_overridden_priorities() -> None:
    priorities = SloPriorities({"standard": -5, "batch": 7})
    policy = GaieLegacy(AdmissionSetup(gaie_qd_threshold=1, priorities=priorities))
    full = FixedFleet([4, 1, 5, 0.1])
    assert policy.admit(request(slo_class="batch"), full, 0) is None
    assert policy.admit(request(), full, 0) is None
    assert policy.admit(request(slo_class="standard"), full, 0) == (
        "gaie-saturated: class=standard saturation=4.00"
    )


# ------------------------------------------------------------------------------ class priorities


def test_default_priorities() -> None:
    priorities = SloPriorities()
    names = ["critical", "standard", "batch", "sheddable", "background", "", "gold"]
    assert [priorities.of(name) for name in names] == [4, 3, -1, -2, -3, 3, 3]
    assert [name for name in names if priorities.sheddable(name)] == [
        "batch",
        "sheddable",
        "background",
    ]


def test_an_override_reaches_only_what_is_spelled_like_it() -> None:
    priorities = SloPriorities({"standard": -1})
    assert priorities.of("standard") == -1
    assert priorities.of("") == priorities.of("Standard") == 3


@given(st.dictionaries(CLASSES, st.integers(-9, 9)), CLASSES)
def test_overrides_are_merged_over_the_defaults(overrides: dict[str, int], name: str) -> None:
    priorities = SloPriorities(overrides)
    assert priorities.of(name) == overrides.get(name, DEFAULT_PRIORITIES.get(name, 3))
    assert priorities.sheddable(name) == (priorities.of(name) < 0)
    assert DEFAULT_PRIORITIES["standard"] == 3  # the defaults themselves stay


# --------------------------------------------------------------------------------------- tenants


def budgets(**shares: float) -> TenantBudgets:
    return TenantBudgets(shares, instances=3, max_running=8, priorities=SloPriorities())


def test_tenant_budget_as_in_the_reference() -> None:
    tenants = budgets(A=0.1, B=0.1)  # 2.4 of 24 places
    batch = request(slo_class="batch", tenant="B")
    standard = request(slo_class="standard", tenant="A")
    for _ in range(2):
        tenants.routed(batch)
        tenants.routed(standard)
    assert not tenants.refuses(batch)
    tenants.routed(batch)
    tenants.routed(standard)
    assert tenants.refuses(batch)
    assert tenants.over("A")
    assert not tenants.refuses(standard)
    tenants.ended(batch)
    assert not tenants.refuses(batch)


def test_a_budget_must_be_exceeded() -> None:
    tenants = budgets(A=0.125)  # exactly 3 places
    batch = request(slo_class="batch", tenant="A")
    for _ in range(3):
        assert not tenants.refuses(batch)
        tenants.routed(batch)
    assert not tenants.refuses(batch)
    tenants.routed(batch)
    assert tenants.refuses(batch)


def test_who_has_no_budget_is_not_over_it() -> None:
    tenants = budgets(A=0.0)
    for name in ("", "B"):
        other = request(slo_class="batch", tenant=name)
        tenants.routed(other)
        assert not tenants.over(name)
    tenants.ended(request(tenant="C"))  # never routed: the count stays at 0
    tenants.routed(request(tenant="A"))
    assert tenants.over("A")


def test_a_cluster_has_at_least_one_place() -> None:
    tenants = TenantBudgets({"A": 1.0}, instances=0, max_running=8, priorities=SloPriorities())
    tenants.routed(request(tenant="A"))
    assert not tenants.over("A")


# ------------------------------------------------------------------------------------ saturation


def detector(name: str, **thresholds: Any) -> Any:
    given = {"queue_depth_threshold": 5.0, "kv_cache_util_threshold": 0.8, "max_concurrency": 100}
    return make_detector(name, **{**given, **thresholds})


def test_concurrency_as_in_the_reference() -> None:
    found = detector("concurrency", max_concurrency=2)
    assert found.saturation(loaded(2, 2, 2)) == 1.0
    assert found.saturation(loaded(1, 2, 2)) == 0.8333333333333334
    assert found.saturation(NOBODY) == 1.0


def test_utilization_takes_the_worse_ratio_of_each_instance() -> None:
    found = detector("utilization", queue_depth_threshold=4.0, kv_cache_util_threshold=0.5)
    assert found.saturation(FixedFleet([2, 9, 9, 0.1], [0, 0, 0, 0.75])) == (0.5 + 1.5) / 2
    assert found.saturation(NOBODY) == 1.0


@pytest.mark.parametrize("name", ["never", ""])
def test_never(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = detector(name)
    assert found.saturation(NOBODY) == found.saturation(loaded(10**6)) == 0.0
    assert not found.reads_fleet
    assert "--saturation-detector never" in capsys.readouterr().err
