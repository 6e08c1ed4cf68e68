"""One workload specification out of several, each with its own share of the rate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from blis_core import log
from blis_core.errors import BlisError
from blis_core.workload.spec import VERSION, Client, WorkloadSpec
from blis_core.workload.validation import validate


def compose(specs: Sequence[tuple[str, WorkloadSpec]]) -> WorkloadSpec:
    """The clients of all ``specs`` (pairs of a name for messages and a specification) in order.

    Rates add up, and every client's fraction is multiplied by the share of its specification. Only
    the category of the first and the clients are kept: the cohorts of a specification are dropped
    and yet count in its rate (reference quirk 05b-5), which is warned about. BlisError for rates
    without a finite sum of at least 0, and if the result is not valid.
    """
    if not specs:
        raise BlisError("--from: name at least one workload specification")
    total = 0.0
    for _, spec in specs:
        total += spec.aggregate_rate
    if not 0 <= total < math.inf:
        raise BlisError(
            f"aggregate_rate: the sum over all files must be finite and at least 0, not {total:g}"
        )
    clients: list[Client] = []
    for name, spec in specs:
        _warn_of_losses(name, spec)
        if total == 0:
            clients += spec.clients
            continue
        weight = spec.aggregate_rate / total
        clients += (
            attrs.evolve(client, rate_fraction=client.rate_fraction * weight)
            for client in spec.clients
        )
    composed = WorkloadSpec(
        version=VERSION,
        category=specs[0][1].category,
        clients=tuple(clients),
        aggregate_rate=total,
    )
    validate(composed)
    return composed


def _warn_of_losses(name: str, spec: WorkloadSpec) -> None:
    """Say what a composition does not keep, where that changes the traffic."""
    lost = [key for key in ("cohorts", "servegen_data", "inference_perf") if getattr(spec, key)]
    if lost:
        log.warning(f"{name}: {' and '.join(lost)} are not composed and left out")
    if spec.aggregate_rate > 0 and spec.clients:
        shares = sum(client.rate_fraction for client in spec.clients)
        if not math.isclose(shares, 1.0, rel_tol=1e-6) and not any(
            client.concurrency for client in spec.clients
        ):
            log.warning(
                f"{name}: the rate fractions of its clients add up to {shares:g}, not 1, so its "
                "share of the composed rate differs from its aggregate_rate"
            )
