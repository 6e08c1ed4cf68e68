"""What the accuracy of a run depends on, taken from its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from blis_core.accuracy import RunFacts
from blis_core.results.request_list import column, joined

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
    requests = joined([metrics.records for metrics in instances])
    if not requests:
        return None
    prompts, outputs = column(requests, "prompt_len"), column(requests, "output_len")
    arrivals = column(requests, "arrival")
    span_s = int(arrivals.max() - arrivals.min()) / 1e6
    return RunFacts(
        model=model,
        hardware=hardware,
        tp=tp,
        max_running=max_running,
        rate=(len(requests) - 1) / span_s / len(instances) if span_s > 0 else 0.0,
        prompt_tokens=float(prompts.mean()),
        output_tokens=float(outputs.mean()),
        longest=int((prompts + outputs).max()),
        peak_running=max(_peak_running(metrics.records) for metrics in instances),
        peak_kv_use=max(metrics.peak_used_blocks for metrics in instances) / total_blocks,
    )


def _peak_running(requests: Sequence[Request]) -> int:
    """Most requests that were in the batch at once, among those that completed."""
    arrivals, e2e = column(requests, "arrival"), column(requests, "e2e")
    done = e2e >= 0
    entered = (arrivals + column(requests, "scheduling_delay"))[done]
    moments = np.concatenate((entered, (arrivals + e2e)[done]))
    changes = np.repeat((1, -1), len(entered))
    # those that leave make room for those that enter at the same moment
    order = np.lexsort((changes, moments))
    return int(np.add.accumulate(changes[order]).max(initial=0))
