"""Prometheus metrics of ``blis serve``, under the names that vLLM uses.

Times are in seconds of the wall clock, as clients see them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from blis_core.api import LiveInstance, Request

_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20,
          40, 80, 160)  # fmt: skip
_BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_WHOLE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)


class _Histogram:
    """Counts by upper bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def family(self, name: str, text: str, model: str) -> Metric:
        buckets, total = [], 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((str(bound), total))
        family = HistogramMetricFamily(name, text, labels=["model_name"])
        family.add_metric([model], buckets, self._sum)
        return family


class Metrics(Collector):
    """The metrics of one server. ``time_scale`` as in its options."""

    def __init__(self, live: LiveInstance, model: str, time_scale: float) -> None:
        self._live, self._model = live, model
        self._second = time_scale / 1e6
        self._prompt_tokens = self._output_tokens = 0
        self._ended: Counter[str] = Counter()
        self._first = _Histogram(_FIRST)
        self._between = _Histogram(_BETWEEN)
        self._whole = _Histogram(_WHOLE)
        self._queued = _Histogram(_WHOLE)
        self._prompts = _Histogram(_TOKENS)
        self._outputs = _Histogram(_TOKENS)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def finished(self, request: Request, reason: str) -> None:
        """A request has been answered to the end."""
        second = self._second
        self._ended[reason] += 1
        self._prompt_tokens += request.prompt_len
        self._output_tokens += request.output_len
        self._first.add(request.ttft * second)
        self._whole.add(request.e2e * second)
        self._queued.add(request.scheduling_delay * second)
        self._prompts.add(request.prompt_len)
        self._outputs.add(request.output_len)
        if request.itl_count:
            # each token of an answer counts with the mean of the answer
            self._between.add(request.itl_sum / request.itl_count * second, request.itl_count)

    def aborted(self) -> None:
        """A client has gone before the end."""
        self._ended["abort"] += 1

    def text(self) -> bytes:
        """All metrics in the text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        live, model = self._live, self._model
        for name, value, text in (
            ("num_requests_running", live.running, "Requests in the running batch."),
            ("num_requests_waiting", live.waiting, "Requests that wait for a place in it."),
            ("kv_cache_usage_perc", live.kv_utilization, "Used share of the KV cache; 1 = all."),
            ("gpu_cache_usage_perc", live.kv_utilization, "The same under its older name."),
            ("prefix_cache_hit_rate", live.cache_hit_rate, "Share of prompt blocks found cached."),
        ):
            gauge = GaugeMetricFamily(f"vllm:{name}", text, labels=["model_name"])
            gauge.add_metric([model], value)
            yield gauge
        for name, value, text in (
            ("num_preemptions", live.preemptions, "Requests that lost their KV blocks."),
            ("prompt_tokens", self._prompt_tokens, "Prompt tokens of answered requests."),
            ("generation_tokens", self._output_tokens, "Output tokens of answered requests."),
        ):
            counter = CounterMetricFamily(f"vllm:{name}", text, labels=["model_name"])
            counter.add_metric([model], value)
            yield counter
        ended = CounterMetricFamily(
            "vllm:request_success",
            "Requests by how they ended.",
            labels=["model_name", "finished_reason"],
        )
        for reason in ("stop", "length", "abort"):
            ended.add_metric([model, reason], self._ended[reason])
        yield ended
        for histogram, name, text in (
            (self._first, "time_to_first_token_seconds", "Time to the first token."),
            (self._between, "inter_token_latency_seconds", "Time between tokens."),
            (self._between, "time_per_output_token_seconds", "The same under its older name."),
            (self._whole, "e2e_request_latency_seconds", "Time to the last token."),
            (self._queued, "request_queue_time_seconds", "Time in the queue."),
            (self._prompts, "request_prompt_tokens", "Prompt tokens of a request."),
            (self._outputs, "request_generation_tokens", "Output tokens of a request."),
        ):
            yield histogram.family(f"vllm:{name}", text, model)
