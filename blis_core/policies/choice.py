"""The policies of a simulation: options that are given, else the policy file, else defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from blis_core import log
from blis_core.cluster.admission import (
    DEFAULT_GAIE_KV_THRESHOLD,
    DEFAULT_GAIE_QD_THRESHOLD,
    AdmissionSetup,
)
from blis_core.cluster.slo import SloPriorities
from blis_core.config import (
    DEFAULT_ADMISSION_POLICY,
    DEFAULT_PRIORITY_POLICY,
    DEFAULT_ROUTING_POLICY,
    DEFAULT_SCHEDULER,
    DEFAULT_TOKEN_BUCKET_CAPACITY,
    DEFAULT_TOKEN_BUCKET_REFILL_RATE,
    RunConfig,
    SimulationConfig,
)
from blis_core.contracts import AdmissionPolicy, PriorityPolicy, Scheduler
from blis_core.engine.schedulers import PRIORITY_POLICIES
from blis_core.errors import BlisError, did_you_mean
from blis_core.option import finite_positive
from blis_core.plugins import get_registry
from blis_core.policies.scorers import DEFAULT_SCORERS, WeightedNames, parse_scorers
from blis_core.records import Record
from blis_core.registry import Kind

if TYPE_CHECKING:
    from blis_core.policies.bundle import AdmissionSection, PolicyBundle, PoolsSection
    from blis_core.policies.fleet_plan import FleetPlan

TIER_SHED_MIN_PRIORITY_OF_FILE = 3


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Policies(Record):
    """What was chosen. Names are those of registered extensions."""

    admission: str = DEFAULT_ADMISSION_POLICY
    admission_setup: AdmissionSetup = attrs.field(factory=AdmissionSetup)
    routing: str = DEFAULT_ROUTING_POLICY
    scorers: WeightedNames = ()
    """Empty unless the routing policy is ``weighted``."""
    priority: PriorityPolicy = PRIORITY_POLICIES[DEFAULT_PRIORITY_POLICY]
    scheduler: str = DEFAULT_SCHEDULER
    decider: str = "never"
    """Which requests are disaggregated, if there are pools."""
    prefill_scorers: WeightedNames = ()
    """Of the prefill pool; empty = it shares the routing policy."""
    decode_scorers: WeightedNames = ()
    """Of the decode pool; empty = it shares the routing policy."""
    pools: PoolsSection | None = None
    """What a policy file says of the pools."""
    tenant_budgets: Mapping[str, float] | None = None
    """Share of all places by tenant, in [0, 1]; None = tenants are not counted."""
    fleet: FleetPlan | None = None
    """How the fleet changes; None = it does not."""

    @property
    def slo_priorities(self) -> SloPriorities:
        """What each SLO class is worth to admission and to the gateway."""
        return self.admission_setup.priorities

    def make_admission(self) -> AdmissionPolicy:
        """A new admission policy."""
        made: AdmissionPolicy = get_registry().create(
            "admission-policy", self.admission, self.admission_setup
        )
        return made

    def make_scheduler(self) -> Scheduler:
        """A new scheduler, for one instance."""
        made: Scheduler = get_registry().create("scheduler", self.scheduler, self.priority)
        return made


def resolve_policies(config: SimulationConfig, bundle: PolicyBundle | None = None) -> Policies:
    """Choose the policies. BlisError for a name or a figure that cannot be used.

    An option that is given as an empty text chooses the default, against the file too.
    """
    in_file = ("", "", "", "")
    if bundle is not None:
        in_file = (
            bundle.admission.policy,
            bundle.routing.policy,
            bundle.priority.policy,
            bundle.scheduler,
        )
    admission = _first(config.admission_policy, in_file[0], DEFAULT_ADMISSION_POLICY)
    routing = _first(config.routing_policy, in_file[1], DEFAULT_ROUTING_POLICY)
    priority = _first(config.priority_policy, in_file[2], DEFAULT_PRIORITY_POLICY)
    scheduler = _first(config.scheduler, in_file[3], DEFAULT_SCHEDULER)
    _check_registered("admission-policy", admission, "--admission-policy")
    _check_registered("routing-policy", routing, "--routing-policy")
    _check_registered("scheduler", scheduler, "--scheduler")
    pooled = isinstance(config, RunConfig)  # replay ignores the pools and their options
    if pooled:
        _check_registered("pd-decider", config.decider, "--pd-decider")
    return Policies(
        admission=admission,
        admission_setup=_admission_setup(
            config, None if bundle is None else bundle.admission, admission
        ),
        routing=routing,
        scorers=_scorers(config, bundle, routing),
        priority=_priority_policy(priority),
        scheduler=scheduler,
        decider=config.decider if pooled else "never",
        prefill_scorers=_pool_scorers(config, "prefill") if pooled else (),
        decode_scorers=_pool_scorers(config, "decode") if pooled else (),
        pools=None if bundle is None else bundle.pools,
        tenant_budgets=None if bundle is None else bundle.tenant_budgets,
        fleet=_fleet_plan(config, bundle),
    )


def _fleet_plan(config: SimulationConfig, bundle: PolicyBundle | None) -> FleetPlan | None:
    if bundle is None and (config.replays or config.model_autoscaler_interval_us is None):
        return None
    # the sections of a policy file take a while to load, and most runs have none
    from blis_core.policies.bundle import PolicyBundle
    from blis_core.policies.fleet_plan import make_fleet_plan

    return make_fleet_plan(config, bundle if bundle is not None else PolicyBundle())


def _first(given: str | None, in_file: str, default: str) -> str:
    if given is not None:
        return given or default
    return in_file or default


def _check_registered(kind: Kind, name: str, flag: str) -> None:
    """Names in the file were checked when it was read, so a wrong one is the option's."""
    try:
        get_registry().get(kind, name)
    except BlisError as problem:
        raise BlisError(f"{flag}: {problem}") from None


def _priority_policy(name: str) -> PriorityPolicy:
    try:
        return PRIORITY_POLICIES[name]
    except KeyError:
        raise BlisError(
            f"--priority-policy: unknown priority policy {name!r}"
            f"{did_you_mean(name, PRIORITY_POLICIES)} (available:"
            f" {', '.join(sorted(PRIORITY_POLICIES))})"
        ) from None


def _scorers(config: SimulationConfig, bundle: PolicyBundle | None, routing: str) -> WeightedNames:
    if routing != "weighted":
        if config.routing_scorers:  # reference quirk 06-18: it is not even parsed then
            log.warning(f"--routing-scorers has no effect with routing policy {routing}")
        return ()
    if config.routing_scorers:
        return parse_scorers(config.routing_scorers)
    entries = bundle.routing.scorers if bundle is not None else ()
    listed = tuple((entry.name, entry.weight) for entry in entries)
    return listed or DEFAULT_SCORERS


def _pool_scorers(config: SimulationConfig, pool: str) -> WeightedNames:
    """Scorers of a pool; looked at even if there is no such pool."""
    text: str = getattr(config, f"{pool}_routing_scorers")
    return parse_scorers(text, f"--{pool}-routing-scorers") if text else ()


def _admission_setup(
    config: SimulationConfig, section: AdmissionSection | None, policy: str
) -> AdmissionSetup:
    def in_file(name: str) -> Any:
        return None if section is None else getattr(section, name)

    capacity = _figure(
        config.token_bucket_capacity,
        in_file("token_bucket_capacity"),
        DEFAULT_TOKEN_BUCKET_CAPACITY,
    )
    rate = _figure(
        config.token_bucket_refill_rate,
        in_file("token_bucket_refill_rate"),
        DEFAULT_TOKEN_BUCKET_REFILL_RATE,
    )
    if policy == "token-bucket":
        for name, value in (("capacity", capacity), ("refill-rate", rate)):
            if not finite_positive(value):
                raise BlisError(
                    f"--token-bucket-{name}: must be finite and greater than 0, got {value:g}"
                )
    return AdmissionSetup(
        token_bucket_capacity=capacity,
        token_bucket_refill_rate=rate,
        tier_shed_threshold=in_file("tier_shed_threshold") or 0,
        tier_shed_min_priority=_tier_shed_min_priority(section),
        gaie_qd_threshold=_figure(None, in_file("gaie_qd_threshold"), DEFAULT_GAIE_QD_THRESHOLD),
        gaie_kv_threshold=_figure(None, in_file("gaie_kv_threshold"), DEFAULT_GAIE_KV_THRESHOLD),
        priorities=SloPriorities(in_file("slo_priorities") or {}),
    )


def _figure(given: float | None, in_file: float | None, default: float) -> float:
    if given is not None:
        return given
    return default if in_file is None else in_file


def _tier_shed_min_priority(section: AdmissionSection | None) -> int:
    """Reference quirk 06-19: the default depends on whether the file names the policy."""
    if section is None:
        return 0
    if section.tier_shed_min_priority is not None:
        return section.tier_shed_min_priority
    return TIER_SHED_MIN_PRIORITY_OF_FILE if section.policy == "tier-shed" else 0
