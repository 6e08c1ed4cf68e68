"""Figures that both models derive from the model and hardware descriptions."""

from __future__ import annotations

from blis_core.api import BlisError, HardwareDescription, LatencySetup, ModelDescription


def descriptions(setup: LatencySetup) -> tuple[ModelDescription, HardwareDescription]:
    """Model and hardware of ``setup``; BlisError if either is missing or TP is not positive."""
    if setup.model is None or setup.hardware is None:
        raise BlisError(
            f"latency model {setup.backend!r} needs a model config and GPU figures; give --hardware"
            " and --model-config-folder, or choose a model that is in the catalogue"
        )
    if setup.tp <= 0:
        raise BlisError(f"latency model {setup.backend!r}: --tp is {setup.tp}; it must be above 0")
    return setup.model, setup.hardware


def refuse(setup: LatencySetup, problems: list[str]) -> None:
    """Raise one BlisError that names all ``problems``, if there are any."""
    if problems:
        raise BlisError(
            f"latency model {setup.backend!r} cannot work with these model or GPU figures: "
            f"{'; '.join(problems)} (see the model's config.json and --hardware-config)"
        )


def peak_tflops(model: ModelDescription, hardware: HardwareDescription) -> float:
    """Compute peak in TFLOP/s: the FP8 rate for 1-byte weights (INT8 too) where the GPU has one."""
    if model.effective_weight_bytes == 1.0 and hardware.fp8_tflops > 0:
        return hardware.fp8_tflops
    return hardware.fp16_tflops
