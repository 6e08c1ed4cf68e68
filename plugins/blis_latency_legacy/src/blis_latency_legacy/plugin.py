"""Registers the models; nothing heavy is imported before one of them is chosen."""

from __future__ import annotations

from blis_core.api import Register, hookimpl

_REPLACEMENT = "trained-physics"


@hookimpl
def blis_register_latency_models(register: Register) -> None:
    """Add ``blackbox``, ``crossmodel`` and ``trained-roofline``."""
    register(
        "blackbox",
        "blis_latency_legacy.blackbox:Blackbox",
        summary="linear in prefill and decode tokens, measured per model, GPU and TP",
        deprecated=_REPLACEMENT,
    )
    register(
        "crossmodel",
        "blis_latency_legacy.crossmodel:CrossModel",
        summary="linear in tokens and KV width, one coefficient set for every model",
        deprecated=_REPLACEMENT,
    )
    register(
        "trained-roofline",
        "blis_latency_legacy.trained_roofline:TrainedRoofline",
        summary="roofline terms weighted by coefficients; FP16 and uniform layers only",
        deprecated=_REPLACEMENT,
    )
