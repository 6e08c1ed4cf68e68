"""KV capacity is what the reference calculates."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from blis_core.catalog.hardware import bundled_gpus
from blis_core.catalog.huggingface import (
    KVParameters,
    parse_kv_parameters,
    parse_model,
    weight_bytes_from_name,
)
from blis_core.catalog.kv_capacity import kv_bytes_per_token, total_blocks
from blis_core.catalog.models import bundled_config
from blis_core.errors import BlisError

VECTORS = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "latency_vectors.json").read_text()
)


def blocks(model, gpu="H100", weight_bytes=None, **arguments):
    config = bundled_config(model)
    description = parse_model(config)
    if weight_bytes is not None:
        description = attrs.evolve(description, weight_bytes=weight_bytes)
    settings = {"tp": 1, "block_size": 16, "utilization": 0.9, **arguments}
    parameters = parse_kv_parameters(config)
    return total_blocks(description, bundled_gpus()[gpu], parameters, **settings)


def test_vectors():
    assert len(VECTORS["kv_capacity"]) == 165
    for case in VECTORS["kv_capacity"]:
        name = case["model"].split("@")[0]
        weight = VECTORS["models"][case["model"]]["weight_bytes"]
        if weight == 0 and case.get("model_name"):
            weight = weight_bytes_from_name(case["model_name"])
        arguments = {
            "gpu": case["gpu"],
            "weight_bytes": weight,
            "tp": case["tp"],
            "block_size": case["block_size"],
            "utilization": case["utilization"],
        }
        if case["blocks"] is None:
            with pytest.raises(BlisError) as refusal:
                blocks(name, **arguments)
            assert "\n" not in str(refusal.value)
        else:
            assert blocks(name, **arguments) == case["blocks"], case
        expected = case.get("kv_bytes_per_token")
        if expected is not None:
            assert kv_bytes_per_token(parse_model(bundled_config(name)), case["tp"]) == expected


@pytest.mark.parametrize(
    ("model", "arguments", "expected"),
    [
        ("llama-3.1-8b-instruct", {}, 26312),
        ("llama-3.1-8b-instruct", {"weight_bytes": 1.0}, 30142),
        ("llama-3.1-8b-instruct", {"gpu": "L40S", "tp": 4}, 307082),
        ("llama-3.1-70b-instruct", {"tp": 4}, 121801),
        ("llama-3.1-70b-instruct", {"tp": 2, "weight_bytes": 0.5}, 42781),
        ("qwen3-14b", {}, 15909),
        ("qwen3-14b", {"tp": 2}, 89941),
        ("qwen3-14b", {"tp": 2, "block_size": 1}, 1439064),
        ("qwen3-14b", {"tp": 2, "block_size": 32}, 44970),
        ("qwen3-14b", {"tp": 2, "utilization": 0.5}, 37512),
        ("qwen3-14b", {"tp": 2, "utilization": 1.0}, 103048),
        ("llama-4-scout-17b-16e-instruct-fp8-dynamic", {"tp": 8}, 1279198),
        ("llama-4-scout-17b-16e-instruct-fp8-dynamic", {"tp": 2}, 27345),
        ("mixtral-8x7b-v0.1", {"tp": 2}, 48956),
        ("qwen3-30b-a3b", {"gpu": "A100-80", "tp": 4}, 1210085),
        ("deepseek-v2-lite", {}, 10165),
    ],
)
def test_worked_examples(model, arguments, expected):
    assert blocks(model, **arguments) == expected


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("llama-3.1-70b-instruct", {}, r"need .* GiB but 1 x H100 offer 72\.00 GiB"),
        ("codellama-34b-instruct-hf", {"gpu": "L40S"}, r"68\.50 GiB .* 43\.20 GiB"),
        ("qwen3-14b", {"tp": 3}, "8 KV heads are not divisible by --tp 3"),
        ("qwen3-14b", {"tp": 0}, "--tp is 0"),
        ("qwen3-14b", {"utilization": 0.0}, "--gpu-memory-utilization"),
        ("qwen3-14b", {"utilization": float("nan")}, "--gpu-memory-utilization"),
        ("qwen3-14b", {"block_size": 0}, "--block-size-in-tokens"),
        ("qwen3-14b", {"block_size": 10**9}, "hold no block"),
        ("qwen3-14b", {"weight_bytes": -1.0}, "bytes per weight"),
    ],
)
def test_refusals(model, arguments, message):
    with pytest.raises(BlisError, match=message):
        blocks(model, **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ffn": 0}, "intermediate_size"),
        ({"vocab": 0}, "vocab_size"),
        ({"heads": 0}, "attention heads"),
        ({"layers": 0}, "layers"),
        ({"hidden": 0}, "hidden size"),
        ({"hidden": 5121}, "not divisible by 40"),
        ({"kv_heads": -1}, "-1 KV heads"),
        ({"bytes_per_value": 0.0}, "torch_dtype"),
    ],
)
def test_refused_models(changes, message):
    model = attrs.evolve(parse_model(bundled_config("qwen3-14b")), **changes)
    settings = {"tp": 1, "block_size": 16, "utilization": 0.9}
    with pytest.raises(BlisError, match=message):
        total_blocks(model, bundled_gpus()["H100"], KVParameters(), **settings)


def test_unknown_memory_and_activation():
    model = parse_model(bundled_config("qwen3-14b"))
    settings = {"tp": 1, "block_size": 16, "utilization": 0.9}
    gpu = bundled_gpus()["H100"]
    with pytest.raises(BlisError, match="MemoryGiB"):
        total_blocks(model, attrs.evolve(gpu, memory_gib=0.0), KVParameters(), **settings)
    with pytest.raises(BlisError, match="activation 'SiLU'"):
        total_blocks(model, gpu, KVParameters(activation="SiLU"), **settings)


def test_fewer_kv_heads_than_gpus_are_accepted():
    model = parse_model(bundled_config("qwen3-14b"))
    assert kv_bytes_per_token(model, 16) == 163840 / 16
