"""Request by request: how far single latencies are off, and whether their order is right.

Means can agree while every request is wrong. Where a file lists when each request of a measured
run had its first and its last token, each is compared with its own simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np

from blis_core.api import COMPLETED

if TYPE_CHECKING:
    from blis_core.api import Request


class Listed(NamedTuple):
    """One request of a file of requests. Times are us from the beginning of the run."""

    arrival_us: int
    prompt_tokens: int
    output_tokens: int
    first_token_us: int = -1
    """-1 = not measured, or the request failed."""
    last_token_us: int = -1

    @property
    def measured(self) -> bool:
        """Whether both times are known, and follow the arrival."""
        first, last = self.first_token_us, self.last_token_us
        return self.arrival_us <= first <= last and last > self.arrival_us


@attrs.frozen(kw_only=True)
class RequestErrors:
    """Errors of single requests of one run: absolute ones, so that none makes up for another."""

    count: int
    """Compared requests: those that completed on the server and in the simulation."""
    missing: int
    """Requests that completed on the server, and not in the simulation."""
    e2e_mean: float
    """Mean absolute error of E2E in per cent."""
    e2e_median: float
    """Median absolute error of E2E in per cent."""
    e2e_p95: float
    """95th percentile of the absolute error of E2E in per cent."""
    ttft_mean_ms: float
    """Mean absolute error of TTFT in ms; single ones may be too short for per cent."""
    rank_e2e: float | None
    """Rank correlation (Spearman) of E2E; None if all are equal."""
    rank_ttft: float | None
    """The same of TTFT."""


def compare_requests(
    listed: Sequence[Listed], simulated: Sequence[Request]
) -> RequestErrors | None:
    """``simulated`` requests against those in the list, by number; None if nothing was measured.

    The simulated request with id ``..._N`` is the one at place N of the list. TTFT and E2E count
    from the arrival, on both sides.
    """
    measured = {number for number, request in enumerate(listed) if request.measured}
    pairs = [
        (listed[number], request)
        for request in simulated
        if request.state == COMPLETED and (number := int(request.id.rpartition("_")[2])) in measured
    ]
    if not pairs:
        return None
    ttft = np.array([m.first_token_us - m.arrival_us for m, _ in pairs], dtype=np.float64)
    e2e = np.array([m.last_token_us - m.arrival_us for m, _ in pairs], dtype=np.float64)
    own_ttft = np.array([r.ttft for _, r in pairs], dtype=np.float64)
    own_e2e = np.array([r.e2e for _, r in pairs], dtype=np.float64)
    errors = 100 * np.abs(own_e2e - e2e) / e2e
    return RequestErrors(
        count=len(pairs),
        missing=len(measured) - len(pairs),
        e2e_mean=float(errors.mean()),
        e2e_median=float(np.median(errors)),
        e2e_p95=float(np.percentile(errors, 95)),
        ttft_mean_ms=float(np.abs(own_ttft - ttft).mean()) / 1000,
        rank_e2e=rank_correlation(own_e2e, e2e),
        rank_ttft=rank_correlation(own_ttft, ttft),
    )


def rank_correlation(left: Any, right: Any) -> float | None:
    """Spearman's coefficient of two arrays of one length; None if either has one value only."""
    ranks = _ranks(left), _ranks(right)
    if any(r.min() == r.max() for r in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: Any) -> Any:
    """Places in ascending order; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
