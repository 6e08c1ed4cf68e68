"""Which requests a run is to simulate: those of options, a workload file, or a trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from blis_core import log
from blis_core.catalog.defaults import load_defaults
from blis_core.config import (
    DEFAULT_NUM_REQUESTS,
    DEFAULT_RATE,
    DEFAULT_SEED,
    DEFAULT_TIMEOUT_S,
)
from blis_core.contracts import MAX_INT64
from blis_core.workload.flags import FlagWorkload, LengthBounds, prepare_flags
from blis_core.workload.generated import GeneratedWorkload

if TYPE_CHECKING:
    from blis_core.catalog.defaults import Preset
    from blis_core.config import ReplayConfig, RunConfig, SimulationConfig
    from blis_core.workload.spec import WorkloadSpec


class Planned(NamedTuple):
    """What is to be simulated."""

    workload: GeneratedWorkload
    seed: int
    """Of the workload."""
    horizon: int
    """us."""
    expected: int
    """Requests at most, follow-ups included; 0 = not known beforehand."""


def replay_workload(config: ReplayConfig) -> tuple[GeneratedWorkload, int]:
    """What ``blis replay`` injects, in the order of its trace export, and the horizon in us."""
    seed = simulator_seed(config)
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


def generate_workload(
    config: RunConfig, spec: Mapping[str, Any] | WorkloadSpec | None = None
) -> Planned:
    """What ``blis run`` simulates.

    ``spec`` is the content of a workload file, instead of the configuration's.
    """
    if spec is not None:
        return _workload_of_spec(config, _typed_spec(spec))
    if config.workload_spec:
        from blis_core.workload.spec import load_spec

        return _workload_of_spec(config, load_spec(config.workload_spec))
    seed = simulator_seed(config)
    horizon = MAX_INT64 if config.horizon is None else config.horizon
    described = _workload_of_flags(config, seed, horizon)
    return Planned(prepare_flags(described), seed, horizon, described.num_requests)


def _typed_spec(content: Mapping[str, Any] | WorkloadSpec) -> WorkloadSpec:
    from blis_core.structuring import structure
    from blis_core.workload.spec import WorkloadSpec, upgrade

    given = (
        content if isinstance(content, WorkloadSpec) else structure(content, WorkloadSpec, "spec")
    )
    spec, warnings = upgrade(given)
    for warning in warnings:
        log.warning(f"spec: {warning}")
    return spec


def _workload_of_spec(config: RunConfig, spec: WorkloadSpec) -> Planned:
    """A workload file; given flags win over its seed, horizon, number and timeouts."""
    from blis_core.workload.pipeline import prepare

    if config.seed is not None:
        spec = attrs.evolve(spec, seed=config.seed)
    horizon = spec.horizon if spec.horizon > 0 else MAX_INT64
    if config.horizon is not None:
        horizon = config.horizon
    limit = spec.num_requests if config.num_requests is None else config.num_requests
    workload = prepare(
        spec,
        horizon=horizon,
        max_requests=limit,
        timeout_us=None if config.timeout is None else max(0, config.timeout) * 1_000_000,
    )
    return Planned(workload, spec.seed, horizon, limit)


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


def asked_rate(config: RunConfig) -> float:
    """Requests per second of ``--rate``; 0 if it does not apply."""
    if config.workload_spec or config.concurrency:
        return 0.0
    return DEFAULT_RATE if config.rate is None else config.rate


def simulator_seed(config: SimulationConfig) -> int:
    """Seed of everything but the workload of a file: the flag's, never the file's."""
    return DEFAULT_SEED if config.seed is None else config.seed
