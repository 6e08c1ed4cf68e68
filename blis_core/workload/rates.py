"""The request rate of each client: its share of the aggregate rate.

Sums run from left to right, in client order: a share must not depend on the summation of the
Python version at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blis_core.workload.spec import Client, Window

_US_PER_S = 1e6


def client_rates(clients: Sequence[Client], aggregate_rate: float) -> list[float]:
    """Rate of each client in requests per us; 0 or less = no requests.

    ``aggregate_rate`` is in requests per second. As soon as one client has windows, each client's
    share is taken among those that it ever overlaps, so that the clients of a phase get the whole
    rate. A client has one rate for the whole run all the same: beside one that is active in
    several phases, the clients of a phase come to less than the aggregate rate.
    """
    if any(client.windows for client in clients):
        return _phase_rates(clients, aggregate_rate)
    # Closed-loop users have no fraction, unless somebody gave them a negative one, which counts
    # here: reference quirk 04-27.
    total = 0.0
    for client in clients:
        total += client.rate_fraction
    if total == 0.0:
        return [0.0] * len(clients)
    return [_rate(aggregate_rate, client.rate_fraction, total) for client in clients]


def _rate(aggregate_rate: float, fraction: float, total: float) -> float:
    """The share in requests per us; the order of these operations decides the last bit."""
    return aggregate_rate * (fraction / total) / _US_PER_S


def _phase_rates(clients: Sequence[Client], aggregate_rate: float) -> list[float]:
    """Shares among the clients that overlap. The work is (distinct window sets) x (clients)."""
    phase_of, phases = _phases(clients)
    fractions = [
        (phase, client.rate_fraction)
        for phase, client in zip(phase_of, clients, strict=True)
        if client.rate_fraction > 0
    ]
    totals = []
    for windows in phases:
        meets = [overlap(windows, other) for other in phases]
        total = 0.0
        for phase, fraction in fractions:
            if meets[phase]:
                total += fraction
        totals.append(total)
    return [
        _rate(aggregate_rate, client.rate_fraction, totals[phase])
        if client.rate_fraction > 0
        else 0.0
        for phase, client in zip(phase_of, clients, strict=True)
    ]


def _phases(clients: Sequence[Client]) -> tuple[list[int], list[tuple[Window, ...]]]:
    """For each client the number of its window set, and the distinct window sets."""
    numbers: dict[tuple[Window, ...], int] = {}
    known: dict[int, int] = {}  # by identity: members of a cohort share their windows
    phase_of = []
    for client in clients:
        windows = client.windows
        phase = known.get(id(windows))
        if phase is None:
            phase = known[id(windows)] = numbers.setdefault(windows, len(numbers))
        phase_of.append(phase)
    return phase_of, list(numbers)


def overlap(some: tuple[Window, ...], others: tuple[Window, ...]) -> bool:
    """Whether two clients with these windows are ever active at the same time.

    No windows = always active. Windows that merely touch do not overlap.
    """
    if not some or not others:
        return True
    return any(a.start_us < b.end_us and b.start_us < a.end_us for a in some for b in others)
