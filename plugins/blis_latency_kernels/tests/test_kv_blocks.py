"""KV blocks against the counts that vLLM reports."""

from __future__ import annotations

import attrs
import pytest

from blis_core.api import BlisError, LatencySetup
from blis_core.catalog.huggingface import describe
from blis_core.catalog.models import bundled_config
from blis_latency_kernels.model import KernelModel

GPUS = KernelModel.known_gpus()


def setup(name, tp, tokens=2048, gpu="H100", **memory):
    return LatencySetup(
        backend="kernels",
        model=describe(bundled_config(name), name)[0],
        hardware=attrs.evolve(GPUS[gpu], **memory),
        tp=tp,
        max_tokens=tokens,
    )


def test_more_room_means_more_blocks():
    few = KernelModel.kv_blocks(setup("qwen3-14b", 1), 16, 0.8)
    many = KernelModel.kv_blocks(setup("qwen3-14b", 1), 16, 0.9)
    assert 0 < few < many
    assert KernelModel.kv_blocks(setup("qwen3-14b", 1), 32, 0.9) == pytest.approx(many / 2, abs=1)
    assert KernelModel.kv_blocks(setup("qwen3-14b", 1, 8192), 16, 0.9) < many
    assert KernelModel.kv_blocks(setup("qwen3-14b", 2), 16, 0.9) > 2 * many


def test_by_hand():
    """Llama-2-7B: 6.74e9 weights of 2 bytes, 16 KiB of KV cache per token and layer."""
    weights = 2 * (32 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 2 * 32000 * 4096 + 4096)
    overhead = 0.252 + 6.031e-6 * 32000 + 5.88e-10 * 2048 * (2 * 11008 + 4 * 4096)
    room = (0.9 * 79.1 - overhead) * 2**30 - weights
    expected = int(room / (32 * 16384 * 16))
    assert KernelModel.kv_blocks(setup("llama-2-7b-hf", 1), 16, 0.9) == expected


def test_no_room():
    with pytest.raises(BlisError, match="leave no room"):
        KernelModel.kv_blocks(setup("llama-2-70b-hf", 1), 16, 0.9)


def test_multimodal_models_hold_more_than_is_known():
    name = "llama-4-scout-17b-16e-instruct-fp8-dynamic"
    with pytest.raises(BlisError, match="--total-kv-blocks"):
        KernelModel.kv_blocks(setup(name, 2), 16, 0.9)


def test_unknown_memory():
    with pytest.raises(BlisError, match="--total-kv-blocks"):
        KernelModel.kv_blocks(setup("qwen3-14b", 1, gpu="H200"), 16, 0.9)
    stated = setup("qwen3-14b", 1, gpu="H200", memory_gib=131.0)
    assert KernelModel.kv_blocks(stated, 16, 0.9) > 0
    assert any("MemoryGiB" in text for text in KernelModel(stated).warnings)
