"""Registers the commands; nothing heavy is imported before one of them runs."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_commands(register: Register) -> None:
    """Add ``blis validate``, ``blis fit`` and ``blis interval``."""
    register(
        "validate",
        "blis_validate.command:validate",
        summary="Simulate measured runs and show the error of every figure.",
    )
    register(
        "fit",
        "blis_validate.fit_command:fit",
        summary="Fit the latency model to one recorded run and write a profile.",
    )
    register(
        "interval",
        "blis_validate.interval_command:interval",
        summary="Simulate with shorter and longer steps: an interval for each latency.",
    )
