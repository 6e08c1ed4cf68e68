"""Trained roofline: the predecessor of trained physics, without FP8, layer split and TP traffic.

Source of the formulas: the trained-roofline model of BLIS (inference-sim). All rates are per
microsecond here, so every term comes out in us.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from blis_core.api import (
    BatchShape,
    BlisError,
    CoefficientQuery,
    LatencyModel,
    LatencySetup,
    ModelDescription,
    PrefillChunk,
    check_alpha,
    check_beta,
    truncate_us,
    truncate_us_array,
)
from blis_latency_legacy.inputs import Coefficients, global_coefficients, model_of

if TYPE_CHECKING:
    import numpy.typing as npt

GLOBAL: Final[Coefficients] = (
    (9315.338771116985, 1849.5902371340574, 1.7079389122469397),
    (
        0.7726491335309499,
        1.127489556719325,
        1.0559901872766853,
        0.0,
        43.500541908701074,
        48.80613214319187,
        0.0,
    ),
)
"""Fitted by the BLIS authors across models, one set for all."""

_TWO_63 = 2.0**63
_VALUE_BYTES = 2  # weights and KV cache alike, whatever the model's precision


class TrainedRoofline(LatencyModel):
    """Roofline terms of prefill and decode, weight traffic and overheads, weighted.

    ``alpha``: queueing, completion and output-token overhead, each a constant in us.
    ``beta``: 1. prefill, 2. decode, 3. weight traffic (factors), 4. unused, 5. per layer,
    6. per request, 7. per step (us). Experts have the full feed-forward size and a model with one
    expert counts as MoE (reference quirk 03-6). Attention of a chunk is charged against its whole
    prompt (reference quirk 03-2).

    Integer-valued products are merged into constants here. That changes no bit while they stay
    below 2^53, which covers every batch of a real model.
    """

    def __init__(self, setup: LatencySetup) -> None:
        check_alpha(setup)
        model = model_of(setup, ("layers", "heads", "hidden", "ffn"))
        peak, bandwidth = _rates(setup, model)
        check_beta(setup, 7)
        self._queueing, self._completion, self._token = map(truncate_us, setup.alpha[:3])
        self._b1, self._b2, self._b3 = setup.beta[:3]
        self._b6, self._per_step = setup.beta[5:7]

        tp, layers, d, ffn = setup.tp, model.layers, model.hidden, model.ffn
        head = d // model.heads
        kv_width = (model.kv_heads or model.heads) * head
        self._active = max(1, model.experts_per_token)
        self._experts = model.experts
        self._tp, self._peak, self._bandwidth = float(tp), peak, bandwidth
        self._projection = float(layers * 2 * d * (2 * d + 2 * kv_width))
        self._attention = float(layers * 4 * (model.heads // tp) * head)
        self._half_attention = float(layers * 2 * (model.heads // tp) * head)
        self._ffn = float(layers * self._active * 6 * d * ffn)
        self._kv = layers * 2 * (kv_width / tp) * _VALUE_BYTES
        self._per_layer = setup.beta[4] * layers
        self._attention_weights = layers * d * (2 * d + 2 * kv_width) * _VALUE_BYTES / tp
        self._expert_weights = float(layers * 3 * d * ffn * _VALUE_BYTES)
        self._vector = tuple(
            np.array(value)
            for value in (self._attention, self._peak, self._kv, self._bandwidth, self._b2)
        )

    @classmethod
    def default_coefficients(cls, query: CoefficientQuery) -> Coefficients:
        """The global set: ``trained_roofline_defaults`` of the user's file, else the packaged."""
        return global_coefficients(query, "trained_roofline_defaults", 7, GLOBAL)

    # -------------------------------------------------------------------------------- step time

    def step_time(self, shape: BatchShape) -> int:
        """Duration in us; 1 for an empty batch."""
        prefills, decodes, context_sum = shape
        tokens = requests = decodes
        value = 0.0
        if prefills:
            value = self._b1 * self._prefill_us(prefills)
            requests += len(prefills)
            for _, new_tokens, _ in prefills:
                tokens += new_tokens
        elif decodes == 0:
            return 1
        if decodes:
            value += self._b2 * max(self._decode_parts(decodes, context_sum))
        for term in self._fixed_terms(tokens, requests):
            value += term
        return max(1, truncate_us(value))

    def decode_times(self, decodes: int, context_sum: int, steps: int) -> npt.NDArray[np.int64]:
        """As :meth:`step_time` for each of ``steps`` consecutive decode steps."""
        if steps <= 2 or decodes <= 0:
            return super().decode_times(decodes, context_sum, steps)
        attention, peak, kv, bandwidth, b2 = self._vector
        end = context_sum + decodes * steps
        # Both bounds grow with the context, so their end points tell whether one always wins.
        low_compute, low_traffic = self._decode_parts(decodes, context_sum)
        high_compute, high_traffic = self._decode_parts(decodes, end - decodes)
        times: npt.NDArray[np.float64] | None = None
        if high_traffic > low_compute:
            # Each decode reads its context and writes one token more.
            times = np.arange(context_sum + decodes, end + decodes, decodes, dtype=np.float64)
            np.multiply(times, kv, times)
            np.divide(times, bandwidth, times)
        if times is None or high_compute > low_traffic:
            compute = np.arange(context_sum, end, decodes, dtype=np.float64)
            np.multiply(compute, attention, compute)
            np.add(compute, self._projection * decodes / self._tp, compute)
            np.add(compute, self._ffn * decodes / self._tp, compute)
            np.divide(compute, peak, compute)
            times = compute if times is None else np.maximum(times, compute, out=times)
        np.multiply(times, b2, times)
        for term in self._fixed_terms(decodes, decodes):
            if term != 0:
                np.add(times, term, times)
        if times[0] >= 1.0 and times[-1] < _TWO_63:
            return times.astype(np.int64)
        return np.maximum(truncate_us_array(times), 1)

    # -------------------------------------------------------------------------------- overheads

    def queueing_time(self, prompt_len: int) -> int:
        """alpha 1, in us."""
        return self._queueing

    def output_token_time(self) -> int:
        """alpha 3, in us."""
        return self._token

    def completion_time(self) -> int:
        """alpha 2, in us."""
        return self._completion

    # ------------------------------------------------------------------------------------ terms

    def _prefill_us(self, prefills: tuple[PrefillChunk, ...]) -> float:
        """Unweighted us of the chunks: the slower of arithmetic and KV writes."""
        tokens = attended = 0
        for _, new_tokens, prompt_len in prefills:
            tokens += new_tokens
            attended += new_tokens * (2 * prompt_len + new_tokens)
        compute = self._projection * tokens / self._tp + self._half_attention * attended
        compute = (compute + self._ffn * tokens / self._tp) / self._peak
        return max(compute, self._kv * tokens / self._bandwidth)

    def _decode_parts(self, decodes: int, context_sum: int) -> tuple[float, float]:
        """Unweighted us of arithmetic and of KV traffic of the decodes."""
        compute = self._projection * decodes / self._tp + self._attention * context_sum
        compute = (compute + self._ffn * decodes / self._tp) / self._peak
        return compute, self._kv * (context_sum + decodes) / self._bandwidth

    def _fixed_terms(self, tokens: int, requests: int) -> tuple[float, float, float, float]:
        """Weighted us of weight traffic, layers, requests and the step, in order of addition."""
        experts = 1
        if self._experts > 0:
            experts = min(self._experts, max(self._active, tokens * self._active))
        moved = self._attention_weights + self._expert_weights * experts / self._tp
        weights = self._b3 * (moved / self._bandwidth)
        return weights, self._per_layer, self._b6 * requests, self._per_step


def _rates(setup: LatencySetup, model: ModelDescription) -> tuple[float, float]:
    """(FLOP/us at FP16, byte/us) of one GPU, after the checks of sharding and of the GPU."""
    gpu = setup.hardware
    problems = []
    kv_heads = model.kv_heads or model.heads
    for name, count in (("attention", model.heads), ("KV", kv_heads)):
        if count % setup.tp:
            problems.append(f"{count} {name} heads are not divisible by --tp {setup.tp}")
    rates = (gpu.fp16_tflops, gpu.hbm_tb_s) if gpu else (0.0, 0.0)
    for name, value in zip(("TFlopsPeak", "BwPeakTBs"), rates, strict=True):
        if not (math.isfinite(value) and value > 0):
            problems.append(f"{name} of the GPU is {value}, must be finite and above 0")
    if problems:
        raise BlisError(f"latency model {setup.backend!r}: {'; '.join(problems)}")
    return rates[0] * 1e6, rates[1] * 1e6
