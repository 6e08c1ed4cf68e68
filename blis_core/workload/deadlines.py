"""How long a client waits for its answer."""

from __future__ import annotations

from blis_core.contracts import MAX_INT64

SESSION_TIMEOUT_US = 300_000_000
"""Patience of a client in a session that gives none."""


def patience(timeout: int | None, *, session: bool) -> int:
    """us that a client waits; 0 = for ever. ``timeout`` is what it gives, None = nothing."""
    if timeout is None:
        return SESSION_TIMEOUT_US if session else 0
    return timeout


def deadline(arrival: int, patience: int) -> int:
    """When a request that arrives at ``arrival`` is given up; 0 = never."""
    return min(arrival + patience, MAX_INT64) if patience else 0
