"""Parts of a cluster that few have, made from its configuration: tenants, gateway, pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blis_core.cluster.disaggregation import Disaggregation
from blis_core.cluster.gateway import Gateway, GatewayQueue
from blis_core.cluster.pools import Pool
from blis_core.cluster.routing import RoutingSetup
from blis_core.cluster.saturation import make_detector
from blis_core.cluster.tenants import TenantBudgets
from blis_core.cluster.transfer import TransferLink
from blis_core.contracts import PDDeciderSetup
from blis_core.disaggregation_options import DEFAULT_PREFIX_THRESHOLD
from blis_core.plugins import get_registry

if TYPE_CHECKING:
    from blis_core.cluster.simulation import Cluster
    from blis_core.config import SimulationConfig
    from blis_core.contracts import RoutingPolicy, Scorer
    from blis_core.policies.choice import Policies
    from blis_core.pool_deployment import PoolDeployments
    from blis_core.rng import PartitionedRandom


def make_tenants(config: SimulationConfig, policies: Policies, instances: int) -> TenantBudgets:
    """The budgets of tenants in a fleet of so many instances."""
    assert policies.tenant_budgets is not None
    return TenantBudgets(
        policies.tenant_budgets,
        instances=instances,
        max_running=config.max_num_running_reqs,
        priorities=policies.slo_priorities,
    )


def make_gateway(config: SimulationConfig, policies: Policies) -> Gateway:
    """The queue in front of the fleet."""
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


def disaggregate(
    cluster: Cluster,
    config: SimulationConfig,
    pools: PoolDeployments,
    policies: Policies,
    routing: RoutingPolicy,
    scorers: list[tuple[tuple[Scorer, float], ...]],
    random: PartitionedRandom,
) -> None:
    """Divide the cluster into pools. Without scorers of its own a pool shares the routing policy
    with its state, such as the turn of round-robin (reference quirk 07-Q4)."""
    registry = get_registry()
    made: list[Pool] = []
    names = [f"instance_{i}" for i in range(config.prefill_instances + config.decode_instances)]
    halves = names[: config.prefill_instances], names[config.prefill_instances :]
    for half, own, name in zip(halves, scorers, ("prefill-router", "decode-router"), strict=True):
        policy = routing
        if own:
            setup = RoutingSetup(random=random.stream(name), scorers=own)
            policy = registry.create("routing-policy", "weighted", setup)
        made.append(Pool(cluster.fleet, half, policy))
    block_size = cluster.fleet.chains.block_size
    threshold = config.pd_prefix_threshold
    cluster.disaggregation = Disaggregation(
        cluster,
        prefill=made[0],
        decode=made[1],
        decider=registry.create(
            "pd-decider",
            policies.decider,
            PDDeciderSetup(
                block_size=block_size,
                prefix_threshold=DEFAULT_PREFIX_THRESHOLD if threshold is None else threshold,
            ),
        ),
        link=TransferLink(
            float(block_size) * pools.bytes_per_token,
            bandwidth=config.pd_transfer_bandwidth,
            base_latency=config.pd_transfer_base_latency,
            contention=config.pd_transfer_contention,
        ),
    )
