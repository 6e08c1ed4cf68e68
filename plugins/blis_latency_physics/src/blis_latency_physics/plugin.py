"""Registers the models; nothing heavy is imported before one of them is chosen."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_latency_models(register: Register) -> None:
    """Add ``roofline`` and ``trained-physics``."""
    register(
        "roofline",
        "blis_latency_physics.roofline:Roofline",
        summary="analytical: the slower of computing and moving memory; needs no coefficients",
    )
    register(
        "trained-physics",
        "blis_latency_physics.trained_physics:TrainedPhysics",
        summary="roofline terms weighted by globally trained coefficients (recommended)",
    )
