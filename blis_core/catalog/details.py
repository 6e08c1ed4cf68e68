"""What single kernels need to know of a model, read from its config.

Sources: the configuration classes of HuggingFace transformers, and the quantisation formats that
vLLM accepts.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from blis_core.catalog.json_fields import integer, number, text
from blis_core.contracts import ModelDetails

_LINEAR_KEYS: Final = (
    "linear_num_key_heads",
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_state_size",
    "state_size",
    "attn_layer_period",
)
"""Present only in configs of models with linear attention or state space layers."""

_LINEAR_WORDS: Final = ("linear", "mamba", "recurrent", "conv")
_ENCODERS: Final = ("vision_config", "audio_config")


def parse_details(
    config: dict[str, Any], *, experts: int, ffn: int, shared_ffn: int
) -> ModelDetails:
    """Details of the model of ``config``; the other figures are those of its description."""
    quantization = config.get("quantization_config")
    if not isinstance(quantization, dict):
        quantization = {}
    if text(config, "model_type").startswith("llama4"):
        shared_ffn = shared_ffn or ffn  # its layers with experts have a shared one of this size
    return ModelDetails(
        head_dim=integer(config, "head_dim"),
        routed_layers=_routed_layers(config) if experts > 1 else 0,
        shared_expert_ffn=shared_ffn if experts > 1 else 0,
        attention=_attention(config),
        sliding_window=_sliding_window(config),
        tied=config.get("tie_word_embeddings") is True,
        multimodal=any(isinstance(config.get(key), dict) for key in _ENCODERS),
        weight_format=_weight_format(quantization),
        attention_quantised=not _spares_attention(quantization),
    )


def name_format(details: ModelDetails, weight_bytes: float, model: str) -> ModelDetails:
    """``details`` with the format of weights that are ``weight_bytes`` wide says the model's name.

    One-byte weights that do not call themselves FP8 are integers.
    """
    if details.weight_format or weight_bytes == 0:
        return details
    if weight_bytes == 1.0 and "fp8" in model.lower():
        return attrs.evolve(details, weight_format="fp8")
    return attrs.evolve(details, weight_format=f"int{weight_bytes * 8:g}")


def _routed_layers(config: dict[str, Any]) -> int:
    """Layers with routed experts, by the rule of the model's family."""
    layers = integer(config, "num_hidden_layers")
    every = integer(config, "interleave_moe_layer_step")
    if every > 0:  # Llama 4: each such layer has experts, so that 1 means all
        return layers // every
    dense = config.get("mlp_only_layers")
    first_dense = integer(config, "first_k_dense_replace")
    sparse_step = integer(config, "decoder_sparse_step", "moe_layer_freq") or 1
    return sum(
        layer >= first_dense
        and (layer + 1) % sparse_step == 0
        and not (isinstance(dense, list) and layer in dense)
        for layer in range(min(layers, 10_000))
    )


def _attention(config: dict[str, Any]) -> str:
    if integer(config, "kv_lora_rank") > 0:
        return "mla"
    kinds = config.get("layer_types")
    if any(integer(config, key) > 0 for key in _LINEAR_KEYS) or (
        isinstance(kinds, list)
        and any(word in str(kind) for kind in kinds for word in _LINEAR_WORDS)
    ):
        return "linear"
    return ""


def _sliding_window(config: dict[str, Any]) -> int:
    if config.get("use_sliding_window") is False:  # Qwen states a window without using it
        return 0
    return integer(config, "sliding_window")


def _weight_format(quantization: dict[str, Any]) -> str:
    """Name of the format; an unknown method stands for itself."""
    method = text(quantization, "quant_method").lower()
    if method == "fp8":
        return "fp8-block" if quantization.get("weight_block_size") else "fp8"
    if method == "fbgemm_fp8":
        return "fp8"
    if method == "compressed-tensors":
        weights = _first_weights(quantization)
        bits = number(weights.get("num_bits"))
        if bits is None:
            return method
        if text(weights, "type") == "float" and bits == 8:
            return "fp8-block" if text(weights, "strategy") == "block" else "fp8"
        return f"{'float' if text(weights, 'type') == 'float' else 'int'}{bits:g}"
    if method in ("awq", "gptq"):
        return f"int{integer(quantization, 'bits', 'w_bit') or 4}"
    return method


def _first_weights(quantization: dict[str, Any]) -> dict[str, Any]:
    groups = quantization.get("config_groups")
    if isinstance(groups, dict):
        for _, group in sorted(groups.items()):
            weights = group.get("weights") if isinstance(group, dict) else None
            if isinstance(weights, dict):
                return weights
    return {}


def _spares_attention(quantization: dict[str, Any]) -> bool:
    """Whether the weights of attention are left as they are."""
    spared = quantization.get("ignore") or quantization.get("modules_to_not_convert")
    return isinstance(spared, list) and any("attn" in str(name) for name in spared)
