"""One run, start to end: configuration -> deployment -> requests -> cluster -> results."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

import attrs

from blis_core import log
from blis_core.assembly import assemble, num_instances
from blis_core.contracts import MAX_INT64, LatencyModel, Request
from blis_core.deployment import Deployment, resolve
from blis_core.errors import BlisError, did_you_mean
from blis_core.planning import asked_rate, generate_workload, replay_workload, simulator_seed
from blis_core.policies.choice import Policies, resolve_policies
from blis_core.policies.no_effect import idle_options
from blis_core.results.aggregate import build_results
from blis_core.results.trust import Situation
from blis_core.workload.generated import GeneratedWorkload

if TYPE_CHECKING:
    from blis_core.accuracy import Accuracy
    from blis_core.cluster.simulation import Cluster
    from blis_core.config import ReplayConfig, RunConfig, SimulationConfig
    from blis_core.engine.metrics import InstanceMetrics
    from blis_core.policies.bundle import PolicyBundle
    from blis_core.pool_deployment import PoolDeployments
    from blis_core.recording.recorder import Recorder
    from blis_core.results.model import Results
    from blis_core.workload.sessions import SessionManager
    from blis_core.workload.spec import WorkloadSpec


class Watcher(Protocol):
    """Shows how far a run is."""

    def watching(
        self, cluster: Cluster, requests: Iterable[Request], expected: int, horizon: int
    ) -> AbstractContextManager[Iterable[Request]]:
        """Watch ``cluster`` meanwhile; gives what is to be simulated instead of ``requests``.

        ``expected`` is their number, 0 = not known.
        """


def simulate(
    config: SimulationConfig | None = None,
    /,
    *,
    policy: Mapping[str, Any] | PolicyBundle | None = None,
    spec: Mapping[str, Any] | WorkloadSpec | None = None,
    keep_decisions: bool = False,
    keep_recording: bool = False,
    compact: bool = False,
    **options: Any,
) -> Results:
    """Simulate, from Python: the library's equivalent of ``blis run`` and ``blis replay``.

    Give a :class:`RunConfig` or :class:`ReplayConfig`, or their fields as keyword arguments
    (``trace_header`` makes it a replay). Raises :class:`blis_core.errors.BlisError` for anything
    that the command line would refuse.

    ``policy`` is the content of a policy file, instead of ``policy_config``; ``spec`` is that of a
    workload file, instead of ``workload_spec`` (not with a replay).

    ``keep_decisions`` puts one record per admission and routing into ``Results.decisions``, and
    every tick of an autoscaler into ``Results.fleet``; it implies ``trace_level="decisions"``.

    ``keep_recording`` takes the run down, request by request and step by step, into
    ``Results.recording``; see :class:`blis_core.api.Recording`. The figures stay the same.

    ``compact`` is for runs of very many requests: those that have ended are kept as numbers, which
    take a twentieth of the memory, and ``Results.requests`` makes a :class:`Request` whenever one
    is asked for. It has no effect on replays, pools and changing fleets.
    """
    from blis_core.config import ReplayConfig, RunConfig

    if config is None:
        kind = ReplayConfig if "trace_header" in options else RunConfig
        _check_names(kind, options)
        config = kind(**options)
    elif options:
        raise BlisError(
            f"simulate: {', '.join(options)} beside a configuration; attrs.evolve(config, ...)"
            " changes one"
        )
    if keep_decisions:
        config = attrs.evolve(config, trace_level="decisions")
    if spec is not None:
        _check_spec_alone(config)
    config.check()
    if isinstance(config, ReplayConfig):
        return run_replay(
            config, policy=policy, keep_decisions=keep_decisions, keep_recording=keep_recording
        )
    assert isinstance(config, RunConfig)
    return run_simulation(
        config,
        policy=policy,
        spec=spec,
        keep_decisions=keep_decisions,
        keep_recording=keep_recording,
        compact=compact,
    )


def _check_spec_alone(config: SimulationConfig) -> None:
    """BlisError if ``config`` says in another way where the requests come from."""
    if config.replays:
        raise BlisError("spec: a replay takes its requests from the trace; leave it out")
    for name in ("workload_spec", "concurrency"):
        if getattr(config, name):
            raise BlisError(f"spec: excludes {name}; give one of them")


def _check_names(kind: type, options: Mapping[str, Any]) -> None:
    """BlisError for an option that ``kind`` does not have."""
    known = [field.name for field in attrs.fields(kind)]
    for name in options:
        if name not in known:
            raise BlisError(
                f"simulate: {kind.__name__} has no option {name}{did_you_mean(name, known)}"
            )


def check_simulation(config: SimulationConfig, /, *, workload: bool = True) -> Deployment:
    """Find every mistake that :func:`simulate` would find before its first event.

    Nothing is simulated. ``workload``: look at the requests as well, which takes long if there are
    many. Returns what was resolved; raises :class:`blis_core.errors.BlisError`.
    """
    from blis_core.config import RunConfig

    config.check()
    policies = _policies(config)
    deployment = resolve(config)
    pools: PoolDeployments | None = None
    horizon = MAX_INT64
    if isinstance(config, RunConfig):
        _fitness_weights(config)
        pools = _pools(config, deployment, policies)
        if workload:
            horizon = generate_workload(config).horizon
    elif workload:
        _, horizon = replay_workload(cast("ReplayConfig", config))
    assemble(config, deployment, policies, horizon, simulator_seed(config), pools=pools)
    return deployment


def _pools(config: RunConfig, deployment: Deployment, policies: Policies) -> PoolDeployments | None:
    if policies.pools is None and not config.mentions_pools:
        return None
    from blis_core.pool_deployment import resolve_pools

    return resolve_pools(config, deployment, policies.pools)


def _fitness_weights(config: RunConfig) -> dict[str, float]:
    if not config.fitness_weights:
        return {}
    from blis_core.results.fitness import parse_fitness_weights

    return parse_fitness_weights(config.fitness_weights)


def run_simulation(
    config: RunConfig,
    *,
    policy: Mapping[str, Any] | PolicyBundle | None = None,
    spec: Mapping[str, Any] | WorkloadSpec | None = None,
    keep_decisions: bool = False,
    keep_recording: bool = False,
    compact: bool = False,
    watcher: Watcher | None = None,
) -> Results:
    """``blis run`` for a configuration that has been checked."""
    recorder = _recorder(config, keep_recording)
    with log.collected() as said:
        fitness_weights = _fitness_weights(config)
        policies = _policies(config, policy)
        deployment = resolve(config)
        pools = _pools(config, deployment, policies)
        workload, seed, horizon, expected = generate_workload(config, spec)
        results = _simulate(
            config,
            deployment,
            policies,
            workload,
            horizon,
            seed,
            pools=pools,
            fitness_weights=fitness_weights,
            rate=asked_rate(config) if spec is None else 0.0,
            keep_requests=bool(config.trace_output),
            keep_decisions=keep_decisions,
            watcher=watcher,
            expected=expected,
            compact=compact,
            recorder=recorder,
        )
    _add_warnings(results, said, deployment.backend)
    return _with_recording(results, recorder)


def run_replay(
    config: ReplayConfig,
    *,
    policy: Mapping[str, Any] | PolicyBundle | None = None,
    keep_decisions: bool = False,
    keep_recording: bool = False,
    watcher: Watcher | None = None,
) -> Results:
    """``blis replay`` for a configuration that has been checked."""
    recorder = _recorder(config, keep_recording)
    with log.collected() as said:
        seed = simulator_seed(config)
        if config.fitness_weights:
            log.warning("--fitness-weights has no effect on replay")
        if config.disaggregated or config.pd_transfer_contention:
            log.warning(
                "replay runs all requests in one piece: the options of pools have no effect"
            )
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
            watcher=watcher,
            expected=0 if workload.follow_ups or workload.sessions else len(requests),
            recorder=recorder,
        )
    _add_warnings(results, said, deployment.backend)
    if config.trace_output:
        results = attrs.evolve(results, generated=requests)
    return _with_recording(results, recorder)


def _recorder(config: RunConfig | ReplayConfig, keep_recording: bool) -> Recorder | None:
    """Who takes the run down, if anybody is to."""
    if not (keep_recording or config.record):
        return None
    from blis_core.recording.recorder import Recorder

    return Recorder()


def _with_recording(results: Results, recorder: Recorder | None) -> Results:
    """``results`` with what ``recorder`` has taken down."""
    if recorder is None:
        return results
    from blis_core.results.recorded import record

    return attrs.evolve(results, recording=record(recorder, results))


def _policies(
    config: SimulationConfig, policy: Mapping[str, Any] | PolicyBundle | None = None
) -> Policies:
    """The policies of the options, and of the policy file or its equivalent in Python."""
    path = config.policy_config
    if policy is None and not path:
        return resolve_policies(config)
    from blis_core.policies.bundle import load_bundle, make_bundle

    if policy is None:
        return resolve_policies(config, load_bundle(path))
    if path:
        raise BlisError("policy: excludes policy_config; give one of them")
    return resolve_policies(config, make_bundle(policy, "policy"))


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
    rate: float = 0.0,
    keep_requests: bool,
    keep_decisions: bool,
    watcher: Watcher | None = None,
    expected: int = 0,
    compact: bool = False,
    recorder: Recorder | None = None,
) -> Results:
    for warning in workload.warnings:
        log.warning(warning)
    cluster, fleet, autoscaler = assemble(
        config,
        deployment,
        policies,
        horizon,
        simulator_seed(config),
        pools=pools,
        keep_decisions=keep_decisions,
        recorder=recorder,
    )
    requests = workload.requests
    generated: list[Request] = []
    sessions = None
    follow_ups = workload.follow_ups
    if workload.sessions:
        from blis_core.workload.sessions import SessionManager

        follow_ups = sessions = SessionManager(workload.sessions, workload.follow_up_budget)
    with ExitStack() as stack:
        if watcher is not None:
            requests = stack.enter_context(watcher.watching(cluster, requests, expected, horizon))
        if keep_requests:
            requests = generated = list(requests)
        elif recorder is None and fleet is None and cluster.disaggregation is None:
            cluster.compacts = compact
        stack.enter_context(_collector_off())
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
    instances = num_instances(config, policies)
    return build_results(
        finished,
        several=instances > 1,
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
        situation=_situation(config, deployment, policies, horizon, instances, rate),
    )


def _add_warnings(results: Results, said: Sequence[str], backend: str) -> None:
    """Put what was warned of before the latency model's warnings, which are among it."""
    theirs = {f"latency model {backend}: {text}" for text in results.warnings}
    results.warnings[:0] = [text for text in dict.fromkeys(said) if text not in theirs]


def _situation(
    config: SimulationConfig,
    deployment: Deployment,
    policies: Policies,
    horizon: int,
    instances: int,
    rate: float,
) -> Situation:
    """What a run is like beside its figures, for those who doubt them."""
    return Situation(
        horizon=horizon,
        horizon_given=not (config.replays and config.horizon is None),
        total_blocks=deployment.total_blocks,
        block_size=deployment.block_size,
        max_model_len=deployment.limits.max_model_len,
        rate=rate,
        recorded=config.replays,
        scorers=(
            tuple(name for name, _ in policies.scorers)
            if config.routing_scorers or config.policy_config
            else ()
        ),
        idle_options=tuple(idle_options(config, policies, instances)),
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
            if not gc.get_freeze_count():  # make what there is old, or it would be looked through
                gc.freeze()
                gc.unfreeze()
            gc.enable()
