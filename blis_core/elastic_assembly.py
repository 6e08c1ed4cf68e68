"""Puts the changing part of a cluster together: nodes, life cycle, autoscaler, planned changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from blis_core import log
from blis_core.autoscaling.autoscaler import Autoscaler, Stages
from blis_core.autoscaling.stabilization import StabilizationGate
from blis_core.cluster.agenda import SCALE_ACTUATION
from blis_core.cluster.delays import NormalDelay
from blis_core.cluster.elastic import ElasticFleet, InstanceFactory
from blis_core.cluster.lifecycle import DrainPolicy, LifecycleSetup
from blis_core.cluster.nodes import NodePools, PoolSetup
from blis_core.cluster.simulation import Cluster
from blis_core.config import SimulationConfig
from blis_core.contracts_autoscaling import ScalingSetup, Variant
from blis_core.deployment import Deployment, resolve
from blis_core.engine.instance import Instance
from blis_core.errors import BlisError
from blis_core.plugins import get_registry
from blis_core.policies.bundle import (
    AnalyzerSection,
    Delay,
    FleetEventSection,
    LifecycleSection,
    NodePool,
    StageSection,
)
from blis_core.policies.fleet_plan import FleetPlan
from blis_core.registry import Kind
from blis_core.rng import PartitionedRandom

MakeInstance = Callable[[str, Deployment], Instance]
"""Makes an instance with this name as it is deployed."""


class DeployedInstances(InstanceFactory):
    """Instances of each model, and of each kind of GPU that has figures of its own."""

    def __init__(
        self,
        config: SimulationConfig,
        plan: FleetPlan,
        main: Deployment,
        make: MakeInstance,
        by_name: Mapping[str, Deployment],
    ) -> None:
        """Everything is resolved here, before the first event.

        ``by_name``: how some instances are deployed by name, whatever they are placed on.
        """
        self._make = make
        self._by_name = by_name
        self._by_model = {main.model: main}
        self._bound: dict[str, str] = {}
        configs = {main.model: config}
        for section in plan.models:
            model = section.model.lower()
            if model in self._by_model:
                raise BlisError(f"{plan.source}: models: {model} is that of --model already")
            configs[model] = own = attrs.evolve(
                config,
                model=model,
                model_config_folder="",
                hardware=section.hardware or config.hardware,
                tp=section.tp or config.tp,
                total_kv_blocks=section.total_kv_blocks or None,
                max_model_len=section.max_model_len,
            )
            self._by_model[model] = resolve(own)
            if section.hardware:
                self._bound[model] = section.hardware
        self._by_place: dict[tuple[str, str], Deployment] = {}
        for pool in plan.pools:
            for model, own in configs.items():
                if pool.apply_hardware and (model, pool.gpu_type) not in self._by_place:
                    self._by_place[model, pool.gpu_type] = _on_pool(own, pool, plan.source)

    def needs(self, model: str) -> Variant:
        """GPU if the model must run there, and degree."""
        deployment = self._by_model.get(model)
        if deployment is None:
            raise BlisError(
                f"model {model} is not deployed (deployed: {', '.join(self._by_model)})"
            )
        return Variant(self._bound.get(model, ""), max(1, deployment.tp))

    def label(self, model: str) -> str:
        """GPU without node pools."""
        return self._by_model[model].gpu

    def make(self, name: str, model: str, gpu: str) -> Instance:
        """A new instance; ``gpu`` matters only where the pool's hardware is to be applied."""
        deployment = self._by_name.get(name) or self._by_place.get((model, gpu))
        return self._make(name, deployment or self._by_model[model])


def _on_pool(config: SimulationConfig, pool: NodePool, source: str) -> Deployment:
    try:
        return resolve(
            attrs.evolve(config, hardware=pool.gpu_type), gpu_memory_gib=pool.gpu_memory_gib
        )
    except BlisError as problem:
        raise BlisError(f"{source}: apply_hardware of node pool {pool.name}: {problem}") from None


def build_elastic(
    plan: FleetPlan, cluster: Cluster, factory: InstanceFactory, random: PartitionedRandom
) -> ElasticFleet:
    """The fleet of ``plan``, without its instances."""
    pools = None
    if plan.pools:
        pools = NodePools(
            [
                PoolSetup(
                    name=pool.name,
                    gpu=pool.gpu_type,
                    gpus_per_node=pool.gpus_per_node,
                    initial_nodes=pool.initial_nodes,
                    provisioning_delay=_delay(pool.provisioning_delay),
                    cost_per_hour=pool.cost_per_hour,
                )
                for pool in plan.pools
            ]
        )
    return ElasticFleet(
        cluster, factory, random=random, pools=pools, setup=_lifecycle(plan.lifecycle)
    )


def build_autoscaler(
    plan: FleetPlan,
    fleet: ElasticFleet,
    random: PartitionedRandom,
    *,
    keep_ticks: bool = False,
) -> Autoscaler | None:
    """The autoscaler of ``plan`` with its stages; None if it is off."""
    section = plan.autoscaler
    if not section.interval_us:
        return None
    if not plan.pools:
        log.warning("the autoscaler can only take instances away: there are no node_pools")
    return Autoscaler(
        fleet,
        Stages(
            collector=_stage("autoscaler-collector", section.collector, "routable"),
            analyzer=_stage("autoscaler-analyzer", section.analyzer, "saturation"),
            engine=_stage("autoscaler-engine", section.engine, "unlimited"),
            actuator=_stage("autoscaler-actuator", section.actuator, "direct"),
        ),
        interval=section.interval_us,
        gate=StabilizationGate(
            section.scale_up_stabilization_window_us, section.scale_down_stabilization_window_us
        ),
        scrape_delay=_delay(section.hpa_scrape_delay),
        random=random,
        keep_ticks=keep_ticks,
    )


def _stage(kind: Kind, section: StageSection | AnalyzerSection, default: str) -> Any:
    """Figures of the analyzer that are 0 stand for the defaults."""
    figures = {}
    if isinstance(section, AnalyzerSection):
        names = ("kv_cache_threshold", "scale_up_threshold", "scale_down_boundary")
        for name in (*names, "avg_input_tokens"):
            if value := getattr(section, name):
                figures[name] = value
    setup = ScalingSetup(options=section.options, **figures)
    return get_registry().create(kind, section.name or default, setup)


def _delay(section: Delay) -> NormalDelay:
    return NormalDelay(mean=section.mean, stddev=section.stddev)


def _lifecycle(section: LifecycleSection) -> LifecycleSetup:
    return LifecycleSetup(
        loading_delay=_delay(section.loading_delay),
        warm_start=section.warm_start_initial_instances,
        warm_up_requests=section.warm_up_requests,
        warm_up_factor=section.warm_up_ttft_factor or 1.0,
        drain_policy=DrainPolicy[section.drain_policy] if section.drain_policy else None,
    )


def plan_events(plan: FleetPlan, fleet: ElasticFleet) -> None:
    """Put the planned changes of the fleet on the agenda."""

    def act(numbered: tuple[int, FleetEventSection], now: int) -> None:
        index, event = numbered
        fleet.now = now
        try:
            if event.drain and fleet.leaving(event.drain):
                log.warning(
                    f"{plan.source}: fleet_events[{index}]: {event.drain} was drained before"
                )
            elif event.drain:
                fleet.drain_with(event.drain, DrainPolicy[event.policy or "WAIT"])
            elif event.order_node:
                fleet.order_node(event.order_node)
            else:
                fleet.drain_node(event.drain_node)
        except BlisError as problem:
            raise BlisError(f"{plan.source}: fleet_events[{index}]: {problem}") from None

    for numbered in enumerate(plan.events):
        fleet.cluster.agenda.add(numbered[1].at_us, SCALE_ACTUATION, act, numbered)


def warn_of_labels(plan: FleetPlan, deployment: Deployment) -> None:
    """Reference quirk 07-Q12: GPU types of pools change labels and costs, nothing else."""
    others = sorted(
        {p.gpu_type for p in plan.pools if not p.apply_hardware and p.gpu_type != deployment.gpu}
    )
    if others:
        log.warning(
            f"{plan.source}: node_pools: {', '.join(others)} changes labels and costs only; step"
            f" times and KV blocks stay those of {deployment.gpu or 'the options'}"
            " (apply_hardware: true in the pool changes them too)"
        )


def check_pools(plan: FleetPlan, *, disaggregated: bool) -> None:
    """BlisError if requests in halves would have to leave an instance before their end, or could
    reach a pool of another model."""
    if disaggregated and plan.models:
        raise BlisError(
            f"{plan.source}: models does not go together with pools for prefill and decode, which"
            " are those of --model"
        )
    policies = {plan.lifecycle.drain_policy, *(event.policy for event in plan.events)} - {
        "",
        "WAIT",
    }
    if disaggregated and policies:
        raise BlisError(
            f"{plan.source}: drain policy {min(policies)} does not go together with pools for"
            " prefill and decode; use WAIT"
        )
