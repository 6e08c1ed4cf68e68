"""Registers the commands; nothing heavy is imported before one of them runs."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_commands(register: Register) -> None:
    """Add ``blis saturate`` and ``blis plan``."""
    register(
        "saturate",
        "blis_plan.saturate_command:saturate",
        summary="Find the highest rate that meets SLOs.",
    )
    register(
        "plan",
        "blis_plan.plan_command:plan",
        summary="Find the cheapest deployment that carries a load within SLOs.",
    )
