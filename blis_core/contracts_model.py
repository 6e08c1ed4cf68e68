"""Descriptions of models and GPUs, as latency models get them."""

from __future__ import annotations

import attrs

from blis_core.records import Record


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelDetails(Record):
    """Figures for models of single kernels, as the config has them; 0 and "" mean absent.

    The other backends follow a reference that does not read them (reference quirks 03-3 to 03-5).
    """

    head_dim: int = 0
    """Size of one head; 0 = hidden size / heads."""
    routed_layers: int = 0
    """Layers with routed experts, counted as the model has them."""
    shared_expert_ffn: int = 0
    """Feed-forward size of all shared experts together."""
    attention: str = ""
    """"mla" or "linear" where (some) layers have no ordinary attention, else ""."""
    sliding_window: int = 0
    """Tokens that (some) layers attend to at most."""
    tied: bool = False
    """Input and output embeddings are one matrix."""
    multimodal: bool = False
    """The config describes encoders for images or sound as well."""
    weight_format: str = ""
    """Format of quantised weights: fp8, fp8-block, int8, int4, mxfp4 or another name; "" = none."""
    attention_quantised: bool = True
    """Whether the format also holds for the weights of attention."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelDescription(Record):
    """Architecture figures of a language model. Integers unless noted; 0 means absent."""

    layers: int = 0
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    vocab: int = 0
    ffn: int = 0
    bytes_per_value: float = 0.0
    """Bytes of one activation or KV value (from the dtype)."""
    weight_bytes: float = 0.0
    """Bytes of one quantised weight; 0 = not quantised, use ``bytes_per_value``."""
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    interleave_step: int = 0
    dense_ffn: int = 0
    activation: str = ""
    details: ModelDetails = ModelDetails()
    """What the figures above leave out."""

    @property
    def effective_weight_bytes(self) -> float:
        """Bytes of one weight as stored."""
        return self.weight_bytes if self.weight_bytes > 0 else self.bytes_per_value

    @property
    def moe_layers(self) -> int:
        """Layers with routed experts (0 for a dense model)."""
        if self.experts <= 1:
            return 0
        return (
            self.layers // (self.interleave_step + 1) if self.interleave_step > 0 else self.layers
        )

    @property
    def dense_layers(self) -> int:
        """Layers without routed experts."""
        return self.layers - self.moe_layers


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HardwareDescription(Record):
    """Figures of one GPU."""

    name: str = ""
    fp16_tflops: float = 0.0
    fp8_tflops: float = 0.0
    """Peak FP8 rate in TFLOP/s; 0 = no native FP8."""
    hbm_tb_s: float = 0.0
    """Memory bandwidth in 10^12 byte/s."""
    mfu_prefill: float = 0.0
    mfu_decode: float = 0.0
    memory_gib: float = 0.0
    """Device memory in GiB; 0 = unknown."""
