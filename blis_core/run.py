"""One run, start to end: configuration -> deployment -> requests -> cluster -> results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from blis_core import log
from blis_core.catalog.defaults import load_defaults
from blis_core.cluster.fleet import LiveFleet
from blis_core.cluster.routing import RoutingSetup
from blis_core.cluster.simulation import Cluster
from blis_core.config import DEFAULT_NUM_REQUESTS, DEFAULT_RATE, ReplayConfig, RunConfig
from blis_core.contracts import MAX_INT64, Request
from blis_core.deployment import Deployment, resolve, scheduler, scorers
from blis_core.engine.instance import Instance
from blis_core.kv.chains import ChainTable
from blis_core.plugins import get_registry
from blis_core.results.aggregate import build_results
from blis_core.rng import PartitionedRandom
from blis_core.workload.flags import FlagWorkload, LengthBounds, generate

if TYPE_CHECKING:
    from blis_core.config import SimulationConfig
    from blis_core.results.model import Results


def simulate(config: SimulationConfig | None = None, /, **options: Any) -> Results:
    """Simulate, from Python: the library's equivalent of ``blis run`` and ``blis replay``.

    Give a :class:`RunConfig` or :class:`ReplayConfig`, or their fields as keyword arguments
    (``trace_header`` makes it a replay). Raises :class:`blis_core.errors.BlisError` for anything
    that the command line would refuse.
    """
    if config is None:
        config = (ReplayConfig if "trace_header" in options else RunConfig)(**options)
    config.check()
    if isinstance(config, ReplayConfig):
        return run_replay(config)
    assert isinstance(config, RunConfig)
    return run_simulation(config)


def run_simulation(config: RunConfig) -> Results:
    """``blis run`` for a configuration that has been checked."""
    deployment = resolve(config)
    horizon = MAX_INT64 if config.horizon is None else config.horizon
    requests: Iterable[Request] = generate(_workload(config, horizon))
    generated: list[Request] | None = None
    if config.trace_output:
        requests = generated = list(requests)
    return _simulate(config, deployment, requests, horizon, generated, config.seed)


def run_replay(config: ReplayConfig) -> Results:
    """``blis replay`` for a configuration that has been checked."""
    from blis_core.trace.replay import load_replay, replay_horizon

    requests = load_replay(config.trace_header, config.trace_data, config.seed)
    deployment = resolve(config)
    horizon = replay_horizon(requests) if config.horizon is None else config.horizon
    # the cluster takes requests in order of arrival, equal ones as they stand in the file
    in_order = sorted(requests, key=lambda r: r.arrival)
    generated = requests if config.trace_output else None
    return _simulate(config, deployment, in_order, horizon, generated, config.seed)


def _workload(config: RunConfig, horizon: int) -> FlagWorkload:
    if config.workload == "distribution":
        prefix = config.prefix_tokens
        prompt = LengthBounds(
            config.prompt_tokens,
            config.prompt_tokens_stdev,
            config.prompt_tokens_min,
            config.prompt_tokens_max,
        )
        output = LengthBounds(
            config.output_tokens,
            config.output_tokens_stdev,
            config.output_tokens_min,
            config.output_tokens_max,
        )
    else:
        preset = load_defaults(config.defaults_filepath or "defaults.yaml").preset(config.workload)
        prefix = preset.prefix_tokens
        prompt = LengthBounds(
            preset.prompt_tokens,
            preset.prompt_tokens_stdev,
            preset.prompt_tokens_min,
            preset.prompt_tokens_max,
        )
        output = LengthBounds(
            preset.output_tokens,
            preset.output_tokens_stdev,
            preset.output_tokens_min,
            preset.output_tokens_max,
        )
    return FlagWorkload(
        rate=DEFAULT_RATE if config.rate is None else config.rate,
        num_requests=DEFAULT_NUM_REQUESTS if config.num_requests is None else config.num_requests,
        seed=config.seed,
        horizon=horizon,
        prefix_tokens=prefix,
        prompt=prompt,
        output=output,
        timeout_us=max(0, config.timeout) * 1_000_000,
    )


def _simulate(
    config: SimulationConfig,
    deployment: Deployment,
    requests: Iterable[Request],
    horizon: int,
    generated: list[Request] | None,
    workload_seed: int,
) -> Results:
    registry = get_registry()
    latency = deployment.latency_model()
    chains = ChainTable(deployment.block_size)
    instances = [
        Instance(
            f"instance_{i}",
            latency=latency,
            store=registry.create(
                "kv-store", config.kv_store, deployment.total_blocks, deployment.block_size
            ),
            chains=chains,
            scheduler=scheduler(config.scheduler, deployment.priority),
            limits=deployment.limits,
            horizon=horizon,
        )
        for i in range(config.num_instances)
    ]
    name = config.routing_policy or "round-robin"
    weighted = name == "weighted"
    if config.routing_scorers and not weighted:
        log.warning(f"--routing-scorers has no effect with --routing-policy {name}")
    routing = registry.create(
        "routing-policy",
        name,
        RoutingSetup(
            random=PartitionedRandom(config.seed).stream("router"),
            scorers=scorers(config.routing_scorers) if weighted else (),
        ),
    )
    admission = registry.create("admission-policy", config.admission_policy or "always-admit")
    cluster = Cluster(
        instances,
        LiveFleet(instances, chains, deployment.block_size),
        admission,
        routing,
        model=deployment.model,
        horizon=horizon,
    )
    cluster.run(requests)
    outcome = cluster.outcome
    return build_results(
        [instance.finish() for instance in instances],
        several=config.num_instances > 1,
        priority_policy=deployment.priority.name,
        shed_by_class=outcome.rejected_by_class,
        rejected_admission=outcome.rejected,
        rejected_routing=outcome.unroutable,
        generated=generated,
        workload_seed=workload_seed,
        resolution=list(deployment.resolution),
        config=config,
    )
