"""Requests and instances with chosen results, for the tests of this folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from blis_core.contracts import Request
from blis_core.engine.metrics import InstanceMetrics

DATA = Path(__file__).parent / "data"


def record(
    id: str = "request_0",
    arrival: int = 0,
    *,
    prompt: int = 10,
    output: int = 5,
    ttft: int = -1,
    e2e: int = -1,
    delay: int = -1,
    instance: str = "instance_0",
    **described: Any,
) -> Request:
    """A request with recorded times in us."""
    request = Request(id, arrival, None, prompt, output, **described)
    request.ttft, request.e2e, request.scheduling_delay = ttft, e2e, delay
    if e2e >= 0:
        request.itl_sum, request.itl_count = e2e - ttft, max(output - 1, 0)
    request.assigned = instance
    return request


def instance(*requests: Request, id: str = "instance_0", **counters: Any) -> InstanceMetrics:
    """An instance that reports ``requests``; ``completed`` follows from them unless given."""
    metrics = InstanceMetrics(id)
    metrics.requests = list(requests)
    metrics.completed = sum(request.e2e >= 0 for request in requests)
    for name, value in counters.items():
        setattr(metrics, name, value)
    return metrics


def with_latencies(metrics: InstanceMetrics, counts: dict[int, int]) -> InstanceMetrics:
    """``metrics`` with inter-token latencies, given as {us: how often}."""
    metrics.itl_values = np.array(list(counts), dtype=np.int64)
    metrics.itl_weights = np.array(list(counts.values()), dtype=np.int64)
    return metrics


def recorded_case(name: str) -> tuple[InstanceMetrics, str, str]:
    """A run of the reference on one instance: raw material, metrics file, stdout."""
    written = (DATA / f"{name}.metrics.json").read_text(encoding="utf-8")
    stdout = (DATA / f"{name}.stdout.txt").read_text(encoding="utf-8")
    block = json.loads(written)
    metrics = instance(
        *map(_request, block["requests"]),
        still_queued=block["still_queued"],
        still_running=block["still_running"],
        input_tokens=block["total_input_tokens"],
        output_tokens=block["total_output_tokens"],
        timed_out=block["timed_out_requests"],
        sim_ended=round(block["vllm_estimated_duration_s"] * 1e6),
    )
    return metrics, written, stdout


def _request(row: dict[str, Any]) -> Request:
    def us(name: str) -> int:
        return round(row[name] * 1000)

    reached = row["ttft_ms"] > 0
    return record(
        row["requestID"],
        round(row["arrived_at"] * 1e6),
        prompt=row["num_prefill_tokens"],
        output=row["num_decode_tokens"],
        ttft=us("ttft_ms") if reached else -1,
        e2e=us("e2e_ms") if row["e2e_ms"] else -1,
        delay=us("scheduling_delay_ms") if reached else -1,
        instance=row.get("handled_by", ""),
        slo_class=row.get("slo_class", ""),
        tenant=row.get("tenant_id", ""),
    )
