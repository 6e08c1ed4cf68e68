"""Blackbox: a step is linear in its prefill tokens and its decode tokens."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, ClassVar

from blis_core.api import (
    BatchShape,
    BlisError,
    CoefficientQuery,
    LatencyModel,
    LatencySetup,
    check_alpha,
    check_beta,
    truncate_us,
)
from blis_latency_legacy.inputs import Coefficients, constant_times, read_coefficients

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Blackbox(LatencyModel):
    """``beta 1 + beta 2 * prefill tokens + beta 3 * decode tokens``, in us.

    ``alpha``: us of queueing, us of queueing per prompt token, us per output token. The
    coefficients hold for one model, GPU, TP and serving version; nothing else is looked at.
    """

    analytical: ClassVar[bool] = False

    def __init__(self, setup: LatencySetup) -> None:
        check_alpha(setup)
        check_beta(setup, 3)
        if not (any(setup.alpha) or any(setup.beta)):
            raise BlisError(
                "latency model 'blackbox': all coefficients are 0; mend --alpha-coeffs and "
                "--beta-coeffs"
            )
        self._alpha = setup.alpha
        self._base, self._prefill, self._decode = setup.beta[:3]

    @classmethod
    def default_coefficients(cls, query: CoefficientQuery) -> Coefficients:
        """The first row for exactly this model, GPU, TP and serving version.

        Rows come from ``models`` of the user's defaults file, else from the packaged table.
        BlisError if no row matches, or if it holds nothing but zeros.
        """
        found = _user_row(query) if query.sections else _packaged_row(query)
        if found is None or not (any(found[0]) or any(found[1])):
            raise BlisError(
                f"latency model 'blackbox' has no coefficients for model {query.model!r}, GPU "
                f"{query.gpu!r}, TP {query.tp}, version {query.version!r}; give --alpha-coeffs and "
                "--beta-coeffs, or use --latency-model trained-physics"
            )
        return found

    def step_time(self, shape: BatchShape) -> int:
        """Duration in us; an empty batch costs the base."""
        prefills, decodes, _ = shape
        tokens = 0
        for _, new_tokens, _ in prefills:
            tokens += new_tokens
        value = self._base + self._prefill * tokens + self._decode * decodes
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


def _user_row(query: CoefficientQuery) -> Coefficients | None:
    wanted = (query.model, query.gpu, query.tp, query.version)
    for row in query.sections.get("models") or ():
        key = tuple(row.get(k) for k in ("id", "GPU", "tensor_parallelism", "vllm_version"))
        if key == wanted:
            return read_coefficients(row)
    return None


def _packaged_row(query: CoefficientQuery) -> Coefficients | None:
    table = _packaged_table()
    prefix = table["version_prefix"]
    for model, gpu, tp, version, alpha, beta in table["rows"]:
        if (model, gpu, tp, prefix + version) == (query.model, query.gpu, query.tp, query.version):
            return tuple(alpha), tuple(beta)
    return None


def _packaged_table() -> dict[str, Any]:
    """The packaged data file. Read when asked for: given coefficients need no table."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = resources.files("blis_latency_legacy").joinpath("data/blackbox.yaml").read_bytes()
    table: dict[str, Any] = yaml.load(text, Loader=loader)
    return table
