"""Puts a cluster together: instances, the fleet's view of them, policies, gateway, tenants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from blis_core import log
from blis_core.cluster.fleet import Fleet
from blis_core.cluster.routing import RoutingSetup
from blis_core.cluster.simulation import Cluster
from blis_core.config import SimulationConfig
from blis_core.contracts import KVSetup, LatencyModel
from blis_core.deployment import Deployment
from blis_core.engine.instance import Instance
from blis_core.errors import BlisError
from blis_core.kv.chains import ChainTable
from blis_core.plugins import get_registry
from blis_core.policies.choice import Policies
from blis_core.policies.scorers import make_scorers
from blis_core.rng import PartitionedRandom
from blis_core.semantics import parse_semantics

if TYPE_CHECKING:
    from blis_core.autoscaling.autoscaler import Autoscaler
    from blis_core.cluster.elastic import ElasticFleet
    from blis_core.policies.fleet_plan import FleetPlan
    from blis_core.pool_deployment import PoolDeployments
    from blis_core.recording.recorder import Recorder


class Assembled(NamedTuple):
    """A cluster before its first event, and what changes its fleet."""

    cluster: Cluster
    fleet: ElasticFleet | None = None
    """None: the fleet is fixed."""
    autoscaler: Autoscaler | None = None


class InstanceMaker:
    """Makes instances, which share latency models and the table of chains."""

    def __init__(
        self,
        config: SimulationConfig,
        policies: Policies,
        chains: ChainTable,
        horizon: int,
        recorder: Recorder | None = None,
    ) -> None:
        self._config = config
        self._policies = policies
        self._chains = chains
        self._horizon = horizon
        self._store = _kv_store(config)
        self._semantics = parse_semantics(config.semantics)
        self._shared: dict[int, tuple[LatencyModel, KVSetup]] = {}
        self._recorder = recorder

    def __call__(self, name: str, deployment: Deployment) -> Instance:
        """A new instance; ``deployment`` must outlive the maker."""
        shared = self._shared.get(id(deployment))
        if shared is None:
            setup = _kv_setup(self._config, deployment)
            shared = self._shared[id(deployment)] = deployment.latency_model(), setup
        latency, setup = shared
        make: Callable[..., Instance] = Instance
        if self._recorder is not None:
            make = self._recorder.instances_of(deployment)
        return make(
            name,
            latency=latency,
            store=get_registry().create("kv-store", self._store, setup),
            chains=self._chains,
            scheduler=self._policies.make_scheduler(),
            limits=deployment.limits,
            horizon=self._horizon,
            semantics=self._semantics,
        )


def build_cluster(
    config: SimulationConfig,
    deployment: Deployment,
    policies: Policies,
    horizon: int,
    seed: int,
    *,
    pools: PoolDeployments | None = None,
    keep_decisions: bool = False,
) -> Cluster:
    """The cluster that ``config`` describes, before its first event; see ``assemble``."""
    return assemble(
        config, deployment, policies, horizon, seed, pools=pools, keep_decisions=keep_decisions
    ).cluster


def assemble(
    config: SimulationConfig,
    deployment: Deployment,
    policies: Policies,
    horizon: int,
    seed: int,
    *,
    pools: PoolDeployments | None = None,
    keep_decisions: bool = False,
    recorder: Recorder | None = None,
) -> Assembled:
    """The cluster that ``config`` describes, before its first event, with what changes it.

    ``deployment`` is that of instances that belong to none of ``pools``.

    ``horizon`` in us; ``seed`` is that of the router's ties, never a workload file's.
    ``keep_decisions``: single records as well as totals, if decisions are traced at all.
    ``recorder``: who takes the run down, if anybody does.
    """
    registry = get_registry()
    scorers = make_scorers(policies.scorers)
    delay = config.cache_signal_delay
    pool_scorers = [
        make_scorers(names) for names in (policies.prefill_scorers, policies.decode_scorers)
    ]
    cache_read = any(s.reads_cache for each in (scorers, *pool_scorers) for s, _ in each)
    chains = ChainTable(deployment.block_size)
    make = InstanceMaker(config, policies, chains, horizon, recorder)
    kinds = [deployment] * config.num_instances
    if pools is not None:
        prefill, decode = config.prefill_instances, config.decode_instances
        kinds[:prefill] = [pools.prefill] * prefill
        kinds[prefill : prefill + decode] = [pools.decode] * decode
    deployed = [(f"instance_{i}", kind) for i, kind in enumerate(kinds)]
    plan = policies.fleet
    instances = [make(name, kind) for name, kind in deployed] if plan is None else []
    random = PartitionedRandom(seed)
    routing = registry.create(
        "routing-policy",
        policies.routing,
        RoutingSetup(random=random.stream("router"), scorers=scorers),
    )
    tenants = gateway = None
    if policies.tenant_budgets is not None:
        from blis_core.optional_parts import make_tenants

        tenants = make_tenants(config, policies, num_instances(config, policies))
    if config.flow_control:
        from blis_core.optional_parts import make_gateway

        gateway = make_gateway(config, policies)
    decisions = None
    if config.trace_level == "decisions":
        from blis_core.cluster.decisions import DecisionLog

        decisions = DecisionLog(
            counterfactual_k=config.counterfactual_k, keep_records=keep_decisions
        )
    make_cluster: Callable[..., Cluster] = Cluster if recorder is None else recorder.make_cluster
    cluster = make_cluster(
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
        gateway=gateway,
        tenants=tenants,
        log=decisions,
    )
    if pools is not None:
        from blis_core.optional_parts import disaggregate

        disaggregate(cluster, config, pools, policies, routing, pool_scorers, random)
    if plan is None:
        return Assembled(cluster)
    return _make_elastic(
        cluster, config, plan, make, deployment, deployed, random, keep_ticks=keep_decisions
    )


def _make_elastic(
    cluster: Cluster,
    config: SimulationConfig,
    plan: FleetPlan,
    make: InstanceMaker,
    main: Deployment,
    deployed: list[tuple[str, Deployment]],
    random: PartitionedRandom,
    *,
    keep_ticks: bool,
) -> Assembled:
    """Add the instances as ``plan`` has it, and what changes them. ``deployed`` are those of the
    options, by name."""
    from blis_core import elastic_assembly as elastic

    elastic.warn_of_labels(plan, main)
    elastic.check_pools(plan, disaggregated=cluster.disaggregation is not None)
    own = {name: kind for name, kind in deployed if kind is not main}
    factory = elastic.DeployedInstances(config, plan, main, make, own)
    fleet = elastic.build_elastic(plan, cluster, factory, random)
    wanted = [(name, main.model) for name, _ in deployed]
    for section in plan.models:
        for _ in range(section.instances):
            wanted.append((f"instance_{len(wanted)}", section.model.lower()))
    fleet.start(wanted)
    autoscaler = elastic.build_autoscaler(plan, fleet, random, keep_ticks=keep_ticks)
    if autoscaler is not None:
        autoscaler.start()
    elastic.plan_events(plan, fleet)
    return Assembled(cluster, fleet, autoscaler)


def num_instances(config: SimulationConfig, policies: Policies) -> int:
    """Instances that were asked for, of all models."""
    models = policies.fleet.models if policies.fleet is not None else ()
    return config.num_instances + sum(section.instances for section in models)


def _kv_store(config: SimulationConfig) -> str:
    """Name of the KV store, by default ``tiered`` iff there are CPU blocks."""
    cpu_blocks = config.kv_cpu_blocks
    name = config.kv_store or ("tiered" if cpu_blocks else "paged")
    try:
        get_registry().get("kv-store", name)
    except BlisError as problem:
        raise BlisError(f"--kv-store: {problem}") from None
    if cpu_blocks and config.kv_offload_threshold is not None:
        log.warning("--kv-offload-threshold has no effect: blocks are always mirrored at once")
    if cpu_blocks and name == "paged":
        log.warning("--kv-cpu-blocks has no effect with --kv-store paged")
    return name


def _kv_setup(config: SimulationConfig, deployment: Deployment) -> KVSetup:
    return KVSetup(
        total_blocks=deployment.total_blocks,
        block_size=deployment.block_size,
        cpu_blocks=config.kv_cpu_blocks,
        transfer_bandwidth=config.kv_transfer_bandwidth,
        transfer_base_latency=config.kv_transfer_base_latency,
    )
