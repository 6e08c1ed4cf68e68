"""How much KV cache fits: bytes per token, and blocks per instance.

Source of the formulas: the KV capacity calculation of BLIS (inference-sim). G below is 2^30.
"""

from __future__ import annotations

import math

from blis_core.catalog.huggingface import KVParameters
from blis_core.contracts import HardwareDescription, ModelDescription
from blis_core.errors import BlisError

GIB = 2**30
_ACTIVATIONS = ("silu", "swiglu", "geglu", "")
"""Gated feed-forward blocks, which have three matrices."""
_WAY_OUT = "give --total-kv-blocks"


def kv_bytes_per_token(model: ModelDescription, tp: int) -> float:
    """Bytes of one token's keys and values on one of ``tp`` GPUs.

    ``2 * layers * (hidden / heads) * KV heads * bytes per value / tp``; fewer KV heads than GPUs
    are accepted. BlisError for figures that make no sense.
    """
    if tp <= 0:
        raise BlisError(f"KV capacity: --tp is {tp}; it must be above 0")
    for name, value in (
        ("attention heads", model.heads),
        ("layers", model.layers),
        ("hidden size", model.hidden),
    ):
        if value <= 0:
            raise BlisError(f"KV capacity: the model config has {name} {value}; {_WAY_OUT}")
    width = model.bytes_per_value
    if not (math.isfinite(width) and width > 0):
        raise BlisError(
            f"KV capacity: bytes per value is {width:g}; set torch_dtype in config.json or "
            f"{_WAY_OUT}"
        )
    if model.hidden % model.heads:
        raise BlisError(
            f"KV capacity: hidden size {model.hidden} is not divisible by {model.heads} attention "
            f"heads; {_WAY_OUT}"
        )
    if model.kv_heads < 0:
        raise BlisError(f"KV capacity: the model config has {model.kv_heads} KV heads; {_WAY_OUT}")
    kv_heads = model.kv_heads or model.heads
    if kv_heads >= tp and kv_heads % tp:
        raise BlisError(
            f"KV capacity: {kv_heads} KV heads are not divisible by --tp {tp}; choose another TP "
            f"or {_WAY_OUT}"
        )
    return model.layers * 2 * (model.hidden // model.heads) * kv_heads * width / tp


def total_blocks(
    model: ModelDescription,
    hardware: HardwareDescription,
    parameters: KVParameters,
    *,
    tp: int,
    block_size: int,
    utilization: float,
) -> int:
    """KV blocks of ``block_size`` tokens that fit beside the weights on ``tp`` GPUs together.

    ``utilization`` is the usable fraction of the device memory, in (0, 1]. Activations and the
    runtime take fixed shares: 5.5 GiB (8 for MoE) once, 0.15 GiB (0.6 with TP > 1) per GPU.
    BlisError if a figure makes no sense or nothing fits.
    """
    _check(model, hardware, parameters, block_size, utilization)
    per_token = kv_bytes_per_token(model, tp)
    per_block = int(per_token * block_size)
    if per_block <= 0:
        raise BlisError(f"KV capacity: a block of {block_size} tokens has no bytes; {_WAY_OUT}")
    weights = weight_bytes(model, parameters)
    available = hardware.memory_gib * utilization * tp
    activations = 8.0 if parameters.moe else 5.5
    overhead = weights / GIB + activations + (0.15 if tp == 1 else 0.6) * tp
    if overhead >= available:
        raise BlisError(
            f"KV capacity: weights and activations need {overhead:.2f} GiB but {tp} x "
            f"{hardware.name or 'GPU'} offer {available:.2f} GiB; raise --tp or {_WAY_OUT}"
        )
    blocks = int((available - overhead) * GIB) // per_block
    if blocks <= 0:
        raise BlisError(
            f"KV capacity: {available - overhead:.3f} GiB left hold no block of {per_block} bytes; "
            f"raise --tp or {_WAY_OUT}"
        )
    return blocks


def weight_bytes(model: ModelDescription, parameters: KVParameters) -> int:
    """Bytes of all weights, as far as the config tells; the model must have attention heads."""
    return int(float(_parameters(model, parameters)) * model.effective_weight_bytes)


def _check(
    model: ModelDescription,
    hardware: HardwareDescription,
    parameters: KVParameters,
    block_size: int,
    utilization: float,
) -> None:
    """Refuse figures that :func:`total_blocks` cannot use, in the reference's order."""
    if not 0 < utilization <= 1:
        raise BlisError(
            f"KV capacity: --gpu-memory-utilization is {utilization:g}; it must be above 0 and at "
            "most 1"
        )
    if block_size <= 0:
        raise BlisError(f"KV capacity: --block-size-in-tokens is {block_size}; it must be above 0")
    for name, size in (("intermediate_size", model.ffn), ("vocab_size", model.vocab)):
        if size <= 0:
            raise BlisError(f"KV capacity: {name} of the model config is {size}; {_WAY_OUT}")
    memory = hardware.memory_gib
    if not (math.isfinite(memory) and memory > 0):
        raise BlisError(
            f"KV capacity: the memory of GPU {hardware.name!r} is not known; add MemoryGiB to "
            f"--hardware-config or {_WAY_OUT}"
        )
    weight = model.weight_bytes
    if not (math.isfinite(weight) and weight >= 0):
        raise BlisError(f"KV capacity: bytes per weight is {weight:g}; {_WAY_OUT}")
    if parameters.activation not in _ACTIVATIONS:
        raise BlisError(
            f"KV capacity: activation {parameters.activation!r} is not known (silu, swiglu or "
            f"geglu); {_WAY_OUT}"
        )


def _parameters(model: ModelDescription, parameters: KVParameters) -> int:
    """Number of weights. Every layer of an interleaved model counts as MoE (quirk 03-4)."""
    d, kv_heads = model.hidden, model.kv_heads or model.heads
    if parameters.moe and parameters.experts > 1:
        experts = parameters.experts
        mlp = 3 * d * (parameters.expert_ffn or model.ffn) * experts
        mlp += 3 * d * parameters.shared_ffn + experts * d
    else:
        mlp = 3 * d * model.ffn
    attention = 2 * d * d + 2 * d * kv_heads * (d // model.heads)
    head = 0 if parameters.tied else model.vocab * d
    return model.vocab * d + model.layers * (attention + mlp + 2 * d) + head + d
