"""Fits the option ``scale`` of a latency model to one recorded run.

The factor makes the simulated mean time between tokens that of the recording. It is found by
bisection, since a longer step never shortens that time; each trial is a whole replay, because a
longer step also means that more requests run at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import attrs
import numpy as np

from blis_core.api import COMPLETED, BlisError, ReplayConfig, Trace, read_trace, simulate
from blis_validate.comparison import percent

OPTION: Final = "scale"
LOWEST, HIGHEST = 0.25, 4.0
"""Range in which the factor is sought."""
TOLERANCE: Final = 0.0005
"""Relative error of the mean time between tokens at which the search ends."""
MOST_TRIALS: Final = 20
DAY_US: Final = 86_400_000_000

METRICS: Final = ("ttft_mean", "ttft_p90", "ttft_p99", "e2e_mean", "e2e_p99", "itl_mean")


@attrs.frozen(kw_only=True)
class Fit:
    """The outcome of a fit. Figures are ms by metric."""

    scale: float
    trials: int
    requests: int
    """Compared requests."""
    measured: dict[str, float]
    before: dict[str, float]
    """Simulated without the factor."""
    after: dict[str, float]

    def errors(self, simulated: dict[str, float]) -> dict[str, float]:
        """Error in per cent by metric."""
        return {name: percent(simulated[name], self.measured[name]) for name in METRICS}


class _Recording:
    """What the client of a recorded run saw of the requests that count."""

    def __init__(self, trace: Trace, source: str) -> None:
        rtt_ms = trace.header.network.measured_rtt_ms if trace.header.network is not None else 0.0
        self.rtt_us = rtt_ms * 1000
        rows = [
            row
            for row in trace.rows
            if row.request_id >= trace.header.warm_up_requests
            and row.status in ("ok", "")
            and row.output_tokens > 1
            and row.send_time_us <= row.first_chunk_time_us < row.last_chunk_time_us
        ]
        if not rows:
            raise BlisError(
                f"{source}: no request of the trace was recorded with the times of its first and"
                " last chunk; record one with blis observe"
            )
        self.ids = [row.request_id for row in rows]
        sent = np.array([row.send_time_us for row in rows], dtype=np.float64)
        self.ttft = np.array([row.first_chunk_time_us for row in rows]) - sent
        self.e2e = np.array([row.last_chunk_time_us for row in rows]) - sent
        self.steps = np.array([row.output_tokens - 1 for row in rows], dtype=np.float64)


def fit_scale(
    config: ReplayConfig, on_trial: Callable[[int, float, float], None] = lambda *_: None
) -> Fit:
    """Fit the factor to the trace that ``config`` replays.

    ``on_trial(number, factor, error in per cent)`` is told of each replay. BlisError if the latency
    model has no such option, or if no factor in the range will do.
    """
    trace = read_trace(config.trace_header, config.trace_data)
    recording = _Recording(trace, config.trace_data)
    if config.horizon is None:
        last = max(trace.rows.column("arrival_time_us"))
        config = attrs.evolve(config, horizon=2 * last + DAY_US)
    own = tuple(text for text in config.latency_option if text.partition("=")[0] != OPTION)
    trials = 0

    def replayed(scale: float) -> tuple[dict[str, float], dict[str, float], int]:
        nonlocal trials
        trials += 1
        options = (*own, f"{OPTION}={scale!r}")
        figures = _compare(recording, attrs.evolve(config, latency_option=options))
        on_trial(trials, scale, percent(figures[1]["itl_mean"], figures[0]["itl_mean"]))
        return figures

    measured, before, count = replayed(1.0)
    scale, after = 1.0, before
    low, high = LOWEST, HIGHEST
    while trials < MOST_TRIALS:
        ratio = after["itl_mean"] / measured["itl_mean"]
        if abs(ratio - 1) <= TOLERANCE:
            break
        low, high = (low, scale) if ratio > 1 else (scale, high)
        # the step is most of the time between tokens, so that its ratio is a good next guess
        guess = scale / ratio
        scale = guess if low < guess < high else math.sqrt(low * high)
        if high / low < 1 + TOLERANCE / 10:
            break
        measured, after, count = replayed(scale)
    error = percent(after["itl_mean"], measured["itl_mean"])
    if abs(error) > 1.0:
        raise BlisError(
            f"no factor from {LOWEST} to {HIGHEST} gives the recorded time between tokens: with"
            f" {scale:.4g} it is {error:+.1f} % off; check model, GPU, --tp and the engine options"
        )
    return Fit(
        scale=round(scale, 6),
        trials=trials,
        requests=count,
        measured=measured,
        before=before,
        after=after,
    )


def _compare(
    recording: _Recording, config: ReplayConfig
) -> tuple[dict[str, float], dict[str, float], int]:
    """Figures of recording and simulation over the requests that completed in both."""
    done = {
        int(r.id.rpartition("_")[2]): r for r in simulate(config).requests if r.state == COMPLETED
    }
    both = np.array([number in done for number in recording.ids])
    if not both.any():
        raise BlisError("no request of the trace completes in the simulation")
    found = [done[number] for number in recording.ids if number in done]
    ttft = np.array([r.ttft for r in found], dtype=np.float64) + recording.rtt_us
    e2e = np.array([r.e2e for r in found], dtype=np.float64) + recording.rtt_us
    steps = recording.steps[both]
    return (
        _figures(recording.ttft[both], recording.e2e[both], steps),
        _figures(ttft, e2e, steps),
        len(found),
    )


def _figures(ttft: np.ndarray, e2e: np.ndarray, steps: np.ndarray) -> dict[str, float]:
    return {
        "ttft_mean": float(ttft.mean()) / 1000,
        "ttft_p90": float(np.percentile(ttft, 90)) / 1000,
        "ttft_p99": float(np.percentile(ttft, 99)) / 1000,
        "e2e_mean": float(e2e.mean()) / 1000,
        "e2e_p99": float(np.percentile(e2e, 99)) / 1000,
        "itl_mean": float((e2e - ttft).sum() / steps.sum()) / 1000,
    }
