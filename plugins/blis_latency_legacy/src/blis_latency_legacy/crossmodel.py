"""Crossmodel: a step is linear in its tokens and in the width of the KV cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blis_core.api import (
    BatchShape,
    CoefficientQuery,
    LatencyModel,
    LatencySetup,
    check_alpha,
    check_beta,
    truncate_us,
)
from blis_latency_legacy.inputs import (
    Coefficients,
    constant_times,
    global_coefficients,
    model_of,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

GLOBAL: Final[Coefficients] = (
    (13732.0, 0.0, 860.6),
    (116.11, 1226.868, 19.943, 9445.157),
)
"""Fitted by the BLIS authors across models, one set for all."""


class CrossModel(LatencyModel):
    """Base per layer, KV term per decode token, MoE term per token, TP synchronisation.

    With ``k = layers * KV heads * (hidden / heads) / TP * 1e-6``, a step takes, in us,
    ``beta 1 * layers + beta 2 * decodes * k + beta 3 * tokens (MoE only) + beta 4 (TP > 1 only)``.
    ``alpha``: us of queueing, us of queueing per prompt token, us per output token. A model with
    one expert counts as MoE (reference quirk 03-6), and prefill of a dense model costs the base.
    """

    def __init__(self, setup: LatencySetup) -> None:
        check_alpha(setup)
        model = model_of(setup, ("layers", "heads", "hidden"))
        check_beta(setup, 4)
        self._alpha = setup.alpha
        base, kv, moe, sync = setup.beta[:4]
        kv_heads = model.kv_heads or model.heads
        self._base = base * model.layers
        self._kv_weight = kv
        self._kv_width = (model.layers * kv_heads * (model.hidden / model.heads) / setup.tp) * 1e-6
        self._moe = moe if model.experts > 0 else 0.0
        self._sync = sync if setup.tp > 1 else 0.0

    @classmethod
    def default_coefficients(cls, query: CoefficientQuery) -> Coefficients:
        """The global set: ``crossmodel_defaults`` of the user's file, else the packaged one."""
        return global_coefficients(query, "crossmodel_defaults", 4, GLOBAL)

    def step_time(self, shape: BatchShape) -> int:
        """Duration in us; an empty batch costs base and synchronisation."""
        prefills, decodes, _ = shape
        tokens = decodes
        for _, new_tokens, _ in prefills:
            tokens += new_tokens
        value = self._base + self._kv_weight * decodes * self._kv_width
        value += self._moe * tokens
        value += self._sync
        return max(1, truncate_us(value))

    def decode_times(self, decodes: int, context_sum: int, steps: int) -> npt.NDArray[np.int64]:
        """The same duration ``steps`` times: contexts do not matter."""
        return constant_times(self.step_time(BatchShape((), decodes, context_sum)), steps)

    def queueing_time(self, prompt_len: int) -> int:
        """alpha 1 + alpha 2 per prompt token, in us."""
        return truncate_us(self._alpha[0] + self._alpha[1] * prompt_len)

    def output_token_time(self) -> int:
        """alpha 3, in us."""
        return truncate_us(self._alpha[2])
