"""Registers the model; nothing heavy is imported before it is chosen."""

from __future__ import annotations

from blis_core.api import Register, hookimpl


@hookimpl
def blis_register_latency_models(register: Register) -> None:
    """Add ``kernels``."""
    register(
        "kernels",
        "blis_latency_kernels.model:KernelModel",
        summary="adds up the kernels of a step, fitted to measurements of each GPU; validated",
    )
