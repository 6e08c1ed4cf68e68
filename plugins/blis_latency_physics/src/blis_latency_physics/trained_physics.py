"""Trained physics: roofline terms of a step, each weighted by a globally trained coefficient.

Source of the formulas: the trained-physics model of BLIS (inference-sim). All rates are per
microsecond here, so every term comes out in us.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from blis_core.api import (
    MAX_INT64,
    BatchShape,
    CoefficientQuery,
    HardwareDescription,
    LatencyModel,
    LatencySetup,
    ModelDescription,
    PrefillChunk,
    check_alpha,
    check_beta,
    truncate_us,
    truncate_us_array,
)
from blis_latency_physics.coefficients import MINIMUM_BETAS, global_coefficients
from blis_latency_physics.inputs import descriptions, peak_tflops, refuse

if TYPE_CHECKING:
    import numpy.typing as npt

    Constant = npt.NDArray[np.float64]

_TWO_63 = 2.0**63
_KV_BYTES = 2  # whatever the dtype (reference quirk 03-7)


class TrainedPhysics(LatencyModel):
    """Weighted sum of compute, memory, communication and overhead terms.

    ``alpha``: queueing, completion and output-token overhead, each a constant in us.
    ``beta``, 7 to 10 used, missing ones count as 0, further ones are checked and ignored:

    1. prefill compute, 2. decode compute, 3. weight traffic, 4. TP communication (all factors);
    5. per layer, 6. per request, 7. per step, 8. per MoE layer of an interleaved model (all us);
    9. prefill KV writes, 10. decode KV traffic (factors). With fewer than 9 (10) betas given, the
    slower of compute and KV traffic counts instead, weighted by beta 1 (beta 2).

    Integer-valued products are merged into constants here. That changes no bit while they stay
    below 2^53, which covers every batch of a real model.
    """

    __slots__ = (
        "_active",
        "_attention",
        "_b1",
        "_b2",
        "_b3",
        "_b4",
        "_b6",
        "_b9",
        "_b10",
        "_bandwidth",
        "_batches",
        "_completion",
        "_decode_split",
        "_dense_ffn",
        "_dense_weights_us",
        "_exchange",
        "_exchange_share",
        "_experts",
        "_half_attention",
        "_kv",
        "_moe_ffn",
        "_peak",
        "_per_layer",
        "_per_moe_layer",
        "_per_step",
        "_prefill_split",
        "_projection",
        "_queueing",
        "_token",
        "_tp",
        "_vector",
        "_vectors",
        "_weight_parts",
        "_weights_us",
    )

    def __init__(self, setup: LatencySetup) -> None:
        check_alpha(setup)
        check_beta(setup, MINIMUM_BETAS, values=False)
        model, gpu = descriptions(setup)
        refuse(setup, _problems(model, gpu, setup.tp))
        check_beta(setup, MINIMUM_BETAS)

        self._queueing, self._completion, self._token = map(truncate_us, setup.alpha[:3])
        beta = (*setup.beta, *(0.0,) * 10)[:10]
        self._prefill_split = len(setup.beta) >= 9
        self._decode_split = len(setup.beta) >= 10
        self._b1, self._b2, self._b3, self._b4 = beta[:4]
        self._b6, self._b9, self._b10 = beta[5], beta[8], beta[9]

        tp, layers, d = setup.tp, model.layers, model.hidden
        head = d // model.heads
        kv_width = (model.kv_heads or model.heads) * head
        expert_ffn = model.expert_ffn if model.expert_ffn > 0 else model.ffn
        dense_ffn = model.dense_ffn if model.dense_ffn > 0 else model.ffn
        moe_layers, dense_layers = model.moe_layers, model.dense_layers
        active = max(1, model.experts_per_token)
        shard_heads = model.heads // tp

        self._tp = float(tp)
        self._peak = peak_tflops(model, gpu) * 1e6
        self._bandwidth = gpu.hbm_tb_s * 1e6
        # FLOP per token or per (token x context); three feed-forward matrices.
        self._projection = float(layers * 2 * d * (2 * d + 2 * kv_width))
        self._attention = float(layers * 4 * shard_heads * head)
        self._half_attention = float(layers * 2 * shard_heads * head)
        self._moe_ffn = float(moe_layers * active * 6 * d * expert_ffn)
        self._dense_ffn = float(dense_layers * 6 * d * dense_ffn)
        # Bytes per token.
        self._kv = layers * 2 * (kv_width / tp) * _KV_BYTES
        self._exchange = float((2 * dense_layers + moe_layers) * d * 2 * 2)
        self._exchange_share = (tp - 1) / tp
        # Beta 8 is for interleaved models only: uniform MoE has no dispatch cost (quirk 03-22).
        interleaved = model.experts > 1 and model.interleave_step > 0
        self._per_layer = beta[4] * layers
        self._per_step = beta[6]
        self._per_moe_layer = beta[7] * moe_layers if interleaved else 0.0

        self._experts, self._active = model.experts, active
        self._weight_parts = (
            float(layers * d * (2 * d + 2 * kv_width)),
            float(moe_layers),
            3 * d * expert_ffn,
            float(dense_layers * 3 * d * dense_ffn),
            model.effective_weight_bytes,
        )
        self._weights_us: dict[int, float] = {}
        self._dense_weights_us = 0.0 if model.experts > 1 else self._weights(1)
        self._batches: dict[int, tuple[float, float, tuple[float, ...]]] = {}
        self._vectors: dict[int, tuple[Constant, Constant, tuple[Constant, ...]]] = {}
        self._vector = tuple(
            np.array(value)
            for value in (
                self._attention,
                self._peak,
                self._kv,
                self._bandwidth,
                self._b2,
                self._b10,
            )
        )

    @classmethod
    def default_coefficients(
        cls, query: CoefficientQuery
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The global set of the user's defaults file, else the packaged one."""
        return global_coefficients(query)

    # -------------------------------------------------------------------------------- step time

    def step_time(self, shape: BatchShape) -> int:
        """Duration in us; 1 for an empty batch."""
        prefills, decodes, context_sum = shape
        decode = 0.0
        if decodes:
            # as in _decode_parts, whose call would take a fifth of a step's time
            projection, ffn, terms = self._batches.get(decodes) or self._batch_of(decodes)
            compute = (projection + self._attention * context_sum + ffn) / self._peak
            traffic = self._kv * (context_sum + decodes) / self._bandwidth
            if self._decode_split:
                decode = self._b2 * compute + self._b10 * traffic
            else:
                decode = self._b2 * max(compute, traffic)
        if not prefills:
            if decodes == 0:
                return 1
            value = decode
            for term in terms:
                value += term
        else:
            value, tokens = self._prefill_us(prefills)
            if decodes:
                value += decode
                tokens += decodes
            # as in _fixed_terms, whose zeros add nothing here
            value += self._dense_weights_us or self._weights(tokens)
            if self._exchange_share:
                value += self._communication(tokens)
            value += self._per_layer
            value += self._b6 * (decodes + len(prefills))
            value += self._per_step
            value += self._per_moe_layer
        if not value < _TWO_63:  # or not a number, as in truncate_us
            return MAX_INT64
        return int(value) or 1

    def decode_times(self, decodes: int, context_sum: int, steps: int) -> npt.NDArray[np.int64]:
        """As :meth:`step_time` for each of ``steps`` consecutive decode steps."""
        if steps <= 2 or decodes <= 0:
            return super().decode_times(decodes, context_sum, steps)
        projection, ffn, tail = self._vectors.get(decodes) or self._vectors_of(decodes)
        attention, peak, kv, bandwidth, b2, b10 = self._vector
        end = context_sum + decodes * steps

        compute: npt.NDArray[np.float64] | None = None
        traffic: npt.NDArray[np.float64] | None = None
        if self._decode_split:
            use_compute, use_traffic = self._b2 > 0, True
        else:
            # Both grow with the context, so their end points tell whether one always wins.
            low_compute, low_traffic = self._decode_parts(decodes, context_sum)
            high_compute, high_traffic = self._decode_parts(decodes, end - decodes)
            use_compute, use_traffic = high_compute > low_traffic, high_traffic > low_compute
        if use_compute or not use_traffic:
            compute = np.arange(context_sum, end, decodes, dtype=np.float64)
            np.multiply(compute, attention, compute)
            np.add(compute, projection, compute)
            np.add(compute, ffn, compute)
            np.divide(compute, peak, compute)
        if use_traffic:
            # Each decode reads its context and writes one token more.
            traffic = np.arange(context_sum + decodes, end + decodes, decodes, dtype=np.float64)
            np.multiply(traffic, kv, traffic)
            np.divide(traffic, bandwidth, traffic)
        times = self._combine(compute, traffic, b2, b10)
        for term in tail:
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

    def _prefill_us(self, prefills: tuple[PrefillChunk, ...]) -> tuple[float, int]:
        """Weighted us of the prefill chunks' own terms, and how many tokens they have."""
        tokens = attended = 0
        for _, new_tokens, prompt_len in prefills:
            tokens += new_tokens
            # Against the whole prompt, not the progress, so chunking costs (reference quirk 03-2).
            attended += new_tokens * (2 * prompt_len + new_tokens)
        compute = self._projection * tokens / self._tp + self._half_attention * attended
        compute = (compute + self._ffn(tokens)) / self._peak
        writes = self._kv * tokens / self._bandwidth
        if self._prefill_split:
            return self._b1 * compute + self._b9 * writes, tokens
        return self._b1 * max(compute, writes), tokens

    def _decode_parts(self, decodes: int, context_sum: int) -> tuple[float, float]:
        """Unweighted us of arithmetic and of KV traffic of the decodes."""
        projection, ffn, _ = self._batches.get(decodes) or self._batch_of(decodes)
        compute = (projection + self._attention * context_sum + ffn) / self._peak
        return compute, self._kv * (context_sum + decodes) / self._bandwidth

    def _ffn(self, tokens: int) -> float:
        """Feed-forward FLOP of one GPU."""
        return self._moe_ffn * tokens / self._tp + self._dense_ffn * tokens / self._tp

    def _communication(self, tokens: int) -> float:
        """Weighted us of the exchanges between the GPUs of one instance; 0 on a single GPU."""
        return self._b4 * (self._exchange * tokens * self._exchange_share / self._bandwidth)

    def _weights(self, tokens: int) -> float:
        """Weighted us to read the weights that ``tokens`` tokens use."""
        experts = 1
        if self._experts > 1:
            experts = min(self._experts, max(self._active, tokens * self._active))
        known = self._weights_us.get(experts)
        if known is not None:
            return known
        attention, moe_layers, expert, dense, width = self._weight_parts
        total = attention * width / self._tp + (
            moe_layers * experts * expert * width / self._tp + dense * width / self._tp
        )
        value = self._b3 * (total / self._bandwidth)
        self._weights_us[experts] = value
        return value

    def _fixed_terms(self, tokens: int, requests: int) -> tuple[float, ...]:
        """The terms that do not depend on contexts, in order of addition; those of 0 left out."""
        terms = (
            self._weights(tokens),
            self._communication(tokens),
            self._per_layer,
            self._b6 * requests,
            self._per_step,
            self._per_moe_layer,
        )
        return tuple(term for term in terms if term != 0)

    def _batch_of(self, decodes: int) -> tuple[float, float, tuple[float, ...]]:
        """What is constant over all steps of ``decodes`` decodes: FLOP of the projections and of
        the feed-forward part, and further terms in us."""
        projection, ffn = self._projection * decodes / self._tp, self._ffn(decodes)
        found = projection, ffn, self._fixed_terms(decodes, decodes)
        self._batches[decodes] = found
        return found

    def _vectors_of(self, decodes: int) -> tuple[Constant, Constant, tuple[Constant, ...]]:
        """The same as 0-d arrays, which numpy combines fastest."""
        projection, ffn, terms = self._batches.get(decodes) or self._batch_of(decodes)
        found = np.array(projection), np.array(ffn), tuple(np.array(term) for term in terms)
        self._vectors[decodes] = found
        return found

    def _combine(
        self,
        compute: npt.NDArray[np.float64] | None,
        traffic: npt.NDArray[np.float64] | None,
        b2: Constant,
        b10: Constant,
    ) -> npt.NDArray[np.float64]:
        """Weighted decode terms, in place. An absent one is known not to matter."""
        if compute is None:
            assert traffic is not None
            weight = b10 if self._decode_split else b2
            return np.multiply(traffic, weight, traffic)
        if traffic is None:
            return np.multiply(compute, b2, compute)
        if self._decode_split:
            np.multiply(compute, b2, compute)
            np.multiply(traffic, b10, traffic)
            return np.add(compute, traffic, compute)
        np.maximum(compute, traffic, out=compute)
        return np.multiply(compute, b2, compute)


def _problems(model: ModelDescription, gpu: HardwareDescription, tp: int) -> list[str]:
    """Everything that keeps the formulas from meaning something."""
    found = [
        f"{name} is {value}, must be above 0"
        for name, value in (
            ("layers", model.layers),
            ("attention heads", model.heads),
            ("hidden size", model.hidden),
            ("feed-forward size", model.ffn),
        )
        if value <= 0
    ]
    if model.heads % tp:
        found.append(f"{model.heads} attention heads are not divisible by --tp {tp}")
    kv_heads = model.kv_heads or model.heads
    if kv_heads % tp:
        found.append(f"{kv_heads} KV heads are not divisible by --tp {tp}")
    found += [
        f"{name} is {value}, must be finite and above 0"
        for name, value in (("TFlopsPeak", gpu.fp16_tflops), ("BwPeakTBs", gpu.hbm_tb_s))
        if not (math.isfinite(value) and value > 0)
    ]
    if model.experts > 1 and model.experts_per_token <= 0:
        found.append(f"experts per token is {model.experts_per_token}, must be above 0")
    return found
