"""Bounds that a comparison must keep: ``--max e2e_mean=8``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from blis_core.api import UsageError
from blis_validate.comparison import Comparison, summarise
from blis_validate.figures import METRICS

STATISTICS: Final = ("mean", "median", "worst")
KV_BLOCKS: Final = "kv_blocks"
"""The one bound that is no metric of a run: the estimated KV blocks against published ones."""


@attrs.frozen
class Limit:
    """Most per cent that a statistic of the errors in a metric may reach."""

    metric: str
    statistic: str
    percent: float

    def __str__(self) -> str:
        return f"{self.metric}.{self.statistic}={self.percent:g}"


def parse_limit(text: str) -> Limit:
    """A limit in the form METRIC=PERCENT or METRIC.STATISTIC=PERCENT; mean is the default."""
    name, equals, value = text.partition("=")
    metric, _, statistic = name.partition(".")
    statistic = statistic or ("worst" if metric == KV_BLOCKS else "mean")
    if not equals or metric not in (*METRICS, KV_BLOCKS) or statistic not in STATISTICS:
        raise UsageError(
            f"--max {text}: expected METRIC=PERCENT or METRIC.STATISTIC=PERCENT, with a metric out"
            f" of {', '.join((*METRICS, KV_BLOCKS))} and a statistic out of"
            f" {', '.join(STATISTICS)}"
        )
    try:
        bound = float(value)
    except ValueError:
        bound = float("nan")
    if not bound >= 0:
        raise UsageError(f"--max {text}: {value!r} is not a number of at least 0")
    return Limit(metric, statistic, bound)


def exceeded(limits: Iterable[Limit], comparisons: Sequence[Comparison]) -> list[str]:
    """One line for each limit that is not kept, or that nothing can be compared with."""
    problems = []
    for limit in limits:
        found = _found(limit, comparisons)
        if found is None:
            problems.append(f"{limit}: no record can be compared")
        elif found > limit.percent:
            problems.append(f"{limit}: it is {found:.2f} %")
    return problems


def _found(limit: Limit, comparisons: Sequence[Comparison]) -> float | None:
    if limit.metric == KV_BLOCKS:
        errors = [abs(e) for c in comparisons if (e := c.kv_error) is not None]
        if not errors:
            return None
        if limit.statistic == "worst":
            return max(errors)
        return statistics.fmean(errors) if limit.statistic == "mean" else statistics.median(errors)
    summary = summarise(comparisons, limit.metric)
    return None if summary is None else float(getattr(summary, limit.statistic))
