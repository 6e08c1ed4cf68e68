"""Registers the commands; what they need is imported when one of them runs."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_commands(register: Register) -> None:
    """Add ``blis probe``, ``blis observe`` and ``blis serve``."""
    register(
        "probe",
        "blis_observe.probe_command:probe",
        summary="Check a real server: reachable, models, round-trip time.",
    )
    register(
        "observe",
        "blis_observe.observe_command:command",
        summary="Send a workload to a real server and record a trace.",
    )
    register(
        "serve",
        "blis_observe.serve_command:command",
        summary="Serve the simulator over HTTP, as an OpenAI-compatible server.",
    )
