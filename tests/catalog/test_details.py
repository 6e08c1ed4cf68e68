"""What models of single kernels need to know, from a config and from the catalogue."""

from __future__ import annotations

import attrs
import pytest

from blis_core.catalog.huggingface import describe, parse_model
from blis_core.catalog.models import bundled_config
from blis_core.contracts import ModelDetails

BASE = {
    "num_hidden_layers": 12,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "torch_dtype": "bfloat16",
}
MOE = {"num_local_experts": 8, "num_experts_per_tok": 2}
NO_ATTENTION = {"ignore": ["lm_head", "re:.*self_attn.*"]}


def compressed(**weights):
    groups = {"group_0": {"weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


CASES = {
    "nothing": ({}, {}),
    "head size": ({"head_dim": 128}, {"head_dim": 128}),
    "tied embeddings": ({"tie_word_embeddings": True}, {"tied": True}),
    "sliding window": ({"sliding_window": 4096}, {"sliding_window": 4096}),
    "unused window": ({"sliding_window": 4096, "use_sliding_window": False}, {}),
    "latent attention": ({"kv_lora_rank": 512}, {"attention": "mla"}),
    "linear by key": ({"linear_num_key_heads": 16}, {"attention": "linear"}),
    "linear by layers": (
        {"layer_types": ["full_attention", "linear_attention"]},
        {"attention": "linear"},
    ),
    "mamba": ({"layer_types": ["mamba", "attention"]}, {"attention": "linear"}),
    "full layers": ({"layer_types": ["full_attention", "sliding_attention"]}, {}),
    "vision": ({"vision_config": {"depth": 2}}, {"multimodal": True}),
    "all layers have experts": (MOE, {"routed_layers": 12}),
    "llama 4": (
        {**MOE, "model_type": "llama4_text", "interleave_moe_layer_step": 1},
        {"routed_layers": 12, "shared_expert_ffn": 2048},
    ),
    "llama 4, every other layer": (
        {**MOE, "model_type": "llama4_text", "interleave_moe_layer_step": 2},
        {"routed_layers": 6, "shared_expert_ffn": 2048},
    ),
    "first layers dense": (
        {**MOE, "first_k_dense_replace": 3, "n_shared_experts": 2, "moe_intermediate_size": 256},
        {"routed_layers": 9, "shared_expert_ffn": 512},
    ),
    "sparse step": ({**MOE, "decoder_sparse_step": 3}, {"routed_layers": 4}),
    "single dense layers": ({**MOE, "mlp_only_layers": [0, 11]}, {"routed_layers": 10}),
    "fp8": ({"quantization_config": {"quant_method": "fp8"}}, {"weight_format": "fp8"}),
    "fp8 blocks": (
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
        {"weight_format": "fp8-block"},
    ),
    "compressed fp8": (
        {"quantization_config": compressed(num_bits=8, type="float")},
        {"weight_format": "fp8"},
    ),
    "compressed int8": (
        {"quantization_config": compressed(num_bits=8, type="int")},
        {"weight_format": "int8"},
    ),
    "compressed int4": (
        {"quantization_config": compressed(num_bits=4, type="int")},
        {"weight_format": "int4"},
    ),
    "attention spared": (
        {"quantization_config": {"quant_method": "fp8", **NO_ATTENTION}},
        {"weight_format": "fp8", "attention_quantised": False},
    ),
    "awq": ({"quantization_config": {"quant_method": "awq", "bits": 4}}, {"weight_format": "int4"}),
    "mxfp4": ({"quantization_config": {"quant_method": "mxfp4"}}, {"weight_format": "mxfp4"}),
}


@pytest.mark.parametrize("case", CASES)
def test_details(case):
    config, expected = CASES[case]
    assert parse_model({**BASE, **config}).details == ModelDetails(**expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("acme/small", ""),
        ("acme/small-FP8-dynamic", "fp8"),
        ("acme/small-quantized.w8a8", "int8"),
        ("acme/small-quantized.w4a16", "int4"),
    ],
)
def test_the_format_may_stand_in_the_name(name, expected):
    assert describe(BASE, name)[0].details.weight_format == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3-30b-a3b", {"head_dim": 128, "routed_layers": 48}),
        ("mistral-nemo-instruct-2407", {"head_dim": 128}),
        ("deepseek-v2-lite", {"attention": "mla", "routed_layers": 26, "shared_expert_ffn": 2816}),
        ("mixtral-8x7b-v0.1", {"routed_layers": 32}),
        (
            "llama-4-scout-17b-16e-instruct-fp8-dynamic",
            {
                "head_dim": 128,
                "routed_layers": 48,
                "shared_expert_ffn": 8192,
                "multimodal": True,
                "weight_format": "fp8",
                "attention_quantised": False,
            },
        ),
    ],
)
def test_details_of_the_catalogue(name, expected):
    assert parse_model(bundled_config(name)).details == ModelDetails(**expected)


def test_what_the_reference_reads_stays_as_it_was():
    """Details change no other figure of the description."""
    plain = parse_model({**BASE, **MOE})
    detailed = parse_model({**BASE, **MOE, "head_dim": 256, "first_k_dense_replace": 2})
    assert attrs.evolve(detailed, details=plain.details) == plain
    assert plain.moe_layers == 12
