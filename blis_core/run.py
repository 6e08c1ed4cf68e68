"""One run, start to end: configuration -> deployment -> requests -> cluster -> results."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import attrs

from blis_core import log
from blis_core.assembly import assemble, num_instances
from blis_core.catalog.defaults import load_defaults
from blis_core.config import (
    DEFAULT_NUM_REQUESTS,
    DEFAULT_RATE,
    DEFAULT_SEED,
    DEFAULT_TIMEOUT_S,
)
from blis_core.contracts import MAX_INT64, LatencyModel, Request
from blis_core.deployment import Deployment, resolve
from blis_core.errors import BlisError
from blis_core.policies.choice import Policies, resolve_policies
from blis_core.pool_deployment import PoolDeployments, resolve_pools
from blis_core.results.aggregate import build_results
from blis_core.results.fitness import parse_fitness_weights
from blis_core.workload.flags import FlagWorkload, LengthBounds, prepare_flags
from blis_core.workload.generated import GeneratedWorkload

if TYPE_CHECKING:
    from blis_core.accuracy import Accuracy
    from blis_core.catalog.defaults import Preset
    from blis_core.config import ReplayConfig, RunConfig, SimulationConfig
    from blis_core.engine.metrics import InstanceMetrics
    from blis_core.policies.bundle import PolicyBundle
    from blis_core.results.model import Results
    from blis_core.workload.sessions import SessionManager


def simulate(
    config: SimulationConfig | None = None,
    /,
    *,
    policy: Mapping[str, Any] | PolicyBundle | None = None,
    keep_decisions: bool = False,
    **options: Any,
) -> Results:
    """Simulate, from Python: the library's equivalent of ``blis run`` and ``blis replay``.

    Give a :class:`RunConfig` or :class:`ReplayConfig`, or their fields as keyword arguments
    (``trace_header`` makes it a replay). Raises :class:`blis_core.errors.BlisError` for anything
    that the command line would refuse.

    ``policy`` is the content of a policy file, instead of ``policy_config``.

    ``keep_decisions`` puts one record per admission and routing into ``Results.decisions``, and
    every tick of an autoscaler into ``Results.fleet``; it implies ``trace_level="decisions"``.
    """
    from blis_core.config import ReplayConfig, RunConfig

    if config is None:
        config = (ReplayConfig if "trace_header" in options else RunConfig)(**options)
    if keep_decisions:
        config = attrs.evolve(config, trace_level="decisions")
    config.check()
    if isinstance(config, ReplayConfig):
        return run_replay(config, policy=policy, keep_decisions=keep_decisions)
    assert isinstance(config, RunConfig)
    return run_simulation(config, policy=policy, keep_decisions=keep_decisions)


def check_simulation(config: SimulationConfig, /, *, workload: bool = True) -> Deployment:
    """Find every mistake that :func:`simulate` would find before its first event.

    Nothing is simulated. ``workload``: look at the requests as well, which takes long if there are
    many. Returns what was resolved; raises :class:`blis_core.errors.BlisError`.
    """
    from blis_core.config import RunConfig

    config.check()
    policies = _policies(config)
    deployment = resolve(config)
    pools, horizon = None, MAX_INT64
    if isinstance(config, RunConfig):
        parse_fitness_weights(config.fitness_weights)
        pools = resolve_pools(config, deployment, policies.pools)
        if workload:
            _, _, horizon = generate_workload(config)
    elif workload:
        _, horizon = replay_workload(cast("ReplayConfig", config))
    assemble(config, deployment, policies, horizon, _simulator_seed(config), pools=pools)
    return deployment


def run_simulation(
    config: RunConfig,
    *,
    policy: Mapping[str, Any] | PolicyBundle | None = None,
    keep_decisions: bool = False,
) -> Results:
    """``blis run`` for a configuration that has been checked."""
    fitness_weights = parse_fitness_weights(config.fitness_weights)
    policies = _policies(config, policy)
    deployment = resolve(config)
    pools = resolve_pools(config, deployment, policies.pools)
    workload, seed, horizon = generate_workload(config)
    return _simulate(
        config,
        deployment,
        policies,
        workload,
        horizon,
        seed,
        pools=pools,
        fitness_weights=fitness_weights,
        keep_requests=bool(config.trace_output),
        keep_decisions=keep_decisions,
    )


def run_replay(
    config: ReplayConfig,
    *,
    policy: Mapping[str, Any] | PolicyBundle | None = None,
    keep_decisions: bool = False,
) -> Results:
    """``blis replay`` for a configuration that has been checked."""
    seed = _simulator_seed(config)
    if config.fitness_weights:
        log.warning("--fitness-weights has no effect on replay")
    if config.disaggregated or config.pd_transfer_contention:
        log.warning("replay runs all requests in one piece: the options of pools have no effect")
    policies = _policies(config, policy)
    workload, horizon = replay_workload(config)
    deployment = resolve(config)
    requests = list(workload.requests)
    # the cluster takes requests in order of arrival, equal ones as they stand here
    results = _simulate(
        config,
        deployment,
        policies,
        attrs.evolve(workload, requests=sorted(requests, key=lambda r: r.arrival)),
        horizon,
        seed,
        keep_requests=False,
        keep_decisions=keep_decisions,
    )
    if config.trace_output:
        results = attrs.evolve(results, generated=requests)
    return results


def replay_workload(config: ReplayConfig) -> tuple[GeneratedWorkload, int]:
    """What ``blis replay`` injects, in the order of its trace export, and the horizon in us."""
    seed = _simulator_seed(config)
    if config.session_mode == "closed-loop":
        from blis_core.trace.closed_loop import load_closed_loop, think_times

        source = think_times(config.think_time_ms, config.think_time_dist)
        return load_closed_loop(
            config.trace_header, config.trace_data, seed, source, config.horizon
        )
    from blis_core.trace.replay import load_replay, replay_horizon

    requests = load_replay(config.trace_header, config.trace_data, seed)
    horizon = replay_horizon(requests) if config.horizon is None else config.horizon
    return GeneratedWorkload(requests=requests, streamed=False), horizon


def generate_workload(config: RunConfig) -> tuple[GeneratedWorkload, int, int]:
    """What ``blis run`` simulates, the seed of the workload and the horizon in us."""
    if config.workload_spec:
        return _workload_of_file(config)
    seed = _simulator_seed(config)
    horizon = MAX_INT64 if config.horizon is None else config.horizon
    return prepare_flags(_workload_of_flags(config, seed, horizon)), seed, horizon


def _workload_of_file(config: RunConfig) -> tuple[GeneratedWorkload, int, int]:
    """A workload file; given flags win over its seed, horizon, number and timeouts."""
    from blis_core.workload.pipeline import prepare
    from blis_core.workload.spec import load_spec

    spec = load_spec(config.workload_spec)
    if config.seed is not None:
        spec = attrs.evolve(spec, seed=config.seed)
    horizon = spec.horizon if spec.horizon > 0 else MAX_INT64
    if config.horizon is not None:
        horizon = config.horizon
    workload = prepare(
        spec,
        horizon=horizon,
        max_requests=spec.num_requests if config.num_requests is None else config.num_requests,
        timeout_us=None if config.timeout is None else max(0, config.timeout) * 1_000_000,
    )
    return workload, spec.seed, horizon


def _workload_of_flags(config: RunConfig, seed: int, horizon: int) -> FlagWorkload:
    if config.workload == "distribution" or config.concurrency:
        source: RunConfig | Preset = config
    else:
        source = load_defaults(config.defaults_filepath or "defaults.yaml").preset(config.workload)
    implied = 0 if config.concurrency else DEFAULT_NUM_REQUESTS
    timeout = DEFAULT_TIMEOUT_S if config.timeout is None else config.timeout
    return FlagWorkload(
        rate=DEFAULT_RATE if config.rate is None else config.rate,
        num_requests=implied if config.num_requests is None else config.num_requests,
        seed=seed,
        horizon=horizon,
        prefix_tokens=source.prefix_tokens,
        prompt=LengthBounds(
            source.prompt_tokens,
            source.prompt_tokens_stdev,
            source.prompt_tokens_min,
            source.prompt_tokens_max,
        ),
        output=LengthBounds(
            source.output_tokens,
            source.output_tokens_stdev,
            source.output_tokens_min,
            source.output_tokens_max,
        ),
        timeout_us=max(0, timeout) * 1_000_000,
        concurrency=config.concurrency,
        think_time_us=config.think_time_ms * 1000,
    )


def _simulator_seed(config: SimulationConfig) -> int:
    """Seed of everything but the workload of a file: the flag's, never the file's."""
    return DEFAULT_SEED if config.seed is None else config.seed


def _policies(
    config: SimulationConfig, policy: Mapping[str, Any] | PolicyBundle | None = None
) -> Policies:
    """The policies of the options, and of the policy file or its equivalent in Python."""
    from blis_core.policies.bundle import load_bundle, make_bundle

    path = config.policy_config
    if policy is not None:
        if path:
            raise BlisError("policy: excludes policy_config; give one of them")
        return resolve_policies(config, make_bundle(policy, "policy"))
    return resolve_policies(config, load_bundle(path) if path else None)


def _simulate(
    config: SimulationConfig,
    deployment: Deployment,
    policies: Policies,
    workload: GeneratedWorkload,
    horizon: int,
    workload_seed: int,
    *,
    pools: PoolDeployments | None = None,
    fitness_weights: Mapping[str, float] | None = None,
    keep_requests: bool,
    keep_decisions: bool,
) -> Results:
    for warning in workload.warnings:
        log.warning(warning)
    cluster, fleet, autoscaler = assemble(
        config,
        deployment,
        policies,
        horizon,
        _simulator_seed(config),
        pools=pools,
        keep_decisions=keep_decisions,
    )
    requests = workload.requests
    generated: list[Request] = []
    if keep_requests:
        requests = generated = list(requests)
    sessions = None
    follow_ups = workload.follow_ups
    if workload.sessions:
        from blis_core.workload.sessions import SessionManager

        follow_ups = sessions = SessionManager(workload.sessions, workload.follow_up_budget)
    with _collector_off():
        if follow_ups is None:
            cluster.run(requests)
        else:
            cluster.run(requests, follow_ups.on_done, follow_ups.on_lost)
    report = None
    if fleet is not None:
        from blis_core.results.fleet import fleet_report

        fleet.close()
        report = fleet_report(fleet, autoscaler)
    outcome = cluster.outcome
    if keep_requests:
        generated = generated + outcome.follow_ups
    finished = [instance.finish() for instance in cluster.instances]
    return build_results(
        finished,
        several=num_instances(config, policies) > 1,
        priority_policy=policies.priority.name,
        shed_by_class=outcome.rejected_by_class,
        rejected_admission=outcome.rejected,
        rejected_routing=outcome.unroutable,
        gateway_depth=outcome.gateway_depth,
        gateway_shed=outcome.gateway_shed,
        drained=outcome.drained,
        fleet=report,
        in_transit=outcome.in_transit,
        fitness_weights=fitness_weights,
        disaggregation=cluster.disaggregation,
        decisions=cluster.log,
        sessions=_session_counts(sessions),
        generated=generated,
        workload_seed=workload_seed,
        resolution=list(deployment.resolution),
        warnings=list(
            dict.fromkeys(text for i in cluster.instances for text in i.latency.warnings)
        ),
        accuracy=_accuracy(deployment, [i.latency for i in cluster.instances], finished),
        config=config,
    )


def _session_counts(sessions: SessionManager | None) -> dict[str, int]:
    """What became of the sessions. The text does not show it, so a log line tells who was cut."""
    if sessions is None:
        return {}
    counts = sessions.counts()
    if counts["cut"]:
        log.warning(
            f"{counts['cut']} of {sum(counts.values())} sessions were cut: a request of theirs was"
            " turned away, and what would have followed it never came"
        )
    return counts


def _accuracy(
    deployment: Deployment, models: Sequence[LatencyModel], finished: Sequence[InstanceMetrics]
) -> Accuracy | None:
    """What the latency model says of this run, if all instances share one.

    The facts are gathered only if it says anything.
    """
    latency = models[0] if models and all(model is models[0] for model in models) else None
    if latency is None or type(latency).accuracy is LatencyModel.accuracy:
        return None
    from blis_core.results.facts import run_facts

    facts = run_facts(
        finished,
        model=deployment.model,
        hardware=deployment.gpu,
        tp=deployment.tp,
        max_running=deployment.limits.max_running,
        total_blocks=deployment.total_blocks,
    )
    return latency.accuracy(facts) if facts is not None else None


@contextmanager
def _collector_off() -> Iterator[None]:
    """No cyclic garbage collection meanwhile: the engine leaves no cycles, and looking for them
    among hundreds of thousands of live requests costs a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
