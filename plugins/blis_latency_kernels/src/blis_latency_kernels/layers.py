"""Sums of the kernels that depend on the tokens of a step, or on its sequences, alone."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from blis_latency_kernels.constants import Gpu, Roofline, contents
from blis_latency_kernels.shapes import Shapes, expert_kernel

POWER: Final = 1.01
"""Exponent of the power law by which experts are chosen, as in the measured tables."""


class Layers:
    """The layers of a model on one GPU, and the head behind them.

    ``largest_graph``: most tokens of a step that is padded to a captured size. ``sampler_us``: us
    for each logit. ``link_gb_s``: speed of all-reduces, 0 = as measured.
    """

    def __init__(
        self,
        gpu: Gpu,
        shapes: Shapes,
        *,
        largest_graph: int,
        sampler_us: float,
        link_gb_s: float,
        power_law: bool,
    ) -> None:
        self._shapes = shapes
        host = contents()["host"]
        self._layer_us: float = host["layer_us"]
        self._elementwise_rate: float = host["elementwise_bw_fraction"] * gpu.bandwidth  # bytes/us
        self._graphs = [n for n in contents()["cuda_graph_sizes"] if n <= largest_graph]
        self._sampler_us = sampler_us
        self._gemm = {
            name: (gpu.roofline(f"gemm_{name}"), 2 if name == "bf16" else 1)
            for name in {"bf16", shapes.format, shapes.attention_format}
            if gpu.quality(f"gemm_{name}")
        }
        self._experts: Roofline | None = None
        if shapes.moe_layers:
            self._experts = gpu.roofline(expert_kernel(shapes))
        self._shares = _power_law(shapes.experts) if power_law else []
        self._reduce = gpu.allreduce(shapes.tp, link_gb_s) if shapes.tp > 1 else None
        self._exchange = gpu.allreduce(shapes.engines, link_gb_s) if shapes.engines > 1 else None

    def tokens_us(self, tokens: int, everywhere: int = 0) -> float:
        """All layers for this many tokens, without what depends on their contexts.

        With data parallel engines: ``tokens`` of the busiest, for which the others wait, and
        those of all of them ``everywhere``.
        """
        shapes = self._shapes
        padded = self._padded(tokens)
        d = shapes.hidden
        common = 0.0
        for n, k in shapes.attention_matrices:
            common += self._matrix(padded, n, k, shapes.attention_format)
        common += 2 * self._reduced(2 * padded * d) + self._layer_us
        # norms, rotary embedding, activation and cache write: bytes that pass by per token
        width = 16 * d + 4 * (shapes.heads + 2 * shapes.kv_heads) * shapes.head_dim
        total = shapes.layers * common
        for layers, ffn, cost in (
            (shapes.dense_layers, shapes.ffn, 0.0),
            (shapes.moe_layers, shapes.shared_ffn, self._expert_us(tokens, everywhere or tokens)),
        ):
            if layers:
                if ffn:
                    for n, k in shapes.ffn_matrices(ffn):
                        cost += self._matrix(padded, n, k, shapes.format)
                cost += padded * (width + 6 * ffn) / self._elementwise_rate
                total += layers * cost
        return total

    def head_us(self, sequences: int) -> float:
        """Logits and samples of this many sequences."""
        shapes = self._shapes
        vocab = shapes.vocab
        value = self._matrix(sequences, vocab / shapes.tp, shapes.hidden, "bf16")
        value += self._reduced(2 * sequences * vocab / shapes.tp)
        value += 12 * sequences * vocab / self._elementwise_rate
        return value + self._sampler_us * sequences * vocab

    def _padded(self, tokens: int) -> int:
        """The size of the CUDA graph that runs, or the tokens themselves beyond the largest."""
        graphs = self._graphs
        place = bisect_left(graphs, tokens)
        return graphs[place] if place < len(graphs) else tokens

    def _matrix(self, m: float, n: float, k: float, kind: str) -> float:
        """A matrix product of ``m`` tokens; activations have 16 bits."""
        form, width = self._gemm[kind]
        return form.us(n * k * width + 2 * m * (n + k), 2 * m * n * k)

    def _expert_us(self, tokens: int, everywhere: int) -> float:
        """Routed experts and router of one layer; they are not padded.

        Engines that share the experts hold an equal part of them each, and so much of the work.
        """
        if self._experts is None:
            return 0.0
        shapes, form = self._shapes, self._experts
        d, ffn = shapes.hidden, shapes.expert_ffn
        width = 2 if shapes.format == "bf16" else 1
        distinct = self._distinct(everywhere) / shapes.engines
        routed = everywhere * shapes.active / shapes.engines
        moved = distinct * 3 * d * ffn * width + 2 * routed * (2 * d + 3 * ffn)
        computed = 6 * (routed + distinct * form.tile) * d * ffn
        value = form.us(moved, computed) + self._matrix(tokens, shapes.experts, d, "bf16")
        if self._exchange is not None:
            # gathering the tokens of all engines and scattering the sums is an all-reduce in two
            value += self._exchange.us(2 * self._padded(tokens) * shapes.engines * d)
        return value

    def _distinct(self, tokens: int) -> float:
        """Expected number of experts that at least one of the tokens chooses."""
        experts, active = self._shapes.experts, self._shapes.active
        if not self._shares:
            return float(experts * (1 - (1 - active / experts) ** tokens))
        return sum(1 - (1 - min(1.0, active * share)) ** tokens for share in self._shares)

    def _reduced(self, size: float) -> float:
        return self._reduce.us(size) if self._reduce is not None else 0.0


def _power_law(experts: int) -> list[float]:
    """Share of each expert in the choices of tokens."""
    weights = [rank**-POWER for rank in range(1, experts + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]
