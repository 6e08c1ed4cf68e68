"""Key figures of runs side by side, with their differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from blis_report.findings import key_figures
from blis_report.quantities import duration, percent, significant
from blis_report.targets import Target, attainments

if TYPE_CHECKING:
    from blis_report.runs import Run


@attrs.frozen
class Figure:
    """A figure that is compared."""

    key: str
    label: str
    show: Callable[[float], str]
    better: int
    """1: more is better, -1: less is better, 0: neither."""


def _count(value: float) -> str:
    return f"{value:,.0f}"


FIGURES = (
    Figure("requests", "Requests", _count, 0),
    Figure("completed", "Completed", percent, 1),
    Figure("request_rate", "Completed per second", significant, 1),
    Figure("token_rate", "Output tokens per second", significant, 1),
    Figure("ttft_p50", "TTFT, median", duration, -1),
    Figure("ttft_p90", "TTFT, 90th percentile", duration, -1),
    Figure("ttft_p99", "TTFT, 99th percentile", duration, -1),
    Figure("itl_mean", "ITL, mean", duration, -1),
    Figure("itl_p99", "ITL, 99th percentile", duration, -1),
    Figure("e2e_p50", "E2E, median", duration, -1),
    Figure("e2e_p90", "E2E, 90th percentile", duration, -1),
    Figure("e2e_p99", "E2E, 99th percentile", duration, -1),
    Figure("wait_p99", "Waiting, 99th percentile", duration, -1),
    Figure("preemptions", "Preemptions", _count, -1),
    Figure("prefix_hits", "Prompt tokens from the cache", percent, 1),
    Figure("kv_peak", "KV cache in use, peak", percent, 0),
    Figure("busy", "Instances busy", percent, 0),
    Figure("imbalance", "Busiest instance over the mean", lambda v: f"{v:.2f}", -1),
)


@attrs.frozen
class Cell:
    """One figure of one run, beside the first run's."""

    text: str
    change: str
    """Against the first run, such as ``+12 %``; "" = there is nothing to say."""
    verdict: str
    """better, worse or ""."""


def compare(runs: Sequence[Run], targets: Sequence[Target]) -> list[tuple[str, list[Cell]]]:
    """Rows of label and one cell per run; figures that no run has are left out."""
    values = [key_figures(run.recording) for run in runs]
    figures = list(FIGURES)
    if targets:
        figures.insert(2, Figure("slo", "Targets met", percent, 1))
        for run, found in zip(runs, values, strict=True):
            found["slo"] = overall(run, targets)
    rows = []
    for figure in figures:
        row = [found[figure.key] for found in values]
        if all(value is None for value in row):
            continue
        rows.append((figure.label, [_cell(figure, value, row[0]) for value in row]))
    return rows


def overall(run: Run, targets: Sequence[Target]) -> float | None:
    """Share of the requests that met all targets of their class; None if nobody was asked."""
    found = attainments(run.recording, targets)
    last = {each.slo_class: each for each in found}  # "all" comes last, where there is one
    counted = sum(each.counted for each in last.values())
    return sum(each.met for each in last.values()) / counted if counted else None


def _cell(figure: Figure, value: float | None, first: float | None) -> Cell:
    if value is None:
        return Cell("-", "", "")
    text = figure.show(value)
    if first is None or value == first or not math.isfinite(value):
        return Cell(text, "", "")
    if figure.show is percent:
        change = f"{(value - first) * 100:+.1f} points"
        small = abs(value - first) < 5e-4
    elif first:
        change = _relative(value / first)
        small = abs(value / first - 1) < 5e-4
    else:
        change, small = "from 0", False
    if small or text == figure.show(first):
        return Cell(text, "", "")
    direction = figure.better * (1 if value > first else -1)
    return Cell(text, change, {1: "better", -1: "worse"}.get(direction, ""))


def _relative(ratio: float) -> str:
    if ratio >= 3:
        return f"{significant(ratio, 2)} times"
    return f"{(ratio - 1) * 100:+.1f} %"
