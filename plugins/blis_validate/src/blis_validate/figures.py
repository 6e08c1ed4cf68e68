"""The figures that are compared: of a simulation, in the terms of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from blis_core.api import COMPLETED
from blis_validate.dataset import Measured, Stage

if TYPE_CHECKING:
    from blis_core.api import Request

METRICS: Final = (
    "ttft_mean",
    "ttft_p50",
    "ttft_p90",
    "ttft_p95",
    "ttft_p99",
    "e2e_mean",
    "e2e_p50",
    "e2e_p90",
    "e2e_p95",
    "e2e_p99",
    "itl_mean",
    "throughput",
    "capacity",
    "request_e2e",
)
"""Latencies in ms; completed requests per second, as throughput under an offered rate, and as
capacity in a burst, where nothing but the server bounds it; the error of E2E request by request,
which is no figure of a run."""

LEAST_RATE: Final = 0.93
"""Share of the offered rate below which a stage counts as overloaded."""
LONG_STAGE: Final = 10
"""Mean answers that a stage must last for that rule."""
PAUSE_S: Final = 1.5
"""Between the last answer of a stage and the first request of the next."""
LATE_TTFT_MS: Final = 1000.0
"""Mean TTFT in the last quarter of a stage above which it counts as overloaded."""


@attrs.frozen(kw_only=True)
class Figures:
    """One run, or one stage of it."""

    values: dict[str, float]
    """By metric; without those that are not known."""
    completed: int = 0
    failed: int = 0
    overloaded: bool = False


def measured_figures(measured: Measured, *, burst: bool = False) -> dict[str, float]:
    """What a data set says, by metric; without what was not measured."""
    values: dict[str, float] = {}
    for kind, statistics in (("ttft", measured.ttft_ms), ("e2e", measured.e2e_ms)):
        for name in ("mean", "p50", "p90", "p95", "p99"):
            values[f"{kind}_{name}"] = getattr(statistics, name)
    values["itl_mean"] = measured.itl_ms.mean
    rate = measured.throughput.requests_per_s or measured.requests_per_s
    values["capacity" if burst else "throughput"] = rate
    return {metric: value for metric, value in values.items() if value > 0}


def simulated_figures(
    requests: Sequence[Request], sizes: Sequence[int], stages: Sequence[Stage]
) -> tuple[Figures, list[Figures]]:
    """The whole run and its stages. ``requests`` are the records of the simulation, any order.

    ``sizes`` are the numbers of requests of the ``stages``, which are numbered through; both may be
    empty. Requests that did not complete are left out of latencies.
    """
    number = np.array([int(r.id.rpartition("_")[2]) for r in requests])
    stage_of = np.searchsorted(np.cumsum(sizes), number, "right") if sizes else 0 * number
    done = np.array([r.state == COMPLETED for r in requests], dtype=bool)
    arrived = np.array([r.arrival for r in requests])
    output = np.array([r.output_len for r in requests])
    ttft = np.where(done, np.array([r.ttft for r in requests], dtype=np.float64), np.nan)
    e2e = np.where(done, np.array([r.e2e for r in requests], dtype=np.float64), np.nan)
    waited = np.array([_waited(r) for r in requests], dtype=np.float64)
    count = max(1, len(stages))
    spans = [_span_s(arrived, e2e, stage_of == k) for k in range(count)]
    single = [
        _figures(
            ttft[chosen := stage_of == k],
            e2e[chosen],
            output[chosen],
            spans[k],
            _overloaded(arrived[chosen], waited[chosen], e2e[chosen], stages[k], spans[k])
            if stages
            else False,
            burst=not stages,
        )
        for k in range(count)
    ]
    total = sum(spans) + PAUSE_S * (count - 1)
    overloaded = any(part.overloaded for part in single)
    return _figures(ttft, e2e, output, total, overloaded, burst=not stages), single


def _waited(request: Request) -> float:
    """us until the first token, or until the client gave up; NaN if neither happened."""
    if request.ttft >= 0:
        return request.ttft
    return request.deadline - request.arrival if request.deadline > 0 else np.nan


def _span_s(arrived: Any, e2e: Any, chosen: Any) -> float:
    """Seconds from the first arrival to the last completion."""
    ends = (arrived + e2e)[chosen & ~np.isnan(e2e)]
    return float(ends.max() - arrived[chosen].min()) / 1e6 if len(ends) else 0.0


def _figures(
    ttft: Any, e2e: Any, output: Any, span_s: float, overloaded: bool, *, burst: bool
) -> Figures:
    done = ~np.isnan(e2e)
    completed = int(done.sum())
    values: dict[str, float] = {}
    if completed:
        for kind, times in (("ttft", ttft[done]), ("e2e", e2e[done])):
            values[f"{kind}_mean"] = float(times.mean()) / 1000
            for p in (50, 90, 95, 99):
                values[f"{kind}_p{p}"] = float(np.percentile(times, p)) / 1000
        decoded = float(np.maximum(output[done] - 1, 1).mean())
        values["itl_mean"] = (values["e2e_mean"] - values["ttft_mean"]) / decoded
        if span_s > 0:
            values["capacity" if burst else "throughput"] = completed / span_s
    return Figures(
        values=values,
        completed=completed,
        failed=len(done) - completed,
        overloaded=overloaded,
    )


def _overloaded(arrived: Any, waited: Any, e2e: Any, stage: Stage, span_s: float) -> bool:
    """Whether the server could not keep up with a stage."""
    done = ~np.isnan(e2e)
    if not done.any():
        return True
    late = arrived >= arrived.min() + 0.75 * stage.duration_s * 1e6
    late_ttft = waited[late & ~np.isnan(waited)]
    if len(late_ttft) and late_ttft.mean() / 1000 > LATE_TTFT_MS:
        return True
    mean_s = float(e2e[done].mean()) / 1e6
    long = stage.duration_s >= LONG_STAGE * mean_s
    return bool(long and int(done.sum()) < LEAST_RATE * stage.rate_rps * span_s)
