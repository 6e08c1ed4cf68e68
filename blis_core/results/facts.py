"""What the accuracy of a run depends on, taken from its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blis_core.accuracy import RunFacts

if TYPE_CHECKING:
    from blis_core.contracts import Request
    from blis_core.engine.metrics import InstanceMetrics


def run_facts(
    instances: Sequence[InstanceMetrics],
    *,
    model: str,
    hardware: str,
    tp: int,
    max_running: int,
    total_blocks: int,
) -> RunFacts | None:
    """The facts of a run on equal instances; None if no request reached one."""
    requests = [request for metrics in instances for request in metrics.requests]
    if not requests:
        return None
    lengths = np.array([(r.prompt_len, r.output_len) for r in requests], dtype=np.int64)
    arrivals = [r.arrival for r in requests]
    span_s = (max(arrivals) - min(arrivals)) / 1e6
    return RunFacts(
        model=model,
        hardware=hardware,
        tp=tp,
        max_running=max_running,
        rate=(len(requests) - 1) / span_s / len(instances) if span_s > 0 else 0.0,
        prompt_tokens=float(lengths[:, 0].mean()),
        output_tokens=float(lengths[:, 1].mean()),
        longest=int(lengths.sum(axis=1).max()),
        peak_running=max(_peak_running(metrics.requests) for metrics in instances),
        peak_kv_use=max(metrics.peak_used_blocks for metrics in instances) / total_blocks,
    )


def _peak_running(requests: Sequence[Request]) -> int:
    """Most requests that were in the batch at once, among those that completed."""
    times: Any = np.array(
        [(r.arrival + r.scheduling_delay, r.arrival + r.e2e) for r in requests if r.e2e >= 0],
        dtype=np.int64,
    ).reshape(-1, 2)
    moments = np.concatenate((times[:, 0], times[:, 1]))
    changes = np.repeat((1, -1), len(times))
    # those that leave make room for those that enter at the same moment
    order = np.lexsort((changes, moments))
    return int(np.add.accumulate(changes[order]).max(initial=0))
