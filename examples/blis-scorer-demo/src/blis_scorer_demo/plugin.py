"""Registers what this distribution brings, by address: nothing is imported before it is chosen."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_scorers(register: Register) -> None:
    """Add the scorer."""
    register(
        "headroom",
        "blis_scorer_demo.scorers:Headroom",
        summary="free KV memory, measured by what the prompt needs",
    )
