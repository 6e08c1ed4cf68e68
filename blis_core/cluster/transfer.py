"""Moving KV caches between instances: how much there is to move, and how long it takes."""

from __future__ import annotations

import math

from blis_core.contracts import ModelDescription
from blis_core.errors import BlisError


def kv_bytes_per_token(model: ModelDescription, tp: int) -> float:
    """KV cache of one token on one of ``tp`` GPUs, in bytes.

    The head size is hidden / heads, whatever the model's file says of it. BlisError for an
    architecture that it cannot be computed from.
    """
    layers, hidden, heads, width = model.layers, model.hidden, model.heads, model.bytes_per_value
    kv_heads = model.kv_heads or heads
    if min(layers, hidden, heads) <= 0 or kv_heads < 0:
        raise BlisError(
            "disaggregation needs the model's layers, hidden size and attention heads, to know the"
            f" size of its KV cache; its config has {layers}, {hidden} and {heads}"
        )
    if not (math.isfinite(width) and width > 0):
        raise BlisError("disaggregation needs the model's data type (torch_dtype in its config)")
    if hidden % heads:
        raise BlisError(
            f"disaggregation: the model's hidden size {hidden} is not a multiple of its {heads}"
            " attention heads"
        )
    if tp <= 0:
        raise BlisError("disaggregation needs a tensor parallel degree: give --tp or --prefill-tp")
    if kv_heads >= tp and kv_heads % tp:
        raise BlisError(
            f"--prefill-tp: {tp} GPUs cannot share the model's {kv_heads} KV heads evenly"
        )
    head = hidden // heads
    return (float(layers) * 2.0 * float(head) * float(kv_heads) * width) / float(tp)


class TransferLink:
    """The network between the pools.

    ``contention``: transfers share the bandwidth. A transfer's share is fixed when it starts, later
    ones do not slow it down (reference quirk 07-Q10).
    """

    def __init__(
        self,
        bytes_per_block: float,
        *,
        bandwidth: float = 25.0,
        base_latency: float = 0.05,
        contention: bool = False,
    ) -> None:
        """``bandwidth`` in GB/s above 0, ``base_latency`` in ms."""
        self._bytes_per_block = bytes_per_block
        self._bandwidth = bandwidth * 1000.0  # bytes per us
        self._base = base_latency * 1000.0
        self.contention = contention
        self.active = 0
        """Transfers under way."""
        self.started = 0
        self.peak = 0
        """Most transfers at once; counted only with contention, as is the depth."""
        self._depth_sum = 0

    def start(self, blocks: int) -> int:
        """Begin a transfer; returns its duration in us, at least 1."""
        self.active += 1
        self.started += 1
        bandwidth = self._bandwidth
        if self.contention:
            self.peak = max(self.peak, self.active)
            self._depth_sum += self.active
            if self.active > 1:
                bandwidth = bandwidth / float(self.active)
        if bandwidth <= 0:
            return max(1, math.ceil(self._base))
        return max(1, math.ceil(self._base + float(blocks) * self._bytes_per_block / bandwidth))

    def end(self) -> None:
        """A transfer is complete."""
        self.active -= 1

    @property
    def mean_depth(self) -> float:
        """Transfers under way when one starts, itself included, on average; 0 without any."""
        return self._depth_sum / self.started if self.started and self.contention else 0.0
