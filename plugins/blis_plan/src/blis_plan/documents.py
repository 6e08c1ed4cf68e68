"""Trials as plain data for JSON, and in a word or two."""

from __future__ import annotations

import math
from typing import Any

from blis_plan.probing import Probe, Trials
from blis_plan.tables import finite


def verdict(probe: Probe) -> str:
    """In a word or two."""
    if probe.met:
        return "met"
    if probe.violated:
        return f"not met: {probe.binding}"
    return "not sustained" if not probe.sustained else "too short"


def probe_document(probe: Probe) -> dict[str, Any]:
    """One trial."""
    return {
        "rate": probe.rate,
        "met": probe.met,
        "verdict": verdict(probe),
        "why": probe.why,
        "binding": probe.binding,
        "headroom": finite(probe.headroom),
        "slos": {
            slo.name: {"value": finite(value), "headroom": finite(1 - use)}
            for slo, value, use in zip(probe.slos, probe.values, probe.uses, strict=True)
        },
        "achieved": probe.achieved,
        "growth_s_per_s": None if math.isnan(probe.growth) else probe.growth,
        "sustained": probe.sustained,
        "long_enough": probe.long_enough,
        "stopped_early": probe.early,
        "runs": [
            {
                "seed": run.seed,
                "sent": run.sent,
                "completed": run.completed,
                "failed": dict(run.failed),
                "values": dict(
                    zip((s.name for s in probe.slos), map(finite, run.values), strict=True)
                ),
                "offered": run.offered,
                "achieved": run.achieved,
                "e2e_mean_s": run.e2e_mean_s,
                "span_s": run.span_s,
            }
            for run in probe.runs
        ],
    }


def slo_documents(trials: Trials) -> list[dict[str, Any]]:
    """The objectives; latencies in ms, shares in [0, 1]."""
    return [
        {
            "name": slo.name,
            "limit": slo.limit,
            "unit": "share" if slo.is_share else "ms",
            **({"bounds_ms": dict(slo.bounds)} if slo.bounds else {}),
        }
        for slo in trials.slos
    ]
