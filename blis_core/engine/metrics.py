"""What one instance counts and collects while it runs; the raw material of every result."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blis_core.contracts import FloatArray, IntArray, Request


class InstanceMetrics:
    """Counters and per-request records of one instance, filled by the engine.

    Counters start at 0. Times are integer us, token counts are tokens, rates are in [0, 1].
    """

    __slots__ = (
        "archive",
        "cache_hit_rate",
        "completed",
        "dropped_unservable",
        "input_tokens",
        "instance_id",
        "itl_values",
        "itl_weights",
        "kv_allocation_failures",
        "length_capped",
        "output_tokens",
        "peak_used_blocks",
        "preemptions",
        "queue_samples",
        "queue_sum",
        "requests",
        "sim_ended",
        "still_queued",
        "still_running",
        "thrashing_rate",
        "timed_out",
    )

    def __init__(self, instance_id: str = "") -> None:
        self.instance_id = instance_id
        self.completed = 0
        self.still_queued = 0  # waiting when the simulation ended
        self.still_running = 0  # in the batch when the simulation ended
        self.input_tokens = 0
        self.output_tokens = 0
        self.dropped_unservable = 0
        self.timed_out = 0
        self.length_capped = 0  # among the completed
        self.preemptions = 0
        self.kv_allocation_failures = 0
        self.sim_ended = 0  # us
        self.cache_hit_rate = 0.0
        self.thrashing_rate = 0.0
        self.queue_sum = 0  # sum of the wait queue's length over all executed steps
        self.queue_samples = 0  # number of executed steps
        self.peak_used_blocks = 0
        self.requests: list[Request] = []
        """Every request that reached the instance and was not dropped as unservable; of long runs
        only those that have not ended."""
        self.archive: Sequence[Request] | None = None
        """At the end of a long run: all requests, in a form that takes less memory."""
        self.itl_values: IntArray | None = None
        """Inter-token latencies (us, int64) of completed requests, in any order; None = none."""
        self.itl_weights: IntArray | FloatArray | None = None
        """How often each of ``itl_values`` occurred (whole numbers >= 0); None = once each."""

    @property
    def records(self) -> Sequence[Request]:
        """At the end of the run: every request, in the order in which they came."""
        return self.requests if self.archive is None else self.archive

    @property
    def injected(self) -> int:
        """Requests that reached the instance, as the reference derives the figure."""
        return (
            self.completed
            + self.still_queued
            + self.still_running
            + self.dropped_unservable
            + self.timed_out
        )

    @property
    def mean_queue_length(self) -> float:
        """Mean length of the wait queue over the executed steps; 0 without steps."""
        return self.queue_sum / self.queue_samples if self.queue_samples else 0.0
