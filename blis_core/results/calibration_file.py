"""The report of ``blis calibrate``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from blis_core.results.numbers import json_text
from blis_core.trace.calibration import KNOWN_LIMITATIONS

if TYPE_CHECKING:
    from blis_core.trace.calibration import Calibration


def write(path: str, calibration: Calibration) -> None:
    """Write the report, whole or not at all. BlisError if that is not possible."""
    from blis_core.files import atomic_write

    atomic_write(path, render(calibration))


def render(calibration: Calibration) -> str:
    """The report as JSON. BlisError for figures that are too large for it."""
    counts = calibration.counts
    info = {
        "num_requests": counts.requests,
        "warm_up_excluded": counts.excluded,
        "matched_pairs": counts.matched,
        "token_mismatches": counts.mismatches,
    }
    if counts.itl_dropped:
        info["itl_dropped"] = counts.itl_dropped
    report: dict[str, Any] = {
        "trace_info": info,
        "metrics": {
            name: attrs.asdict(calibration.metrics[name]) for name in sorted(calibration.metrics)
        },
        "config_match": {},
        "known_limitations": KNOWN_LIMITATIONS,
    }
    return json_text(report)


def summary(calibration: Calibration) -> Iterator[str]:
    """The main figures in a few lines."""
    counts = calibration.counts
    yield (
        f"{counts.matched} requests matched, {counts.excluded} left out as warm-up"
        f"{f', {counts.failed} because they failed' if counts.failed else ''},"
        f" {counts.unmatched_real} of the trace and {counts.unmatched_sim} of the simulation"
        " without a partner"
    )
    for name in sorted(calibration.metrics):
        metric = calibration.metrics[name]
        whole, single = metric.workload_level, metric.request_level
        yield (
            f"{name}: mean {whole.real_mean / 1000:.3f} ms measured,"
            f" {whole.sim_mean / 1000:.3f} simulated; p99 {whole.real_p99 / 1000:.3f} and"
            f" {whole.sim_p99 / 1000:.3f}; MAPE {single.mape:.1%}, r {single.pearson_r:.3f},"
            f" {single.quality} ({metric.count} pairs)"
        )
    yield calibration.explanation.summary()
