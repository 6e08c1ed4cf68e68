"""Puts a cluster together: instances, the fleet's view of them, policies, gateway, tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from blis_core import log
from blis_core.cluster.decisions import DecisionLog
from blis_core.cluster.fleet import Fleet
from blis_core.cluster.gateway import GatewayQueue
from blis_core.cluster.routing import RoutingSetup
from blis_core.cluster.saturation import make_detector
from blis_core.cluster.simulation import Cluster, Gateway
from blis_core.cluster.tenants import TenantBudgets
from blis_core.config import SimulationConfig
from blis_core.contracts import KVSetup, LatencyModel
from blis_core.deployment import Deployment
from blis_core.engine.instance import Instance
from blis_core.kv.chains import ChainTable
from blis_core.plugins import get_registry
from blis_core.policies.choice import Policies
from blis_core.policies.scorers import make_scorers
from blis_core.rng import PartitionedRandom

if TYPE_CHECKING:
    from blis_core.autoscaling.autoscaler import Autoscaler
    from blis_core.cluster.elastic import ElasticFleet


class Assembled(NamedTuple):
    """A cluster before its first event, and what changes its fleet."""

    cluster: Cluster
    fleet: ElasticFleet | None = None
    """None: the fleet is fixed."""
    autoscaler: Autoscaler | None = None


class InstanceMaker:
    """Makes instances, which share latency models and the table of chains."""

    def __init__(
        self, config: SimulationConfig, policies: Policies, chains: ChainTable, horizon: int
    ) -> None:
        self._config = config
        self._policies = policies
        self._chains = chains
        self._horizon = horizon
        self._shared: dict[int, tuple[LatencyModel, str, KVSetup]] = {}

    def __call__(self, name: str, deployment: Deployment) -> Instance:
        """A new instance; ``deployment`` must outlive the maker."""
        shared = self._shared.get(id(deployment))
        if shared is None:
            store = _kv_store(self._config, deployment)
            shared = self._shared[id(deployment)] = (deployment.latency_model(), *store)
        latency, store_name, store_setup = shared
        return Instance(
            name,
            latency=latency,
            store=get_registry().create("kv-store", store_name, store_setup),
            chains=self._chains,
            scheduler=self._policies.make_scheduler(),
            limits=deployment.limits,
            horizon=self._horizon,
        )


def build_cluster(
    config: SimulationConfig,
    deployment: Deployment,
    policies: Policies,
    horizon: int,
    seed: int,
    *,
    keep_decisions: bool = False,
) -> Cluster:
    """The cluster that ``config`` describes, before its first event; see ``assemble``."""
    return assemble(
        config, deployment, policies, horizon, seed, keep_decisions=keep_decisions
    ).cluster


def assemble(
    config: SimulationConfig,
    deployment: Deployment,
    policies: Policies,
    horizon: int,
    seed: int,
    *,
    keep_decisions: bool = False,
) -> Assembled:
    """The cluster that ``config`` describes, before its first event, with what changes it.

    ``horizon`` in us; ``seed`` is that of the router's ties, never a workload file's.
    ``keep_decisions``: single records as well as totals, if decisions are traced at all.
    """
    registry = get_registry()
    scorers = make_scorers(policies.scorers)
    delay = config.cache_signal_delay
    cache_read = any(scorer.reads_cache for scorer, _ in scorers)
    chains = ChainTable(deployment.block_size)
    make = InstanceMaker(config, policies, chains, horizon)
    plan = policies.fleet
    instances = []
    if plan is None:
        instances = [make(f"instance_{i}", deployment) for i in range(config.num_instances)]
    random = PartitionedRandom(seed)
    routing = registry.create(
        "routing-policy",
        policies.routing,
        RoutingSetup(random=random.stream("router"), scorers=scorers),
    )
    tenants = None
    if policies.tenant_budgets is not None:
        tenants = TenantBudgets(
            policies.tenant_budgets,
            instances=num_instances(config, policies),
            max_running=config.max_num_running_reqs,
            priorities=policies.slo_priorities,
        )
    decisions = None
    if config.trace_level == "decisions":
        decisions = DecisionLog(
            counterfactual_k=config.counterfactual_k, keep_records=keep_decisions
        )
    cluster = Cluster(
        Fleet(
            instances,
            chains,
            refresh_interval=config.snapshot_refresh_interval,
            cache_delay=delay,
            cache_read=cache_read,
        ),
        policies.make_admission(),
        routing,
        model=deployment.model,
        horizon=horizon,
        admission_latency=config.admission_latency,
        routing_latency=config.routing_latency,
        gateway=_gateway(config, policies),
        tenants=tenants,
        log=decisions,
    )
    if plan is None:
        return Assembled(cluster)
    from blis_core import elastic_assembly as elastic

    elastic.warn_of_labels(plan, deployment)
    factory = elastic.DeployedInstances(config, plan, deployment, make)
    fleet = elastic.build_elastic(plan, cluster, factory, random)
    models = [deployment.model] * config.num_instances
    for section in plan.models:
        models += [section.model.lower()] * section.instances
    fleet.start([(f"instance_{i}", model) for i, model in enumerate(models)])
    autoscaler = elastic.build_autoscaler(plan, fleet, random, horizon, keep_ticks=keep_decisions)
    if autoscaler is not None:
        autoscaler.start()
    elastic.plan_events(plan, fleet)
    return Assembled(cluster, fleet, autoscaler)


def num_instances(config: SimulationConfig, policies: Policies) -> int:
    """Instances that were asked for, of all models."""
    models = policies.fleet.models if policies.fleet is not None else ()
    return config.num_instances + sum(section.instances for section in models)


def _gateway(config: SimulationConfig, policies: Policies) -> Gateway | None:
    if not config.flow_control:
        return None
    return Gateway(
        GatewayQueue(
            policies.slo_priorities,
            order=config.dispatch_order,
            limit=config.max_gateway_queue_depth,
        ),
        make_detector(
            config.saturation_detector,
            queue_depth_threshold=config.queue_depth_threshold,
            kv_cache_util_threshold=config.kv_cache_util_threshold,
            max_concurrency=config.max_concurrency,
        ),
    )


def _kv_store(config: SimulationConfig, deployment: Deployment) -> tuple[str, KVSetup]:
    """Name of the KV store (by default ``tiered`` iff there are CPU blocks) and its setup."""
    cpu_blocks = config.kv_cpu_blocks
    name = config.kv_store or ("tiered" if cpu_blocks else "paged")
    if cpu_blocks and config.kv_offload_threshold is not None:
        log.warning("--kv-offload-threshold has no effect: blocks are always mirrored at once")
    if cpu_blocks and name == "paged":
        log.warning("--kv-cpu-blocks has no effect with --kv-store paged")
    return name, KVSetup(
        total_blocks=deployment.total_blocks,
        block_size=deployment.block_size,
        cpu_blocks=cpu_blocks,
        transfer_bandwidth=config.kv_transfer_bandwidth,
        transfer_base_latency=config.kv_transfer_base_latency,
    )
