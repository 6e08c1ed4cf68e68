"""Stabilisation windows: a decision passes only if its direction has been wished for long enough.

A passed decision starts a new window, so a lasting wish passes once per window.
"""

from __future__ import annotations

from collections.abc import Sequence

from blis_core.contracts_autoscaling import ScaleDecision


class StabilizationGate:
    """Remembers since when each model has wished for more, or for fewer, instances."""

    def __init__(self, up_window: float = 0.0, down_window: float = 0.0) -> None:
        """Windows in us, at least 0."""
        self._windows = {True: up_window, False: down_window}
        self._since: dict[tuple[bool, str], int] = {}

    def passing(self, decisions: Sequence[ScaleDecision], now: int) -> list[ScaleDecision]:
        """The decisions of this tick that may be carried out."""
        wished = {(d.delta > 0, d.model) for d in decisions}
        self._since = {key: since for key, since in self._since.items() if key in wished}
        passed = []
        for decision in decisions:
            key = (decision.delta > 0, decision.model)
            window = self._windows[key[0]]
            since = self._since.get(key)
            if since is None:
                since = self._since[key] = now
                if window > 0:
                    continue  # not even a window below 1 us passes at once
            if now - since >= int(window):
                del self._since[key]
                passed.append(decision)
        return passed
