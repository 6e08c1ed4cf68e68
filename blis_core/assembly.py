"""Puts a cluster together: instances, the fleet's view of them, policies, gateway, tenants."""

from __future__ import annotations

from blis_core import log
from blis_core.cluster.decisions import DecisionLog
from blis_core.cluster.fleet import Fleet
from blis_core.cluster.gateway import GatewayQueue
from blis_core.cluster.routing import RoutingSetup
from blis_core.cluster.saturation import make_detector
from blis_core.cluster.simulation import Cluster, Gateway
from blis_core.cluster.tenants import TenantBudgets
from blis_core.config import SimulationConfig
from blis_core.contracts import KVSetup
from blis_core.deployment import Deployment
from blis_core.engine.instance import Instance
from blis_core.kv.chains import ChainTable
from blis_core.plugins import get_registry
from blis_core.policies.choice import Policies
from blis_core.policies.scorers import make_scorers
from blis_core.rng import PartitionedRandom


def build_cluster(
    config: SimulationConfig,
    deployment: Deployment,
    policies: Policies,
    horizon: int,
    seed: int,
    *,
    keep_decisions: bool = False,
) -> Cluster:
    """The cluster that ``config`` describes, before its first event.

    ``horizon`` in us; ``seed`` is that of the router's ties, never a workload file's.
    ``keep_decisions``: single records as well as totals, if decisions are traced at all.
    """
    registry = get_registry()
    scorers = make_scorers(policies.scorers)
    delay = config.cache_signal_delay
    cache_read = any(scorer.reads_cache for scorer, _ in scorers)
    chains = ChainTable(deployment.block_size)
    latency = deployment.latency_model()
    store_name, store_setup = _kv_store(config, deployment)
    instances = [
        Instance(
            f"instance_{i}",
            latency=latency,
            store=registry.create("kv-store", store_name, store_setup),
            chains=chains,
            scheduler=policies.make_scheduler(),
            limits=deployment.limits,
            horizon=horizon,
        )
        for i in range(config.num_instances)
    ]
    routing = registry.create(
        "routing-policy",
        policies.routing,
        RoutingSetup(random=PartitionedRandom(seed).stream("router"), scorers=scorers),
    )
    tenants = None
    if policies.tenant_budgets is not None:
        tenants = TenantBudgets(
            policies.tenant_budgets,
            instances=config.num_instances,
            max_running=config.max_num_running_reqs,
            priorities=policies.slo_priorities,
        )
    decisions = None
    if config.trace_level == "decisions":
        decisions = DecisionLog(
            counterfactual_k=config.counterfactual_k, keep_records=keep_decisions
        )
    return Cluster(
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
