"""Options that were given and change nothing, because of others that were given or left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from blis_core.config import SimulationConfig
    from blis_core.policies.choice import Policies

_LENGTHS = tuple(
    f"{side}_tokens{end}" for side in ("prompt", "output") for end in ("", "_stdev", "_min", "_max")
)
_THRESHOLDS = {
    "queue_depth_threshold": "utilization",
    "kv_cache_util_threshold": "utilization",
    "max_concurrency": "concurrency",
}
_FLOW = ("saturation_detector", "dispatch_order", "max_gateway_queue_depth", *_THRESHOLDS)
_BUCKET = ("token_bucket_capacity", "token_bucket_refill_rate")
_UNAWARE = ("fcfs", "sjf")
"""Schedulers that do not look at priorities."""


def idle_options(config: SimulationConfig, policies: Policies, instances: int) -> list[str]:
    """One text for each such option of a run with so many instances, as ``--flag (why)``.

    A value that equals the default counts as not given. Options whose idleness is told where they
    are resolved (``--routing-scorers``, ``--kv-cpu-blocks``) are not repeated here.
    """
    return [f"{_flag(name)} ({reason})" for name, reason in _idle(config, policies, instances)]


def _idle(
    config: SimulationConfig, policies: Policies, instances: int
) -> Iterator[tuple[str, str]]:
    given = {
        field.name for field in attrs.fields(type(config)) if _given(config, field.name, field)
    }
    yield from _of_the_fleet(policies, given, instances)
    yield from _of_the_gateway(config, given)
    if "gpu_memory_utilization" in given and config.total_kv_blocks is not None:
        yield "gpu_memory_utilization", "--total-kv-blocks is given"
    if not config.kv_cpu_blocks:
        for name in ("kv_transfer_bandwidth", "kv_transfer_base_latency", "kv_offload_threshold"):
            if name in given:
                yield name, "there is no CPU tier without --kv-cpu-blocks"
    if config.trace_level == "none":
        for name in ("counterfactual_k", "summarize_trace"):
            if name in given:
                yield name, "nothing is recorded without --trace-level decisions"
    if not config.replays:
        yield from _of_the_workload(config, given)


def _of_the_fleet(policies: Policies, given: set[str], instances: int) -> Iterator[tuple[str, str]]:
    """Options of policies that are not in use, or have nothing to choose from."""
    if policies.fleet is None and instances == 1:
        for name in ("routing_policy", "snapshot_refresh_interval", "cache_signal_delay"):
            if name in given:
                yield name, "there is one instance only; see --num-instances"
    for name in _BUCKET:
        if name in given and policies.admission != "token-bucket":
            yield name, f"the admission policy is {policies.admission}, not token-bucket"
    if "priority_policy" in given and policies.scheduler in _UNAWARE:
        yield "priority_policy", f"the scheduler {policies.scheduler} does not look at priorities"


def _of_the_gateway(config: SimulationConfig, given: set[str]) -> Iterator[tuple[str, str]]:
    for name in _FLOW:
        if name not in given:
            continue
        detector = _THRESHOLDS.get(name)
        if not config.flow_control:
            yield name, "there is no gateway queue without --flow-control"
        elif detector and detector != config.saturation_detector:
            yield name, f"only --saturation-detector {detector} looks at it"


def _of_the_workload(config: Any, given: set[str]) -> Iterator[tuple[str, str]]:
    if config.think_time_ms and not config.concurrency:
        yield "think_time_ms", "there are no users without --concurrency"
    owner = ""
    if config.workload_spec:
        owner = "the workload file"
        for name in ("workload", "rate"):
            if name in given:
                yield name, f"{owner} says it"
    elif config.workload != "distribution" and not config.concurrency:
        owner = f"the preset {config.workload}"
    elif config.concurrency and "workload" in given and config.workload != "distribution":
        yield "workload", "with --concurrency the lengths are those of the options"
    if owner:
        names = [name for name in ("prefix_tokens", *_LENGTHS) if name in given]
        if names:  # one reason for all of them
            yield ", ".join(_flag(name) for name in names), f"{owner} says it"


def _given(config: SimulationConfig, name: str, field: Any) -> bool:
    return bool(getattr(config, name) != field.default)


def _flag(name: str) -> str:
    return name if name.startswith("--") else "--" + name.replace("_", "-")
