"""A model's figures as one GPU of an instance sees them."""

from __future__ import annotations

import attrs

from blis_core.api import LatencySetup

FORMATS = {"": "bf16", "fp8": "fp8", "fp8-block": "fp8_block"}
"""Ending of the name of a kernel, by format of the weights."""


@attrs.frozen(kw_only=True)
class Shapes:
    """Sizes after tensor parallelism. Feed-forward sizes are those of one GPU, hence fractional."""

    tp: int
    engines: int = 1
    """Data parallel engines between whose GPUs the experts are divided."""
    layers: int
    moe_layers: int
    hidden: int
    vocab: int
    heads: float
    kv_heads: int
    head_dim: int
    ffn: float
    """Of dense layers."""
    experts: int
    active: int
    expert_ffn: float
    shared_ffn: float
    format: str
    """Of the weights: a value of ``FORMATS``, or the format itself if there is no kernel for it."""
    attention_format: str

    @property
    def dense_layers(self) -> int:
        """Layers without routed experts."""
        return self.layers - self.moe_layers

    @property
    def attention_matrices(self) -> list[tuple[float, float]]:
        """(n, k) of the matrices of attention: queries, keys and values; output."""
        d, width = self.hidden, self.head_dim
        return [((self.heads + 2 * self.kv_heads) * width, d), (d, self.heads * width)]

    def ffn_matrices(self, ffn: float) -> list[tuple[float, float]]:
        """(n, k) of the matrices of a feed-forward block: gate and up in one, down."""
        return [(2 * ffn, self.hidden), (self.hidden, ffn)]


def shapes_of(setup: LatencySetup, engines: int = 1) -> Shapes:
    """The shapes of ``setup``, which has been checked, with this many data parallel engines."""
    model, tp = setup.model, setup.tp
    assert model is not None
    details = model.details
    moe = model.experts > 1
    dense_ffn = model.ffn
    if moe and model.dense_ffn > 0:
        dense_ffn = model.dense_ffn
    kernel = FORMATS.get(details.weight_format, details.weight_format)
    return Shapes(
        tp=tp,
        engines=engines,
        layers=model.layers,
        moe_layers=(details.routed_layers or model.moe_layers) if moe else 0,
        hidden=model.hidden,
        vocab=model.vocab,
        heads=model.heads / tp,
        kv_heads=max(1, (model.kv_heads or model.heads) // tp),
        head_dim=details.head_dim or model.hidden // model.heads,
        ffn=dense_ffn / tp,
        experts=model.experts if moe else 0,
        active=model.experts_per_token,
        expert_ffn=(model.expert_ffn or model.ffn) / tp,
        shared_ffn=details.shared_expert_ffn / tp,
        format=kernel,
        attention_format=kernel if details.attention_quantised else "bf16",
    )


def expert_kernel(shapes: Shapes) -> str:
    """Name of the kernel of routed experts.

    For FP8 weights with one scale per channel there are no measurements; blocks come nearest.
    """
    return "moe_fp8_block" if shapes.format == "fp8" else f"moe_{shapes.format}"
