"""Registers the command; nothing heavy is imported before it runs."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_commands(register: Register) -> None:
    """Add ``blis sweep``."""
    register(
        "sweep",
        "blis_sweep.command:sweep",
        summary="Simulate a grid of settings over several seeds and compare the points.",
    )
