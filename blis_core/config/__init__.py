"""Configuration of a simulation: the one table of options.

``simulation`` has what both kinds of runs share, ``running`` and ``replaying`` the rest; the latter
two are imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blis_core.config.simulation import (
    BATCH,
    CLUSTER,
    DEFAULT_ADMISSION_POLICY,
    DEFAULT_HORIZON,
    DEFAULT_LATENCY_MODEL,
    DEFAULT_NUM_REQUESTS,
    DEFAULT_PRIORITY_POLICY,
    DEFAULT_RATE,
    DEFAULT_ROUTING_POLICY,
    DEFAULT_SCHEDULER,
    DEFAULT_SEED,
    DEFAULT_TIMEOUT_S,
    DEFAULT_TOKEN_BUCKET_CAPACITY,
    DEFAULT_TOKEN_BUCKET_REFILL_RATE,
    DEFAULT_TOTAL_KV_BLOCKS,
    DISPATCH_ORDERS,
    EVALUATION,
    FLOW,
    GENERAL,
    KV,
    LATENCY,
    MODEL,
    OUTPUT,
    SATURATION_DETECTORS,
    SECTIONS,
    TRACE,
    WORKLOAD,
    SimulationConfig,
)

if TYPE_CHECKING:
    from blis_core.config.replaying import ReplayConfig
    from blis_core.config.running import RunConfig

__all__ = [
    "BATCH",
    "CLUSTER",
    "DEFAULT_ADMISSION_POLICY",
    "DEFAULT_HORIZON",
    "DEFAULT_LATENCY_MODEL",
    "DEFAULT_NUM_REQUESTS",
    "DEFAULT_PRIORITY_POLICY",
    "DEFAULT_RATE",
    "DEFAULT_ROUTING_POLICY",
    "DEFAULT_SCHEDULER",
    "DEFAULT_SEED",
    "DEFAULT_TIMEOUT_S",
    "DEFAULT_TOKEN_BUCKET_CAPACITY",
    "DEFAULT_TOKEN_BUCKET_REFILL_RATE",
    "DEFAULT_TOTAL_KV_BLOCKS",
    "DISPATCH_ORDERS",
    "EVALUATION",
    "FLOW",
    "GENERAL",
    "KV",
    "LATENCY",
    "MODEL",
    "OUTPUT",
    "SATURATION_DETECTORS",
    "SECTIONS",
    "TRACE",
    "WORKLOAD",
    "ReplayConfig",
    "RunConfig",
    "SimulationConfig",
]


def __getattr__(name: str) -> Any:
    if name == "RunConfig":
        from blis_core.config.running import RunConfig

        return RunConfig
    if name == "ReplayConfig":
        from blis_core.config.replaying import ReplayConfig

        return ReplayConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
