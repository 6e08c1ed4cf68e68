"""How many KV blocks fit beside the weights.

The figures were fitted to block counts that vLLM reports; see docs/accuracy.md.
"""

from __future__ import annotations

from blis_core.api import BlisError, LatencySetup
from blis_latency_kernels.constants import Gpu, contents
from blis_latency_kernels.shapes import Shapes

GIB = 2**30


def weight_bytes(shapes: Shapes, *, tied: bool) -> float:
    """Bytes of the weights of one engine on its GPUs together.

    Embeddings, router and norms have 16 bits.
    """
    tp, d = shapes.tp, shapes.hidden

    def stored(matrices: list[tuple[float, float]], width: int) -> float:
        return sum(n * k for n, k in matrices) * width

    width = 2 if shapes.format == "bf16" else 1
    attention_width = 2 if shapes.attention_format == "bf16" else 1
    # key and value heads are stored as often as there are GPUs, if these are more
    attention = stored(shapes.attention_matrices, attention_width)
    moe = shapes.experts / shapes.engines * stored(shapes.ffn_matrices(shapes.expert_ffn), width)
    moe += stored(shapes.ffn_matrices(shapes.shared_ffn), width)
    dense = stored(shapes.ffn_matrices(shapes.ffn), width)
    per_gpu = shapes.layers * attention + shapes.moe_layers * moe + shapes.dense_layers * dense
    router = shapes.moe_layers * shapes.experts * d * 2
    norms = (2 * shapes.layers + 1) * d * 2
    embeddings = shapes.vocab * d * 2 * (1 if tied else 2)
    return per_gpu * tp + router + norms + embeddings


def kv_blocks(
    gpu: Gpu, shapes: Shapes, setup: LatencySetup, block_size: int, utilization: float
) -> int:
    """Blocks of ``block_size`` tokens on each GPU, of all data parallel engines together.

    BlisError if none fit, or nobody knows.
    """
    model, hardware = setup.model, setup.hardware
    assert model is not None
    assert hardware is not None
    if model.details.multimodal:
        raise BlisError(
            f"latency model {setup.backend}: how much GPU memory the encoders of a multimodal model"
            " take is not known; give --total-kv-blocks"
        )
    memory = gpu.usable_memory_gib or hardware.memory_gib
    if not memory > 0:
        raise BlisError(
            f"latency model {setup.backend}: the usable memory of {gpu.name} is not known; give"
            " --total-kv-blocks, or MemoryGiB in --hardware-config"
        )
    figures = contents()["kv_memory"]
    ffn = max(shapes.ffn, shapes.expert_ffn)
    overhead = (
        figures["constant_gib"]
        + figures["tp_above_1_gib"] * (shapes.tp > 1)
        + figures["per_vocab_entry_gib"] * shapes.vocab
        + figures["per_token_and_width_gib"]
        * (setup.max_tokens / shapes.engines)
        * (2 * ffn + 4 * shapes.hidden)
    )
    weights = weight_bytes(shapes, tied=model.details.tied) / shapes.tp
    room = (utilization * memory - overhead) * GIB - weights
    values = 2 * shapes.layers * shapes.kv_heads * shapes.head_dim
    blocks = int(room // (values * figures["kv_bytes_per_value"] * block_size))
    if blocks <= 0:
        raise BlisError(
            f"latency model {setup.backend}: {weights / GIB:.1f} GiB of weights and"
            f" {overhead:.1f} GiB for the engine leave no room for a KV cache in"
            f" {utilization * memory:.1f} GiB of {gpu.name}; raise --tp or give --total-kv-blocks"
        )
    return blocks * shapes.engines
