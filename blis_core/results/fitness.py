"""One score for a whole run: a weighted sum of normalised figures (higher is better)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from blis_core.errors import BlisError, did_you_mean
from blis_core.go_text import parse_float

if TYPE_CHECKING:
    from blis_core.results.model import Distribution, MetricsBlock
    from blis_core.results.parts import Fitness

_HALF_REQUESTS_PER_S = 100.0
_HALF_TOKENS_PER_S = 10_000.0
_HALF_LATENCY_US = 1000.0
"""The figures that are worth one half."""


class _Figures(NamedTuple):
    cluster: MetricsBlock
    ttft: Distribution
    e2e: Distribution


def _rate(value: float, half: float) -> float:
    return value / (value + half)


def _latency(us: float) -> float:
    return 1.0 / (1.0 + us / _HALF_LATENCY_US)


_COMPONENTS: dict[str, Callable[[_Figures], float]] = {
    "mean_e2e": lambda f: _latency(f.e2e.mean),
    "mean_ttft": lambda f: _latency(f.ttft.mean),
    "p50_e2e": lambda f: _latency(f.e2e.p50),
    "p50_ttft": lambda f: _latency(f.ttft.p50),
    "p99_e2e": lambda f: _latency(f.e2e.p99),
    "p99_ttft": lambda f: _latency(f.ttft.p99),
    "throughput": lambda f: _rate(f.cluster.responses_per_sec, _HALF_REQUESTS_PER_S),
    "tokens_per_sec": lambda f: _rate(f.cluster.tokens_per_sec, _HALF_TOKENS_PER_S),
}
"""By name, in byte order: value in [0, 1]."""


def parse_fitness_weights(text: str, flag: str = "--fitness-weights") -> dict[str, float]:
    """``metric:weight,metric:weight`` by metric, in byte order; nothing for an empty text.

    Of equal metrics the last counts. BlisError for a malformed element, an unknown metric, or a
    weight that is negative or not finite.
    """
    weights: dict[str, float] = {}
    for item in text.split(",") if text else ():
        name, colon, weight_text = (part.strip() for part in item.partition(":"))
        if not colon:
            raise BlisError(f"{flag}: {item.strip()!r} is not of the form metric:weight")
        if name not in _COMPONENTS:
            raise BlisError(
                f"{flag}: unknown metric {name!r}{did_you_mean(name, _COMPONENTS)} (known:"
                f" {', '.join(_COMPONENTS)})"
            )
        try:
            weight = parse_float(weight_text)
        except ValueError:
            weight = float("nan")
        if not 0 <= weight < float("inf"):
            raise BlisError(f"{flag}: the weight of {name} must be a finite number of at least 0")
        weights[name] = weight
    return dict(sorted(weights.items()))


def fitness(
    weights: Mapping[str, float], cluster: MetricsBlock, ttft: Distribution, e2e: Distribution
) -> Fitness:
    """The score of a run, from the cluster's rates and its latencies in us."""
    from blis_core.results.parts import Fitness

    figures = _Figures(cluster=cluster, ttft=ttft, e2e=e2e)
    components = {name: _COMPONENTS[name](figures) for name in sorted(weights)}
    score = 0.0
    for name, value in components.items():
        score += value * weights[name]
    return Fitness(score=score, components=components)
