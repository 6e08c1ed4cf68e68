"""Options of ``blis serve``: those of one simulated instance, and those of the HTTP server."""

from __future__ import annotations

import math

import attrs

from blis_core.api import BlisError, SimulationConfig, ValueKind, option

SERVER = "Server"

OF_CLUSTERS = (
    *("num_instances", "policy_config", "admission_policy", "admission_latency"),
    *("token_bucket_capacity", "token_bucket_refill_rate", "routing_policy", "routing_scorers"),
    *("routing_latency", "snapshot_refresh_interval", "cache_signal_delay", "flow_control"),
    *("saturation_detector", "dispatch_order", "max_gateway_queue_depth", "max_concurrency"),
    *("queue_depth_threshold", "kv_cache_util_threshold", "trace_level", "counterfactual_k"),
    *("summarize_trace", "fitness_weights", "horizon", "output"),
)
"""Options of a simulation that mean nothing to one instance without an end."""


@attrs.frozen(kw_only=True, repr=False)
class ServeConfig(SimulationConfig):
    """What ``serve`` pretends to be."""

    host: str = option(ValueKind.TEXT, SERVER, "127.0.0.1", "Address to listen at.")
    port: int = option(
        ValueKind.INT,
        SERVER,
        8000,
        "Port to listen at; 0 = any free one.",
        at_least=0,
        at_most=65535,
    )
    api_key: str = option(
        ValueKind.TEXT, SERVER, "", "Bearer token that requests must bring.", implied="none needed"
    )
    time_scale: float = option(
        ValueKind.FLOAT,
        SERVER,
        1.0,
        "Seconds that a simulated second takes: 0.1 is ten times as fast as the real thing.",
        above=0,
    )
    tokens_per_word: float = option(
        ValueKind.FLOAT, SERVER, 1.0, "Tokens that a word of a prompt counts as.", above=0
    )
    answer_tokens: int = option(
        ValueKind.INT,
        SERVER,
        0,
        "Mean length at which answers end by themselves; 0 = they are as long as they may be.",
        at_least=0,
    )
    answer_tokens_stdev: int = option(
        ValueKind.INT, SERVER, 0, "Standard deviation of that length.", at_least=0
    )

    def check(self) -> None:
        """Raise BlisError for the first value that is wrong."""
        super().check()
        for name in ("time_scale", "tokens_per_word"):
            if not math.isfinite(getattr(self, name)):
                raise BlisError(f"--{name.replace('_', '-')}: must be finite")
