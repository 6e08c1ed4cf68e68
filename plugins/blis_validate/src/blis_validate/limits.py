"""Bounds that a comparison must keep: ``--max e2e_mean=8``, ``--min rank_e2e=0.99``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from blis_core.api import UsageError
from blis_validate.comparison import Comparison, summarise
from blis_validate.figures import METRICS

STATISTICS: Final = ("mean", "median", "worst")
RANKS: Final = ("rank_e2e", "rank_ttft")
"""Rank correlations of single requests, which have a lower bound."""
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


@attrs.frozen
class Floor:
    """Least rank correlation that each record with single requests must reach."""

    metric: str
    value: float

    def __str__(self) -> str:
        return f"{self.metric}={self.value:g}"


def parse_floor(text: str) -> Floor:
    """A lower bound in the form METRIC=VALUE."""
    metric, equals, value = text.partition("=")
    if not equals or metric not in RANKS:
        raise UsageError(
            f"--min {text}: expected METRIC=VALUE with a metric out of {', '.join(RANKS)}"
        )
    bound = _number(value)
    if not -1 <= bound <= 1:
        raise UsageError(f"--min {text}: {value!r} is not a number from -1 to 1")
    return Floor(metric, bound)


def _number(text: str) -> float:
    """NaN for what is no number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


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
    bound = _number(value)
    if not bound >= 0:
        raise UsageError(f"--max {text}: {value!r} is not a number of at least 0")
    return Limit(metric, statistic, bound)


def exceeded(limits: Iterable[Limit | Floor], comparisons: Sequence[Comparison]) -> list[str]:
    """One line for each limit that is not kept, or that nothing can be compared with."""
    problems = []
    for limit in limits:
        if isinstance(limit, Floor):
            problems += _below(limit, comparisons)
            continue
        found = _found(limit, comparisons)
        if found is None:
            problems.append(f"{limit}: no record can be compared")
        elif found > limit.percent:
            problems.append(f"{limit}: it is {found:.2f} %")
    return problems


def _below(floor: Floor, comparisons: Sequence[Comparison]) -> list[str]:
    ranks = [
        (rank, c.record.id)
        for c in comparisons
        if c.comparable
        and c.outcome.requests is not None
        and (rank := getattr(c.outcome.requests, floor.metric)) is not None
    ]
    if not ranks:
        return [f"{floor}: no record can be compared"]
    lowest, name = min(ranks)
    return [f"{floor}: it is {lowest:.4f} in {name}"] if lowest < floor.value else []


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
