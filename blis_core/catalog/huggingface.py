"""Reads a HuggingFace ``config.json`` into a model description.

The key chains and fallbacks are those of BLIS (inference-sim). A *config* below is the decoded JSON
object, with ``text_config`` already merged in by :func:`decode_config` or :func:`merged`.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, NoReturn

import attrs

from blis_core.catalog.details import name_format, parse_details
from blis_core.catalog.json_fields import integer as _integer
from blis_core.catalog.json_fields import number as _number
from blis_core.catalog.json_fields import text as _text
from blis_core.contracts import ModelDescription
from blis_core.errors import BlisError
from blis_core.records import Record

Config = dict[str, Any]

BYTES_BY_DTYPE: Final = {
    "float32": 4.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "int8": 1.0,
    "uint8": 1.0,
    "fp8": 1.0,
    "int4": 1.0,
    "nf4": 1.0,
}

_UNSCALED_ROPE = frozenset({"su", "longrope", "llama3"})
"""Rope types whose ``max_position_embeddings`` already includes the scaling."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class KVParameters(Record):
    """What the KV capacity needs beyond the model description. Sizes in elements, 0 = absent."""

    moe: bool = False
    experts: int = 0
    tied: bool = False
    """Input and output embeddings are one matrix."""
    activation: str = ""
    expert_ffn: int = 0
    shared_ffn: int = 0
    """All shared experts together."""


# ------------------------------------------------------------------------------------- decoding


def decode_config(text: str | bytes, source: str) -> Config:
    """The merged config in JSON ``text``; BlisError naming ``source`` unless it is an object."""
    import json

    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float)
    except (ValueError, RecursionError) as problem:  # JSON and UTF-8 errors are ValueErrors
        raise BlisError(f"{source} is not valid JSON: {problem}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BlisError(f"{source} must hold a JSON object, not {_json_type(value)}")
    return merged(value)


def merged(config: Config) -> Config:
    """``config`` with the entries of its ``text_config`` object, if any, laid over it."""
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, dict) else config


def is_suitable(config: Config) -> bool:
    """Whether this looks like a language model's config at all."""
    return "num_hidden_layers" in config or "hidden_size" in config


# ---------------------------------------------------------------------------------- description


def parse_model(config: Config) -> ModelDescription:
    """The model description; figures that are absent or of the wrong JSON type are 0.

    What the reference ignores, such as ``head_dim`` (quirk 03-3), goes into ``details``.
    """
    heads = _integer(config, "num_attention_heads")
    ffn = _integer(config, "intermediate_size", "ffn_hidden_size")
    experts = _experts(config)
    shared_ffn = _shared_ffn(config, ffn)
    return ModelDescription(
        layers=_integer(config, "num_hidden_layers"),
        hidden=_integer(config, "hidden_size"),
        heads=heads,
        kv_heads=_integer(config, "num_key_value_heads", "num_kv_heads", "multi_query_group_num")
        or heads,
        vocab=_integer(config, "vocab_size"),
        ffn=ffn,
        bytes_per_value=_bytes_per_value(config),
        weight_bytes=_quantised_bytes(config.get("quantization_config")),
        experts=experts,
        experts_per_token=_integer(config, "num_experts_per_tok"),
        expert_ffn=_integer(config, "moe_intermediate_size"),
        shared_ffn=shared_ffn,
        interleave_step=_integer(config, "interleave_moe_layer_step"),
        dense_ffn=_integer(config, "intermediate_size_mlp"),
        activation=_text(config, "hidden_act"),
        details=parse_details(config, experts=experts, ffn=ffn, shared_ffn=shared_ffn),
    )


def parse_kv_parameters(config: Config) -> KVParameters:
    """What the KV capacity needs; BlisError for a MoE model that hides its number of experts."""
    tied = config.get("tie_word_embeddings") is True
    activation = _text(config, "hidden_act")
    experts = _experts(config)
    if experts > 1:
        return KVParameters(
            moe=True,
            experts=experts,
            tied=tied,
            activation=activation,
            expert_ffn=_integer(config, "moe_intermediate_size"),
            # Without ``ffn_hidden_size``, unlike the description (reference quirk 03-20).
            shared_ffn=_shared_ffn(config, _integer(config, "intermediate_size")),
        )
    if _integer(config, "n_shared_experts") > 0 or _integer(config, "num_experts_per_tok") > 0:
        raise BlisError(
            "the model config is of a mixture of experts but gives no total number of experts; "
            "add num_local_experts to config.json or give --total-kv-blocks"
        )
    return KVParameters(tied=tied, activation=activation)


def weight_bytes_from_name(model: str) -> float:
    """Bytes per weight that a model's name announces (``-w4a16``, ``-FP8``), 0 if it does not."""
    # as words between the separators . - _ (and behind the last /)
    words = model.lower().replace(".", "-").replace("_", "-").split("-")
    words = [word.rpartition("/")[2] for word in words]
    for word in words:
        weights, _, activations = word[1:].partition("a")
        digits = weights + activations
        if word[:1] == "w" and weights and activations and digits.isdecimal() and digits.isascii():
            if int(weights) > 0:
                return int(weights) / 8
            break
    return 1.0 if "fp8" in words else 0.0


def describe(config: Config, model: str) -> tuple[ModelDescription, list[str]]:
    """The model description, its weight precision taken from the name ``model`` if need be.

    Also returns warnings about a precision that is doubtful, to be logged by the caller.
    """
    description = parse_model(config)
    if description.weight_bytes == 0:
        width = weight_bytes_from_name(model)
        description = attrs.evolve(
            description, weight_bytes=width, details=name_format(description.details, width, model)
        )
    width, weight = description.bytes_per_value, description.weight_bytes
    warnings = []
    if weight == 0 and config.get("quantization_config") is not None:
        warnings.append(
            f"model {model}: quantization_config is not understood; weights count as {width:g} "
            "bytes each"
        )
    elif weight == 0 and 0 < width <= 1:
        warnings.append(
            f"model {model}: torch_dtype says {width:g} byte per value for activations too; "
            "if only the weights are quantised, the KV cache is underestimated"
        )
    if width == 0:
        warnings.append(f"model {model}: unknown torch_dtype; bytes per value is taken as 0")
    elif weight > width:
        warnings.append(
            f"model {model}: quantised weights ({weight:g} bytes) are wider than torch_dtype "
            f"({width:g} bytes)"
        )
    return description, warnings


# ----------------------------------------------------------------------------- sequence lengths


def max_model_length(config: Config) -> int:
    """Longest sequence in tokens that the model supports, rope scaling included; 0 = not known."""
    return scaled_positions(
        _integer(config, "max_position_embeddings"),
        _text(config, "model_type"),
        config.get("rope_scaling"),
    )


def scaled_positions(positions: int, model_type: str, rope_scaling: Any) -> int:
    """``positions`` (tokens) stretched as ``rope_scaling`` says, if it does."""
    if positions <= 0 or "gemma3" in model_type or not isinstance(rope_scaling, dict):
        return positions
    kind = _text(rope_scaling, "type") or _text(rope_scaling, "rope_type")
    factor = _number(rope_scaling.get("factor"))
    if kind in _UNSCALED_ROPE or factor is None or factor <= 1:
        return positions
    base = positions
    if kind == "yarn":
        original = _number(rope_scaling.get("original_max_position_embeddings"))
        if original is not None and original > 0:
            base = int(original)
    stretched = base * factor
    return int(stretched) if stretched < 2.0**63 else positions


# --------------------------------------------------------------------------------- single fields


def _bytes_per_value(config: Config) -> float:
    for key in ("torch_dtype", "dtype"):
        name = config.get(key)
        if isinstance(name, str):
            return BYTES_BY_DTYPE.get(name, 0.0)
    return 0.0


def _experts(config: Config) -> int:
    local = _integer(config, "num_local_experts")
    if local > 1:
        return local
    others = (
        _integer(config, key) for key in ("num_routed_experts", "n_routed_experts", "num_experts")
    )
    return next((count for count in others if count > 1), local)


def _shared_ffn(config: Config, ffn: int) -> int:
    """Total feed-forward size of the shared experts; ``ffn``: size of each if nothing says."""
    total = _integer(config, "shared_expert_intermediate_size")
    if total > 0:
        return total
    count = _integer(config, "n_shared_experts")
    return count * (_integer(config, "moe_intermediate_size") or ffn) if count > 0 else 0


def _quantised_bytes(quantization: Any) -> float:
    """Bytes per weight that a ``quantization_config`` states, 0 if it is not understood."""
    if not isinstance(quantization, dict):
        return 0.0
    bits = quantization.get("bits")
    if isinstance(bits, str):
        whole = int(bits) if re.fullmatch(r"[+-]?[0-9]+", bits) else 0
    else:
        whole = _integer(quantization, "bits")
    if whole > 0:
        return whole / 8
    method = _text(quantization, "quant_method").lower()
    if method == "fp8":
        return 1.0
    groups = quantization.get("config_groups")
    if method == "compressed-tensors" and isinstance(groups, dict):
        for _, group in sorted(groups.items()):
            weights = group.get("weights") if isinstance(group, dict) else None
            number = _number(weights.get("num_bits")) if isinstance(weights, dict) else None
            if number is not None and number > 0:
                return number / 8
    return 0.0


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text} is out of range")
    return value


def _json_type(value: Any) -> str:
    return "an array" if isinstance(value, list) else f"the {type(value).__name__} {value!r:.40}"
