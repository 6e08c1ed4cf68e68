"""Service level objectives: what is asked for, and how to write it.

``ttft_p99=500ms,e2e_mean=4s`` bounds a statistic of a latency. ``ttft=500ms,tpot=30ms,
attainment=99%`` asks that so many of all requests keep every bound at once. ``completed=99.9%``
asks that so many are answered at all. Latencies are ms inside, shares lie in [0, 1].
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from blis_core.api import UsageError

METRICS: Final = ("ttft", "itl", "tpot", "e2e")
"""Time to first token; between two tokens; mean of that for each request; end to end."""
OF_REQUESTS: Final = ("ttft", "tpot", "e2e")
"""Latencies of which a request has one."""
ITL_PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0)
"""The percentiles that results have of the times between tokens."""
MEAN: Final = "mean"
SHARES: Final = ("attainment", "completed")

FEWEST_REQUESTS: Final = 2000
"""Of a run, if their number is free."""

FORM: Final = (
    "expected METRIC_STATISTIC=LIMIT as in ttft_p99=500ms, with a metric out of"
    f" {', '.join(METRICS)}, a statistic out of mean, p50, p90, p95, p99 (any percentile but for"
    " itl), and a limit in us, ms or s; or completed=99.9%; or limits of single requests, as in"
    " ttft=500ms,tpot=30ms,attainment=99%"
)
_UNITS: Final = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_DURATION = re.compile(r"([0-9]*\.?[0-9]+)\s*(us|ms|s)")
_SHARE = re.compile(r"([0-9]*\.?[0-9]+)\s*%")
_PERCENTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]+)?)")


@attrs.frozen
class Slo:
    """One objective."""

    name: str
    """As the user wrote it: ``ttft_p99``, ``attainment``, ``completed``."""
    limit: float
    """Most ms, or the least share."""
    metric: str = ""
    """A latency; empty = a share."""
    percentile: float | None = None
    """None = the mean."""
    bounds: tuple[tuple[str, float], ...] = ()
    """With ``attainment``: (metric, most ms) that a request has to keep."""

    @property
    def is_share(self) -> bool:
        """Whether more is better."""
        return not self.metric

    def use(self, value: float) -> float:
        """The part of what is allowed that ``value`` takes up; more than 1 = not met.

        Of a latency, its part of the limit; of a share, that of the failures that are allowed.
        """
        if not self.is_share:
            return value / self.limit
        missed, allowed = 1 - value, 1 - self.limit
        if allowed == 0:
            return math.inf if missed > 0 else 0.0
        return missed / allowed

    def borne(self, requests: int) -> float:
        """How many of so many requests may be beyond the limit; of a mean, the most that they may
        take together, in limits."""
        if self.is_share:
            return (1 - self.limit) * requests
        if self.percentile is None:
            return float(requests)
        return (1 - self.percentile / 100) * (requests - 1) + 1

    def met(self, value: float) -> bool:
        """Whether ``value`` is within the limit."""
        return value >= self.limit if self.is_share else value <= self.limit

    def shown(self, value: float) -> str:
        """A value of this objective, with its unit."""
        return f"{value:.2%}" if self.is_share else shown_ms(value)

    def __str__(self) -> str:
        if self.bounds:
            inside = ", ".join(f"{name} {shown_ms(limit)}" for name, limit in self.bounds)
            return f"{self.name} >= {self.limit:.4g} ({inside})"
        if self.is_share:
            return f"{self.name} >= {self.limit:.6g}"
        return f"{self.name} <= {shown_ms(self.limit)}"

    @property
    def wanted_requests(self) -> int:
        """Requests from which the statistic is more than noise: 20 beyond the percentile. Failures
        come in numbers or not at all, so that ``completed`` needs none."""
        if self.bounds:
            beyond = 1 - self.limit
        elif self.percentile is None:
            return FEWEST_REQUESTS
        else:
            beyond = 1 - self.percentile / 100
        return max(FEWEST_REQUESTS, min(20_000, math.ceil(20 / max(beyond, 1e-9) - 1e-6)))


def shown_ms(value: float) -> str:
    """A time in ms with three significant digits and a handy unit."""
    if math.isinf(value):
        return "never"
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def parse_slos(texts: Iterable[str]) -> tuple[Slo, ...]:
    """The objectives in texts such as ``ttft_p99=500ms,e2e_p95=5s``. UsageError if one is wrong."""
    slos: list[Slo] = []
    bounds: list[tuple[str, float]] = []
    attainment: float | None = None
    for item in (item.strip() for text in texts for item in text.split(",")):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise UsageError(f"--slo {item!r}: {FORM}")
        if name in {slo.name for slo in slos} | {name for name, _ in bounds} or (
            name == "attainment" and attainment is not None
        ):
            raise UsageError(f"--slo {name}: is given twice; remove one")
        if name == "attainment":
            attainment = _share(name, value)
        elif name == "completed":
            slos.append(Slo(name, _share(name, value)))
        elif name in OF_REQUESTS:
            bounds.append((name, _duration(name, value)))
        else:
            slos.append(_latency(name, value))
    if attainment is not None:
        if not bounds:
            raise UsageError(
                "--slo attainment: says how many requests have to keep limits of their own; give at"
                f" least one of {', '.join(OF_REQUESTS)}, as in ttft=500ms,attainment=99%"
            )
        slos.append(Slo("attainment", attainment, bounds=tuple(bounds)))
    elif bounds:
        name = bounds[0][0]
        raise UsageError(
            f"--slo {name}: a limit of single requests needs attainment=SHARE% beside it; or bound"
            f" a statistic, as in {name}_p99"
        )
    if not slos:
        raise UsageError(f"--slo: is required; {FORM}")
    return tuple(slos)


def _latency(name: str, value: str) -> Slo:
    metric, _, statistic = name.partition("_")
    found = _PERCENTILE.fullmatch(statistic)
    if metric not in METRICS or not (statistic == MEAN or found):
        raise UsageError(f"--slo {name}: is not known; {FORM}")
    percentile = float(found[1]) if found else None
    if metric == "itl" and percentile is not None and percentile not in ITL_PERCENTILES:
        raise UsageError(f"--slo {name}: of itl there are the mean, p50, p90, p95 and p99")
    return Slo(name, _duration(name, value), metric, percentile)


def _duration(name: str, value: str) -> float:
    """ms."""
    found = _DURATION.fullmatch(value)
    if found is None or not float(found[1]) > 0:
        problem = f"{value!r} is no time above 0 with a unit"
        raise UsageError(f"--slo {name}={value}: {problem}; write 500ms, 5s or 200us")
    return float(found[1]) * _UNITS[found[2]]


def _share(name: str, value: str) -> float:
    found = _SHARE.fullmatch(value)
    if found is None or not 0 < float(found[1]) <= 100:
        raise UsageError(f"--slo {name}={value}: write a share above 0% and up to 100%, as in 99%")
    return round(float(found[1]) / 100, 12)


def wanted_requests(slos: Sequence[Slo]) -> int:
    """Requests from which every statistic is more than noise."""
    return max(slo.wanted_requests for slo in slos)
