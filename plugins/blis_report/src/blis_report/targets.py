"""Targets for latencies (SLOs) and the share of requests that met them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from blis_core.api import BlisError, Outcome
from blis_report.quantities import parse_duration

if TYPE_CHECKING:
    import numpy.typing as npt

    from blis_core.api import Recording

METRICS = ("ttft", "itl", "e2e")
"""Time to first token, mean time between the tokens of a request, end to end."""
UNNAMED = "(no class)"


@attrs.frozen
class Target:
    """A limit for one latency."""

    slo_class: str
    """"" = every class that has no target of its own for this latency."""
    metric: str
    limit_us: float


def parse_targets(texts: Iterable[str]) -> list[Target]:
    """Targets such as ``ttft=500ms`` or ``critical:e2e=10s``."""
    found: dict[tuple[str, str], Target] = {}
    for text in texts:
        what, equals, limit = text.rpartition("=")
        name, _, metric = what.rpartition(":")
        if not equals or metric not in METRICS:
            raise BlisError(
                f"--slo: {text!r} is not a target; write METRIC=DURATION or CLASS:METRIC=DURATION,"
                f" as in ttft=500ms or critical:e2e=10s (metrics: {', '.join(METRICS)})"
            )
        if (name, metric) in found:
            raise BlisError(f"--slo: {text!r} is the second target for {what}; give one of them")
        found[name, metric] = Target(name, metric, parse_duration(limit, "--slo"))
    return list(found.values())


@attrs.frozen
class Attainment:
    """How many requests of a class met a target."""

    slo_class: str
    metric: str
    """A metric, or ``all``: every target of the class."""
    limit_us: float
    """0 for ``all``."""
    met: int
    counted: int
    """Requests whose verdict is known: completed, failed, or too late already."""

    @property
    def share(self) -> float:
        """In [0, 1]; 1 if nobody was there to be disappointed."""
        return self.met / self.counted if self.counted else 1.0


def latency(recording: Recording, metric: str) -> npt.NDArray[np.float64]:
    """A latency of every request in us; NaN where there is none.

    For ``itl`` the mean between the tokens of a request, 0 for a single token.
    """
    columns = recording.requests
    done = columns["outcome"] == Outcome.COMPLETED
    if metric == "itl":
        values = columns["itl_sum"] / np.maximum(columns["itl_count"], 1)
    else:
        values = columns[metric].astype(float)
        done = done & (columns[metric] >= 0)
    return np.where(done, values, np.nan)


def classes(recording: Recording) -> list[str]:
    """SLO classes of the requests, by name; one that has no name is ``UNNAMED``."""
    names = recording.names("slo_class")
    used = np.unique(recording.requests["slo_class"]).tolist()
    return sorted(names[code] or UNNAMED for code in used)


def rows_of(recording: Recording, slo_class: str) -> npt.NDArray[np.bool_]:
    """Which requests are of a class."""
    names = [name or UNNAMED for name in recording.names("slo_class")]
    code = names.index(slo_class) if slo_class in names else -1
    mask: npt.NDArray[np.bool_] = recording.requests["slo_class"] == code
    return mask


def attainments(recording: Recording, targets: Iterable[Target]) -> list[Attainment]:
    """For every class each of its targets, and all of them together if there are several.

    A request that failed (rejected, timed out, ...) misses its targets. One that is unfinished
    counts only if it is too late already.
    """
    targets = list(targets)
    columns = recording.requests
    waited = columns["end"] - columns["arrival"]
    unfinished = columns["outcome"] == Outcome.UNFINISHED
    found: list[Attainment] = []
    for name in classes(recording):
        mine = rows_of(recording, name)
        own = {t.metric: t for t in targets if t.slo_class == name}
        general = {t.metric: t for t in targets if not t.slo_class}
        applied = [t for m in METRICS if (t := own.get(m) or general.get(m)) is not None]
        met_all, known_all = mine.copy(), mine.copy()
        for target in applied:
            values = latency(recording, target.metric)
            with np.errstate(invalid="ignore"):
                met = mine & (values <= target.limit_us)
            late = np.full(len(mine), False)
            if target.metric != "itl":
                late = waited > target.limit_us
            known = mine & (~unfinished | late)
            met_all &= met
            known_all &= known
            found.append(
                Attainment(name, target.metric, target.limit_us, int(met.sum()), int(known.sum()))
            )
        if len(applied) > 1:
            found.append(Attainment(name, "all", 0.0, int(met_all.sum()), int(known_all.sum())))
    return found


def unused(recording: Recording, targets: Iterable[Target]) -> list[str]:
    """Classes with targets that no request is of."""
    there = set(classes(recording))
    return sorted({t.slo_class for t in targets if t.slo_class and t.slo_class not in there})
