"""Roofline: a step takes as long as the slower of its arithmetic and its memory traffic.

Source of the formulas: the roofline model of BLIS (inference-sim), after Williams, Waterman and
Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009. Symbols used below:
d hidden size, L layers, H heads, g = KV heads * d/H, t new tokens, s progress, c attended context.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from blis_core.api import (
    BatchShape,
    HardwareDescription,
    LatencyModel,
    LatencySetup,
    ModelDescription,
    check_alpha,
    truncate_us,
    truncate_us_array,
)
from blis_latency_physics.inputs import descriptions, peak_tflops, refuse

if TYPE_CHECKING:
    import numpy.typing as npt

    Constant = npt.NDArray[np.float64]

_US = 1e6
_TWO_63 = 2.0**63


class Roofline(LatencyModel):
    """``max(FLOP / compute rate, bytes / bandwidth)``, all layers of one step together.

    Exactness. Prefill chunks are summed one by one, in the reference's order. The reference also
    adds one rounded quotient per decode; here decodes enter through their number and the sum of
    their contexts, which is exact up to the final division. The two differ by less than 1e-14
    relative, so the whole microsecond can differ only when the time lies that close to an integer
    (about one step in 10^10). The contexts of the single decodes are not known here, so no
    recomputation could tell the reference's rounding; the aggregate, being the more exact of the
    two, stands. A single decode of a dense model is bit-identical.
    """

    accepts_coefficients: ClassVar[bool] = False

    def __init__(self, setup: LatencySetup) -> None:
        check_alpha(setup)
        model, gpu = descriptions(setup)
        refuse(setup, _problems(model, gpu))
        self._alpha = setup.alpha
        d, layers, tp = float(model.hidden), float(model.layers), float(setup.tp)
        head = d / model.heads  # may be fractional; the trained models use whole numbers
        kv_heads = float(model.kv_heads or model.heads)
        g = kv_heads * head
        ffn = float(model.ffn if model.ffn > 0 else 4 * model.hidden)
        # Two feed-forward matrices whatever the activation (reference quirk 03-1).
        moe_matrix = 2 * d * (model.expert_ffn if model.expert_ffn > 0 else ffn)
        dense_matrix = 2 * d * (model.dense_ffn if model.dense_ffn > 0 else ffn)
        moe_layers, dense_layers = model.moe_layers, model.dense_layers

        self._tp = tp
        peak = peak_tflops(model, gpu) * 1e12
        self._prefill_rate = peak * gpu.mfu_prefill
        self._decode_rate = peak * gpu.mfu_decode
        self._bandwidth = gpu.hbm_tb_s * 1e12

        # FLOP of a chunk, in the pieces that the reference rounds one by one.
        self._layers, self._d, self._heads, self._head = layers, d, float(model.heads), head
        self._qkv = d * d + 2 * d * g
        self._moe = (moe_matrix, float(model.experts_per_token), float(moe_layers))
        self._dense = (dense_matrix, float(dense_layers))
        # FLOP of one decode: a part that is the same for all, and one per token of context.
        self._decode_flops = (
            (2 * self._qkv + 2 * d * d) * layers
            + 2 * moe_matrix * model.experts_per_token * moe_layers
            + 2 * dense_matrix * dense_layers
            + 2 * d * layers
        )
        self._context_flops = 4 * model.heads * head * layers + 5 * model.heads * layers
        # With a whole head size all of these and the pieces above are whole numbers, of which half
        # a multiple is taken at most: below 2^52 there is nothing to round, piece by piece or not.
        self._exact = 2.0**52 if head == int(head) else 0.0

        # Bytes: KV cache read and written per token, activations per token, weights per pass.
        self._kv_bytes = 2 * layers * kv_heads * head * model.bytes_per_value
        self._activation_bytes = layers * d * model.bytes_per_value
        self._decode_bytes = self._kv_bytes + self._activation_bytes
        # Below this bound, whole bytes divided by a power of two are exact.
        exact = setup.tp & (setup.tp - 1) == 0 and self._kv_bytes.is_integer()
        self._exact_bytes = 2.0**52 if exact and self._decode_bytes.is_integer() else 0.0
        self._attention_weights = (d * (d + 2 * g) + d * d) * layers
        self._dense_weights = dense_matrix * dense_layers
        self._weight_bytes = model.effective_weight_bytes
        self._experts = model.experts
        self._idle_share = (
            (model.experts - model.experts_per_token) / model.experts if moe_layers > 0 else 0.0
        )
        self._weights_by_tokens: dict[int, float] = {}
        self._decode_constants: dict[
            int, tuple[tuple[float, float, float], tuple[Constant, ...]]
        ] = {}
        self._vector = tuple(
            np.array(value)
            for value in (
                self._context_flops,
                self._kv_bytes,
                tp,
                self._decode_rate,
                self._bandwidth,
                _US,
            )
        )

    # -------------------------------------------------------------------------------- step time

    def step_time(self, shape: BatchShape) -> int:
        """Duration in us; 1 for a batch without tokens."""
        prefills, decodes, context_sum = shape
        if not prefills and decodes == 0:
            return 1
        tp, kv_bytes = self._tp, self._kv_bytes
        known = self._weights_by_tokens
        compute = traffic = 0.0
        tokens = decodes
        for context, t, _ in prefills:
            attended = context + (t - 1) / 2 if t > 1 else context
            flops = t * (self._decode_flops + self._context_flops * attended)
            if not flops < self._exact:
                flops = self._chunk_flops(context, t)
            compute += flops / tp / self._prefill_rate
            # The weights are added and taken away again because the reference does: it decides
            # bits.
            weights = known.get(t) or self._weights(t)
            moved = weights + kv_bytes * t + kv_bytes * context + self._activation_bytes * t
            traffic += (moved - weights) / tp
            tokens += t
        if decodes:
            flops = self._context_flops * context_sum + self._decode_flops * decodes
            compute += flops / tp / self._decode_rate
            traffic += (kv_bytes * context_sum + self._decode_bytes * decodes) / tp
        weights = known.get(tokens) or self._weights(tokens)
        memory = (weights / tp + traffic) / self._bandwidth
        value = max(compute, memory) * _US
        return int(value) if 1 <= value < _TWO_63 else max(1, truncate_us(value))

    def decode_times(self, decodes: int, context_sum: int, steps: int) -> npt.NDArray[np.int64]:
        """As :meth:`step_time` for each of ``steps`` consecutive decode steps."""
        if steps <= 2 or decodes <= 0:
            return super().decode_times(decodes, context_sum, steps)
        constants = self._decode_constants.get(decodes)
        if constants is None:
            figures = (
                self._decode_flops * decodes,
                self._decode_bytes * decodes,
                self._weights(decodes) / self._tp,
            )
            constants = self._decode_constants[decodes] = (figures, tuple(map(np.array, figures)))
        figures, (flops, moved, weights) = constants
        per_context_flops, per_context_bytes, tp, rate, bandwidth, us = self._vector
        end = context_sum + decodes * steps

        # Both bounds grow with the context, so their end points tell whether one always wins.
        low_compute, low_memory = self._bounds(figures, context_sum)
        high_compute, high_memory = self._bounds(figures, end - decodes)
        times: npt.NDArray[np.float64] | None = None
        if high_memory > low_compute:
            width = self._kv_bytes
            first, last = width * context_sum + figures[1], width * end + figures[1]
            if last < self._exact_bytes:  # then the quotients are an exact progression
                step = width * decodes / self._tp
                times = np.arange(first / self._tp, last / self._tp, step, dtype=np.float64)
            else:
                times = np.arange(context_sum, end, decodes, dtype=np.float64)
                np.multiply(times, per_context_bytes, times)
                np.add(times, moved, times)
                np.divide(times, tp, times)
            np.add(times, weights, times)
            np.divide(times, bandwidth, times)
        if times is None or high_compute > low_memory:
            context = np.arange(context_sum, end, decodes, dtype=np.float64)
            np.multiply(context, per_context_flops, context)
            np.add(context, flops, context)
            np.divide(context, tp, context)
            np.divide(context, rate, context)
            times = context if times is None else np.maximum(times, context, out=times)
        np.multiply(times, us, times)
        # both ends again, without the cost of reading array elements
        if (
            max(low_compute, low_memory) * _US >= 1.0
            and max(high_compute, high_memory) * _US < _TWO_63
        ):
            return times.astype(np.int64)
        return np.maximum(truncate_us_array(times), 1)

    # -------------------------------------------------------------------------------- overheads

    def queueing_time(self, prompt_len: int) -> int:
        """alpha 1 + alpha 2 per prompt token, in us (both 0 from the command line)."""
        return truncate_us(self._alpha[0] + self._alpha[1] * prompt_len)

    def output_token_time(self) -> int:
        """alpha 3, in us."""
        return truncate_us(self._alpha[2])

    # ------------------------------------------------------------------------------------ terms

    def _bounds(self, figures: tuple[float, float, float], context_sum: int) -> tuple[float, float]:
        """Seconds of compute and of memory traffic of a pure decode step.

        ``figures``: FLOP and bytes of the decodes beyond their context, bytes of the weights.
        """
        flops, moved, weights = figures
        tp = self._tp
        return (
            (self._context_flops * context_sum + flops) / tp / self._decode_rate,
            (weights + (self._kv_bytes * context_sum + moved) / tp) / self._bandwidth,
        )

    def _chunk_flops(self, context: int, t: int) -> float:
        """FLOP of ``t`` prompt tokens that follow ``context`` ones, before division by TP.

        Piece by piece, as the reference rounds them, for what is not exact in one go.
        """
        attended = context + (t - 1) / 2 if t > 1 else float(context)
        layers, d = self._layers, self._d
        matrices = (2 * t * self._qkv + 2 * t * d * d) * layers
        matrices += (4 * self._heads * t * attended * self._head) * layers
        matrix, active, moe_layers = self._moe
        matrices += 2 * t * matrix * active * moe_layers
        matrix, dense_layers = self._dense
        matrices += 2 * t * matrix * dense_layers
        return matrices + (5 * self._heads * t * attended + 2 * t * d) * layers

    def _weights(self, tokens: int) -> float:
        """Bytes of the weights that ``tokens`` tokens touch in one forward pass, all GPUs."""
        known = self._weights_by_tokens.get(tokens)
        if known is not None:
            return known
        matrix, _, moe_layers = self._moe
        routed = 0.0
        if moe_layers > 0:
            # Expected number of distinct experts if each token picks its experts at random.
            experts = self._experts * (1 - _power(self._idle_share, tokens))
            routed = matrix * experts * moe_layers
        total = (self._attention_weights + (routed + self._dense_weights)) * self._weight_bytes
        self._weights_by_tokens[tokens] = total
        return total


def _power(base: float, exponent: int) -> float:
    """``base ** exponent`` for 0 <= base < 1 and exponent >= 0, rounded as Go's math.Pow does.

    The C library differs from it in the last bits.
    """
    if exponent == 0:
        return 1.0
    if exponent == 1 or base == 0:
        return base
    fraction, binary = math.frexp(base)
    result, scale = 1.0, 0
    while exponent:
        if abs(binary) > 4096:  # the result underflows
            scale += binary
            break
        if exponent & 1:
            result *= fraction
            scale += binary
        fraction *= fraction
        binary *= 2
        if fraction < 0.5:
            fraction += fraction
            binary -= 1
        exponent >>= 1
    return math.ldexp(result, scale)


def _problems(model: ModelDescription, gpu: HardwareDescription) -> list[str]:
    """Everything that keeps the formulas from meaning something."""
    found = [
        f"{name} is {value}, must be above 0"
        for name, value in (
            ("attention heads", model.heads),
            ("layers", model.layers),
            ("hidden size", model.hidden),
        )
        if value <= 0
    ]
    found += [
        f"{name} is {value}, must be finite and above 0"
        for name, value in (
            ("bytes per value (torch_dtype)", model.bytes_per_value),
            ("TFlopsPeak", gpu.fp16_tflops),
            ("BwPeakTBs", gpu.hbm_tb_s),
            ("mfuPrefill", gpu.mfu_prefill),
            ("mfuDecode", gpu.mfu_decode),
        )
        if not (math.isfinite(value) and value > 0)
    ]
    experts, active = model.experts, model.experts_per_token
    if experts < 0:
        found.append(f"experts is {experts}, must be at least 0")
    if experts > 1 and not 0 < active <= experts:
        found.append(f"experts per token is {active}, must be 1 to {experts}")
    if experts == 0 and active > 0:
        found.append(f"experts per token is {active} in a model without experts")
    found += [
        f"{name} is {value}, must be at least 0"
        for name, value in (
            ("expert feed-forward size", model.expert_ffn),
            ("shared expert feed-forward size", model.shared_ffn),
        )
        if value < 0
    ]
    found += [
        f"{name} is {value}, must be 0 (unknown) or finite and above 0"
        for name, value in (
            ("MemoryGiB", gpu.memory_gib),
            ("TFlopsFP8", gpu.fp8_tflops),
            ("weight bytes", model.weight_bytes),
        )
        if not (math.isfinite(value) and value >= 0)
    ]
    return found
