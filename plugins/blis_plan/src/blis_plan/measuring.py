"""What one run says about SLOs: their values, what failed, and whether it could go on like this.

**Failures.** Every request that was sent counts. One that timed out, was dropped, rejected or shed,
or had not finished when the simulation ended, counts as infinitely slow. So a percentile bears as
many failures as it leaves out of account, and a mean bears none. If nothing fails, the values are
those that ``blis run`` prints.

**Sustained.** A run that ends can meet an SLO at any rate, because its queue has no time to grow.
Of a steady load the *backlog* tells: the share of the requests that arrive in the second half by
which completions in that time fall short of them. In the first half the batches fill up. A load
that changes by itself has a backlog whenever it rises, so there the *growth* of latencies tells: if
requests come faster than they are served, by a share f of the rate, the latency of a request grows
by f/(1 - f) seconds for every second that it comes later. The last quarter is compared with the
second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from blis_core.api import BlisError
from blis_plan.slo import MEAN, Slo

if TYPE_CHECKING:
    from blis_core.api import Request, Results

MOST_BACKLOG: Final = 0.02
"""Share of requests left over, beyond which a steady load is not sustained."""
MOST_GROWTH: Final = 0.15
"""Growth of latencies (s per s) beyond which a load that changes by itself is not sustained; it is
larger, because they may rise for a while."""
NOISE: Final = 3.0
"""Standard errors that are put down to chance."""
LEAST_VARIANCE: Final = 0.25
"""Variance of the number in flight over its mean, if requests come in equal gaps: their lengths
still differ. With Poisson arrivals it is 1."""
FEWEST: Final = 20
"""Requests without which nothing can be said either."""
SHORTEST_SPAN: Final = 4.0
"""Mean end-to-end latencies that arrivals have to go on for, or nothing can be said."""


@attrs.frozen(kw_only=True)
class Run:
    """One simulation, as far as planning is concerned."""

    seed: int
    sent: int
    completed: int
    failed: tuple[tuple[str, int], ...]
    """What became of the others, and of how many."""
    values: tuple[float, ...]
    """One for each SLO; inf where failures count."""
    misses: tuple[float, ...]
    """Requests beyond the limit of each SLO; of a mean, the sum of what they take, in limits; 0 for
    times between tokens."""
    offered: float
    """Arrivals per second, from the first to the last."""
    achieved: float
    """Completions per second in the second half of that time."""
    growth: float
    """Growth of the end-to-end latency in s per s; nan = too few requests to tell."""
    growth_noise: float
    """Its standard error."""
    backlog: float
    """Share of the requests of the second half that are left over; nan = nothing to tell from."""
    backlog_noise: float
    """Its standard error if the server is always busy: that of the work that arrives."""
    backlog_jitter: float
    """Its standard error if it is not: that of a change in the number of requests in flight."""
    span_s: float
    """From the first arrival to the last."""
    e2e_mean_s: float
    """Of completed requests; 0 = none."""
    output_tokens: float
    """Mean output of a completed request."""
    total_tokens: float
    """Mean prompt and output together."""
    peak_used_blocks: int
    """KV blocks of the fullest instance."""
    preemptions: int
    length_capped: int
    changing_fleet: bool
    """Whether instances came and went."""
    warnings: tuple[str, ...]
    """Of the latency model."""
    outside: tuple[str, ...] | None
    """In what the run differs from all that the latency model was compared with; None = the latency
    model does not know."""
    unstable: tuple[str, ...]
    early: bool = False
    """Whether it is the short run before the one that was meant, and settled the matter."""

    def sustained(self, steady: bool) -> bool:
        """Whether latencies stay what they are; also true if nothing can be said."""
        if steady:
            return not self.backlog > self.blind
        return not self.growth > MOST_GROWTH + NOISE * self.growth_noise

    @property
    def arriving(self) -> float:
        """Arrivals per second in that half."""
        return self.achieved / (1 - self.backlog) if self.backlog < 1 else self.offered

    @property
    def doubtful(self) -> bool:
        """Whether a longer run may say something else of a steady load: if there is a backlog, it
        may be that of a batch which has just become larger."""
        return self.backlog >= MOST_BACKLOG - NOISE * self.backlog_jitter

    @property
    def blind(self) -> float:
        """The share of the load by which it may be too much without being noticed."""
        return MOST_BACKLOG + NOISE * self.backlog_noise

    @property
    def long_enough(self) -> bool:
        """Whether the run says anything about a load that goes on."""
        return self.span_s >= SHORTEST_SPAN * self.e2e_mean_s and self.sent >= FEWEST


def measure(results: Results, slos: Sequence[Slo], seed: int) -> Run:
    """What ``results`` say about ``slos``. BlisError if no request was sent."""
    cluster = results.cluster
    done = [request for request in results.requests if request.e2e >= 0]
    failed = _failed(results)
    sent = len(done) + sum(count for _, count in failed)
    if sent == 0:
        raise BlisError("the load has no request; check its rate, number and horizon")
    times = _Times(done, sent - len(done))
    every = np.array([request.arrival for request in results.requests], dtype=np.float64)
    span = float(every.max() - every.min()) / 1e6 if len(every) else 0.0
    growth, noise = times.growth()
    half = times.second_half(every)
    accuracy = results.accuracy
    return Run(
        seed=seed,
        sent=sent,
        completed=len(done),
        failed=failed,
        values=tuple(_value(slo, times, results) for slo in slos),
        misses=tuple(_misses(slo, times) for slo in slos),
        offered=(len(every) - 1) / span if span > 0 else 0.0,
        achieved=half.achieved,
        growth=growth,
        growth_noise=noise,
        backlog=half.backlog,
        backlog_noise=half.noise,
        backlog_jitter=half.jitter,
        span_s=span,
        e2e_mean_s=float(times.e2e.mean()) / 1e6 if done else 0.0,
        output_tokens=sum(r.output_len for r in done) / len(done) if done else 0.0,
        total_tokens=sum(r.prompt_len + r.output_len for r in done) / len(done) if done else 0.0,
        peak_used_blocks=cluster.peak_used_blocks,
        preemptions=cluster.preemption_count,
        length_capped=cluster.length_capped_requests,
        changing_fleet=results.fleet is not None,
        warnings=tuple(results.warnings),
        outside=None if accuracy is None else accuracy.outside,
        unstable=() if accuracy is None else accuracy.unstable,
    )


def _failed(results: Results) -> tuple[tuple[str, int], ...]:
    cluster, found = results.cluster, results.anomalies
    counts = (
        ("timed out", cluster.timed_out_requests),
        ("too large for KV cache or model", cluster.dropped_unservable),
        ("rejected at admission", found.rejected_admission),
        ("rejected at routing", found.rejected_routing),
        ("shed at the gateway", found.gateway_shed),
        ("lost in drain", found.lost_in_drain),
        (
            "unfinished at the end",
            cluster.still_queued + cluster.still_running + found.gateway_depth + results.in_transit,
        ),
    )
    return tuple((reason, count) for reason, count in counts if count)


@attrs.frozen(kw_only=True)
class _Half:
    """What the second half of a run says of its backlog, in the terms of :class:`Run`."""

    achieved: float = 0.0
    backlog: float = math.nan
    noise: float = math.nan
    jitter: float = math.nan


class _Times:
    """Latencies of completed requests in us, in order of arrival."""

    def __init__(self, done: Sequence[Request], failed: int) -> None:
        self.failed = failed
        rows = [
            (r.arrival, r.ttft, r.e2e, r.mean_itl_us(), r.output_len, r.prompt_len) for r in done
        ]
        columns = np.array(rows, dtype=np.float64).reshape(-1, 6)
        columns = columns[np.argsort(columns[:, 0], kind="stable")]
        self.arrival, self.ttft, self.e2e, tpot, outputs, prompts = columns.T
        self.tokens = outputs + prompts
        self.tpot = tpot[outputs > 1]
        """Of requests with more than one token."""
        self._tpot_of_all = np.where(outputs > 1, tpot, 0.0)

    def of(self, metric: str) -> Any:
        return {"ttft": self.ttft, "e2e": self.e2e, "tpot": self.tpot}[metric]

    def mean_ms(self, metric: str) -> float:
        values = self.of(metric)
        if self.failed or not len(values):
            return math.inf if self.failed else 0.0
        return float(np.add.accumulate(np.sort(values))[-1]) / len(values) / 1000.0

    def percentile_ms(self, metric: str, p: float) -> float:
        """By linear interpolation in the same order of operations as the results'."""
        values = np.sort(self.of(metric))
        count = len(values) + self.failed
        if not count:
            return 0.0
        rank = (p / 100.0) * float(count - 1)
        low, high = math.floor(rank), math.ceil(rank)
        if high >= len(values):
            return math.inf
        below = float(values[low])
        return below / 1000.0 + ((float(values[high]) - below) * (rank - float(low))) / 1000.0

    def keeping(self, bounds: Sequence[tuple[str, float]]) -> float:
        """The share of all requests that keep every one of ``bounds`` (ms)."""
        kept = np.ones(len(self.e2e), dtype=bool)
        for metric, limit in bounds:
            values = self._tpot_of_all if metric == "tpot" else self.of(metric)
            kept &= values <= limit * 1000
        return float(kept.sum()) / (len(kept) + self.failed)

    def second_half(self, every: Any) -> _Half:
        """The second half of the time in which requests arrived, at the times ``every``."""
        every = np.sort(every)
        span = float(every[-1] - every[0]) if len(every) else 0.0
        if span == 0:
            return _Half()
        # a little before the last arrival, where a burst is no more likely than elsewhere
        start, end = every[0] + 0.45 * span, every[0] + 0.95 * span
        ends = self.arrival + self.e2e
        ended = int(((ends > start) & (ends <= end)).sum())
        arrived = int(((every > start) & (every <= end)).sum())
        if not arrived:
            return _Half()
        gaps = np.diff(every)
        bursts = float(gaps.var() / gaps.mean() ** 2)
        sizes = float(self.tokens.var() / self.tokens.mean() ** 2) if len(self.tokens) else 0.0
        in_flight = float(self.e2e.sum()) / span
        return _Half(
            achieved=ended * 2e6 / span,
            backlog=1 - ended / arrived,
            noise=math.sqrt((bursts + sizes) / arrived),
            jitter=math.sqrt(2 * in_flight * max(LEAST_VARIANCE, bursts)) / arrived,
        )

    def growth(self) -> tuple[float, float]:
        """Growth of the end-to-end latency per time of arrival, and its standard error."""
        if len(self.arrival) < 40:
            return math.nan, math.nan
        first, last = self.arrival[0], self.arrival[-1]
        quarter = (last - first) / 4
        if quarter <= 0:
            return math.nan, math.nan
        number = np.minimum((self.arrival - first) // quarter, 3)
        second, fourth = self.e2e[number == 1], self.e2e[number == 3]
        if min(len(second), len(fourth)) < 10:
            return math.nan, math.nan
        error = math.sqrt(second.var() / len(second) + fourth.var() / len(fourth))
        return float(fourth.mean() - second.mean()) / (2 * quarter), error / (2 * quarter)


def _value(slo: Slo, times: _Times, results: Results | None) -> float:
    completed = len(times.e2e)
    if slo.bounds:
        return times.keeping(slo.bounds)
    if slo.is_share:
        return completed / (completed + times.failed)
    if slo.metric == "itl":
        assert results is not None
        return _itl(slo, times, results)
    if slo.percentile is None:
        return times.mean_ms(slo.metric)
    return times.percentile_ms(slo.metric, slo.percentile)


def _misses(slo: Slo, times: _Times) -> float:
    if slo.is_share:
        return (1 - _value(slo, times, None)) * (len(times.e2e) + times.failed)
    if slo.metric == "itl":
        return 0.0
    limits = times.of(slo.metric) / (slo.limit * 1000)
    if slo.percentile is None:
        return math.inf if times.failed else float(limits.sum())
    return float((limits > 1).sum()) + times.failed


def _itl(slo: Slo, times: _Times, results: Results) -> float:
    """Times between tokens are known of completed requests only, all of them together."""
    share = times.failed / (len(times.e2e) + times.failed)
    if slo.percentile is None:
        borne, name = 0.0, MEAN
    else:
        borne, name = 1 - slo.percentile / 100, f"p{slo.percentile:g}"
    if share > borne:
        return math.inf
    return float(getattr(results.cluster, f"itl_{name}_ms"))
