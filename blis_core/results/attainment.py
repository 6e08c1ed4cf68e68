"""Which share of the requests was fast enough for its SLO class. For library users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blis_core.contracts import Request


def slo_attainment(requests: Iterable[Request], targets_us: Mapping[str, float]) -> float:
    """Share in [0, 1] of the completed requests that met the target of their class; 0 if none.

    ``targets_us`` limits the end-to-end latency in us by SLO class (``default`` for requests
    without one). Where there is no target, every latency will do. Requests that did not complete
    do not count.
    """
    counts = _counts(requests, targets_us).values()
    completed = sum(total for _, total in counts)
    return sum(met for met, _ in counts) / completed if completed else 0.0


def slo_attainment_by_class(
    requests: Iterable[Request], targets_us: Mapping[str, float]
) -> dict[str, float]:
    """:func:`slo_attainment` of every SLO class with completed requests, by name."""
    counts = _counts(requests, targets_us)
    return {name: met / completed for name, (met, completed) in counts.items()}


def _counts(
    requests: Iterable[Request], targets_us: Mapping[str, float]
) -> dict[str, tuple[int, int]]:
    """(met, completed) requests of every SLO class with completed requests, by name."""
    counts: dict[str, tuple[int, int]] = {}
    for request in requests:
        if request.e2e < 0:
            continue
        name = request.slo_class or "default"
        met, completed = counts.get(name, (0, 0))
        target = targets_us.get(name)
        good = target is None or request.e2e <= target
        counts[name] = (met + good, completed + 1)
    return dict(sorted(counts.items()))
