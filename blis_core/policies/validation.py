"""What the figures of a policy file must satisfy, in the order in which faults are reported.

Policies are checked by name even if an option overrides them, and scorers even if the routing
policy has no use for them. Comparisons are written so that NaN fails.
"""

from __future__ import annotations

import math

from blis_core.cluster.lifecycle import DrainPolicy
from blis_core.engine.schedulers import PRIORITY_POLICIES
from blis_core.errors import BlisError
from blis_core.option import finite_positive
from blis_core.plugins import get_registry
from blis_core.policies.bundle import (
    AutoscalerSection,
    Delay,
    FleetEventSection,
    LifecycleSection,
    ModelSection,
    NodePool,
    PolicyBundle,
    PoolSection,
    ScorerEntry,
)
from blis_core.policies.scorers import check_scorer
from blis_core.registry import Kind

DEFAULT_SCALE_UP_THRESHOLD = 0.8
DEFAULT_SCALE_DOWN_BOUNDARY = 0.4


def check_bundle(bundle: PolicyBundle) -> None:
    """BlisError for the first fault, with the file and the path in it."""
    check = _Checker(bundle.source)
    _check_names(check, bundle)
    _check_admission(check, bundle)
    for tenant, share in (bundle.tenant_budgets or {}).items():
        check.that(0 <= share <= 1, f"tenant_budgets.{tenant}", "in [0, 1]", share)
    _check_scorers(check, bundle.routing.scorers)
    for name in ("prefill", "decode"):
        _check_pool(check, f"pools.{name}.", getattr(bundle.pools, name))
    _check_autoscaler(check, bundle.autoscaler)
    for index, pool in enumerate(bundle.node_pools):
        _check_node_pool(check, f"node_pools[{index}]", pool)
        earlier = [other.name for other in bundle.node_pools[:index]]
        rule = "another name than that of an earlier pool"
        check.that(pool.name not in earlier, f"node_pools[{index}].name", rule, pool.name)
    _check_lifecycle(check, bundle.instance_lifecycle)
    for index, model in enumerate(bundle.models):
        _check_model(check, f"models[{index}]", model, bundle.models[:index])
    for index, event in enumerate(bundle.fleet_events):
        _check_fleet_event(check, f"fleet_events[{index}]", event)
        if event.order_node:
            _check_order(check, index, bundle)


class _Checker:
    """Raises what is wrong with one file."""

    def __init__(self, source: str) -> None:
        self._source = source

    def fail(self, path: str, problem: object) -> BlisError:
        return BlisError(f"{self._source}: {path}: {problem}")

    def that(self, holds: bool, path: str, rule: str, value: object) -> None:
        if not holds:
            raise self.fail(path, f"must be {rule}, got {value!r}")

    def finite_not_negative(self, path: str, value: float | None) -> None:
        holds = value is None or (math.isfinite(value) and value >= 0)
        self.that(holds, path, "finite and at least 0", value)

    def finite_positive(self, path: str, value: float) -> None:
        self.that(finite_positive(value), path, "finite and greater than 0", value)

    def at_least(self, path: str, value: int, least: int) -> None:
        self.that(value >= least, path, f"at least {least}", value)

    def delay(self, path: str, delay: Delay) -> None:
        self.finite_not_negative(f"{path}.mean", delay.mean)
        self.finite_not_negative(f"{path}.stddev", delay.stddev)

    def registered(self, path: str, kind: Kind, name: str) -> None:
        """``name`` is that of an extension, or empty."""
        if name:
            try:
                get_registry().get(kind, name)
            except BlisError as problem:
                raise self.fail(path, problem) from None


def _check_names(check: _Checker, bundle: PolicyBundle) -> None:
    check.registered("admission.policy", "admission-policy", bundle.admission.policy)
    check.registered("routing.policy", "routing-policy", bundle.routing.policy)
    priority = bundle.priority.policy
    known = priority in PRIORITY_POLICIES or not priority
    rule = f"one of {', '.join(sorted(PRIORITY_POLICIES))}"
    check.that(known, "priority.policy", rule, priority)
    check.registered("scheduler", "scheduler", bundle.scheduler)


def _check_admission(check: _Checker, bundle: PolicyBundle) -> None:
    """Absent figures are right; those of the token bucket may be 0 while it is not in use."""
    section, at = bundle.admission, "admission."
    for name in ("token_bucket_capacity", "token_bucket_refill_rate"):
        check.finite_not_negative(at + name, getattr(section, name))
    if section.tier_shed_threshold is not None:
        check.at_least(at + "tier_shed_threshold", section.tier_shed_threshold, 0)
    if section.gaie_qd_threshold is not None:
        check.finite_positive(at + "gaie_qd_threshold", section.gaie_qd_threshold)
    share = section.gaie_kv_threshold
    check.that(share is None or 0 < share <= 1, at + "gaie_kv_threshold", "in (0, 1]", share)


def _check_scorers(check: _Checker, entries: tuple[ScorerEntry, ...]) -> None:
    for index, entry in enumerate(entries):
        try:
            before = [earlier.name for earlier in entries[:index]]
            check_scorer(entry.name, entry.weight, before)
        except BlisError as problem:
            raise check.fail(f"routing.scorers[{index}]", problem) from None


def _check_pool(check: _Checker, at: str, pool: PoolSection) -> None:
    check.that(pool.hardware != "", at + "hardware", "the name of a GPU", pool.hardware)
    known = pool.latency_model != ""
    check.that(known, at + "latency_model", "the name of a latency model", pool.latency_model)
    check.registered(at + "latency_model", "latency-model", pool.latency_model or "")
    for name, least in (("tp", 1), ("total_kv_blocks", 1), ("max_model_len", 0)):
        value = getattr(pool, name)
        if value is not None:
            check.at_least(at + name, value, least)


def _check_autoscaler(check: _Checker, section: AutoscalerSection) -> None:
    """Checked even if the interval says that there is no autoscaling."""
    at = "autoscaler."
    interval = section.interval_us
    check.finite_not_negative(at + "interval_us", interval)
    check.that(interval == 0 or interval >= 1, at + "interval_us", "0 or at least 1", interval)
    for name in ("scale_up_stabilization_window_us", "scale_down_stabilization_window_us"):
        check.finite_not_negative(at + name, getattr(section, name))
    check.delay(at + "hpa_scrape_delay", section.hpa_scrape_delay)
    analyzer, at = section.analyzer, "autoscaler.analyzer."
    share = analyzer.kv_cache_threshold
    check.that(0 <= share <= 1, at + "kv_cache_threshold", "in (0, 1], or 0 for the default", share)
    for name in ("scale_up_threshold", "scale_down_boundary", "avg_input_tokens"):
        value = getattr(analyzer, name)
        holds = value == 0 or finite_positive(value)
        check.that(holds, at + name, "finite and greater than 0, or 0 for the default", value)
    up = analyzer.scale_up_threshold or DEFAULT_SCALE_UP_THRESHOLD
    down = analyzer.scale_down_boundary or DEFAULT_SCALE_DOWN_BOUNDARY
    rule = f"less than scale_up_threshold ({up:g})"
    check.that(down < up, at + "scale_down_boundary", rule, down)
    check.registered("autoscaler.collector.name", "autoscaler-collector", section.collector.name)
    check.registered("autoscaler.analyzer.name", "autoscaler-analyzer", analyzer.name)
    check.registered("autoscaler.engine.name", "autoscaler-engine", section.engine.name)
    check.registered("autoscaler.actuator.name", "autoscaler-actuator", section.actuator.name)


def _check_node_pool(check: _Checker, path: str, pool: NodePool) -> None:
    for name in ("name", "gpu_type"):
        check.that(bool(getattr(pool, name)), f"{path}.{name}", "given", getattr(pool, name))
    check.at_least(f"{path}.gpus_per_node", pool.gpus_per_node, 1)
    check.finite_positive(f"{path}.gpu_memory_gib", pool.gpu_memory_gib)
    check.at_least(f"{path}.initial_nodes", pool.initial_nodes, 0)
    check.at_least(f"{path}.min_nodes", pool.min_nodes, 0)
    rule = f"at least initial_nodes ({pool.initial_nodes})"
    check.that(pool.max_nodes >= pool.initial_nodes, f"{path}.max_nodes", rule, pool.max_nodes)
    rule = f"at most max_nodes ({pool.max_nodes})"
    check.that(pool.min_nodes <= pool.max_nodes, f"{path}.min_nodes", rule, pool.min_nodes)
    check.delay(f"{path}.provisioning_delay", pool.provisioning_delay)
    check.finite_not_negative(f"{path}.cost_per_hour", pool.cost_per_hour)


def _check_drain_policy(check: _Checker, path: str, name: str) -> None:
    rule = f"one of {', '.join(policy.value for policy in DrainPolicy)}"
    check.that(not name or name in DrainPolicy.__members__, path, rule, name)


def _check_lifecycle(check: _Checker, section: LifecycleSection) -> None:
    at = "instance_lifecycle."
    check.delay(at + "loading_delay", section.loading_delay)
    check.at_least(at + "warm_up_requests", section.warm_up_requests, 0)
    factor = section.warm_up_ttft_factor
    holds = factor == 0 or (math.isfinite(factor) and factor >= 1)
    check.that(holds, at + "warm_up_ttft_factor", "finite and at least 1, or 0 for 1", factor)
    _check_drain_policy(check, at + "drain_policy", section.drain_policy)


def _check_model(
    check: _Checker, path: str, section: ModelSection, earlier: tuple[ModelSection, ...]
) -> None:
    check.that(bool(section.model), f"{path}.model", "given", section.model)
    names = [other.model.lower() for other in earlier]
    rule = "another model than an earlier entry"
    check.that(section.model.lower() not in names, f"{path}.model", rule, section.model)
    check.at_least(f"{path}.instances", section.instances, 1)
    for name in ("tp", "total_kv_blocks"):
        check.at_least(f"{path}.{name}", getattr(section, name), 0)
    if section.max_model_len is not None:
        check.at_least(f"{path}.max_model_len", section.max_model_len, 0)


def _check_fleet_event(check: _Checker, path: str, section: FleetEventSection) -> None:
    check.at_least(f"{path}.at_us", section.at_us, 0)
    given = [name for name in ("drain", "order_node", "drain_node") if getattr(section, name)]
    if len(given) != 1:
        raise check.fail(
            path,
            f"must have one of drain, order_node, drain_node, has {' and '.join(given) or 'none'}",
        )
    if section.policy and not section.drain:
        raise check.fail(f"{path}.policy", "belongs to drain only; remove it")
    _check_drain_policy(check, f"{path}.policy", section.policy)


def _check_order(check: _Checker, index: int, bundle: PolicyBundle) -> None:
    """A pool has at most ``max_nodes`` nodes; nodes that go do not make room for others."""
    name, path = bundle.fleet_events[index].order_node, f"fleet_events[{index}].order_node"
    pools = {pool.name: pool for pool in bundle.node_pools}
    known = ", ".join(pools) or "which this file has none of"
    check.that(name in pools, path, f"the name of a node pool ({known})", name)
    ordered = sum(event.order_node == name for event in bundle.fleet_events[: index + 1])
    most = pools[name].max_nodes
    if pools[name].initial_nodes + ordered > most:
        raise check.fail(path, f"pool {name} has at most {most} nodes; raise max_nodes")
