"""Small runs with hand-made requests and figures that can be checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from blis_core.config import RunConfig
from blis_core.contracts import MAX_INT64, Request
from blis_core.deployment import resolve
from blis_core.results.model import Results
from blis_core.run import _policies, _simulate
from blis_core.workload.generated import GeneratedWorkload

NODE = {"gpus_per_node": 2, "gpu_memory_gib": 80, "initial_nodes": 1, "max_nodes": 4}
POOL = {"name": "a", "gpu_type": "H100", "cost_per_hour": 12, **NODE}


def requests(count: int, period: int, output: int, **more: Any) -> list[Request]:
    """Arrivals every ``period`` us, 100 prompt tokens each, nothing shared."""
    return [
        Request(
            f"request_{i}",
            (i + 1) * period,
            np.arange(i * 1000, i * 1000 + 100 + output, dtype=np.int32),
            100,
            output,
            **more,
        )
        for i in range(count)
    ]


def run(
    policy: dict[str, Any] | None,
    wanted: list[Request],
    *,
    horizon: int = MAX_INT64,
    **options: Any,
) -> Results:
    """Queueing takes 100 us, a step 1000 + 10 per prefill token + 100 per decode."""
    given: dict[str, Any] = {
        "model": "m",
        "hardware": "H100",
        "latency_model": "blackbox",
        "alpha_coeffs": (100.0, 0.0, 0.0),
        "beta_coeffs": (1000.0, 10.0, 100.0),
        "total_kv_blocks": 1000,
        "max_num_running_reqs": 4,
        "num_instances": 2,
        "trace_level": "decisions",
        **options,
    }
    config = RunConfig(**given)
    config.check()
    return _simulate(
        config,
        resolve(config),
        _policies(config, policy),
        GeneratedWorkload(requests=wanted),
        horizon,
        42,
        keep_requests=True,
        keep_decisions=True,
    )
