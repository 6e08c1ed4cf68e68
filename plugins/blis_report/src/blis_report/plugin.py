"""Registers the commands; nothing heavy is imported before one of them runs."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_commands(register: Register) -> None:
    """Add ``blis report`` and ``blis explain``."""
    register(
        "report",
        "blis_report.report_command:report",
        summary="Show recorded runs in one HTML file: latencies, time lines, targets, comparison.",
    )
    register(
        "explain",
        "blis_report.explain_command:explain",
        summary="Say where the time of a request went; write a time line for Perfetto.",
    )
