"""Registers the commands; the HTTP client is imported when one of them runs."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_commands(register: Register) -> None:
    """Add ``blis probe``."""
    register(
        "probe",
        "blis_observe.command:probe",
        summary="Check a real server: reachable, models, round-trip time.",
    )
