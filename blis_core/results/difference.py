"""Two saved results side by side: figures, settings, and the same requests one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from statistics import median
from typing import Any

import attrs

from blis_core.results.saved import SavedRequest, SavedResult

MAIN = (
    *("completed_requests", "responses_per_sec", "tokens_per_sec"),
    *(
        f"{kind}_{figure}_ms"
        for kind in ("ttft", "itl", "e2e")
        for figure in ("mean", "p50", "p90", "p99")
    ),
)
"""Figures that are shown whether or not they differ."""


@attrs.frozen(kw_only=True)
class Change:
    """One figure in both results; None where a result does not have it."""

    name: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """b - a."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def percent(self) -> float | None:
        """The difference in per cent of a; None if there is none, or a is 0."""
        return 100 * (self.b - self.a) / self.a if self.a and self.b is not None else None

    def exceeds(self, percent: float) -> bool:
        """Whether it changes by more than ``percent`` of a, or stands on one side only."""
        difference = self.difference
        if difference is None:
            return True
        return abs(difference) > abs(self.a or 0.0) * percent / 100


@attrs.frozen(kw_only=True)
class PairedTimes:
    """A latency of the requests that both results have."""

    name: str
    pairs: int
    faster: int
    """In b."""
    slower: int
    median_change_ms: float
    """Of b - a."""


@attrs.frozen(kw_only=True)
class Paired:
    """How the same requests fared."""

    same: int
    """Requests with equal id, arrival and lengths in both."""
    of_a: int
    of_b: int
    times: tuple[PairedTimes, ...] = ()


@attrs.frozen(kw_only=True)
class Difference:
    """Everything about two results."""

    figures: list[Change]
    """Those of both, in the order of a."""
    settings: list[tuple[str, Any, Any]] | None
    """(name, of a, of b) of those that differ; None = not saved in both."""
    paired: Paired | None
    """None = requests were not saved in both."""


def compare(a: SavedResult, b: SavedResult) -> Difference:
    """Compare two results."""
    names = list(dict.fromkeys([*a.figures, *b.figures]))
    return Difference(
        figures=[Change(name=n, a=a.figures.get(n), b=b.figures.get(n)) for n in names],
        settings=_settings(a, b),
        paired=None if a.requests is None or b.requests is None else pair(a.requests, b.requests),
    )


def _settings(a: SavedResult, b: SavedResult) -> list[tuple[str, Any, Any]] | None:
    if a.settings is None or b.settings is None:
        return None
    names = dict.fromkeys([*a.settings, *b.settings])
    pairs = [(name, a.settings.get(name), b.settings.get(name)) for name in names]
    # how and where results are written is no setting of the simulation
    written = ("output", "log", "metrics_path", "trace_output", "results_path")
    return [p for p in pairs if p[1] != p[2] and p[0] not in written]


def pair(a: dict[str, SavedRequest], b: dict[str, SavedRequest]) -> Paired:
    """Match requests by id, and compare those that are the same in both."""
    both = [(old, b[name]) for name, old in a.items() if name in b and _same(old, b[name])]
    return Paired(
        same=len(both),
        of_a=len(a),
        of_b=len(b),
        times=tuple(
            found for name in ("ttft", "e2e") if (found := _paired_times(name, both)) is not None
        ),
    )


def _same(a: SavedRequest, b: SavedRequest) -> bool:
    # a metrics file has arrivals in s, rounded by its notation
    return abs(a.arrival_us - b.arrival_us) <= 1 and (a.prompt_tokens, a.output_tokens) == (
        b.prompt_tokens,
        b.output_tokens,
    )


def _paired_times(
    name: str, both: Iterable[tuple[SavedRequest, SavedRequest]]
) -> PairedTimes | None:
    times = ((getattr(a, f"{name}_us"), getattr(b, f"{name}_us")) for a, b in both)
    # below half a microsecond a difference is one of notation
    changes = [round(b - a) for a, b in times if a is not None and b is not None]
    if not changes:
        return None
    return PairedTimes(
        name=name,
        pairs=len(changes),
        faster=sum(change < 0 for change in changes),
        slower=sum(change > 0 for change in changes),
        median_change_ms=median(changes) / 1e3,
    )


def as_json(a: SavedResult, b: SavedResult, found: Difference, tolerance: float) -> str:
    """The whole comparison as one JSON document, newline included."""
    document = {
        "a": a.path,
        "b": b.path,
        "figures": [
            {
                "name": change.name,
                "a": _finite(change.a),
                "b": _finite(change.b),
                "difference": _finite(change.difference),
                "percent": _finite(change.percent),
                "differs": change.exceeds(tolerance),
            }
            for change in found.figures
        ],
        "settings": None
        if found.settings is None
        else [{"name": name, "a": old, "b": new} for name, old, new in found.settings],
        "requests": attrs.asdict(found.paired) if found.paired is not None else None,
        "warnings": {"a": list(a.warnings), "b": list(b.warnings)},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
