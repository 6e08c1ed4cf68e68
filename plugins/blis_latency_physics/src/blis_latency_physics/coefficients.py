"""The trained-physics coefficients: the packaged set, or a section of the user's defaults file."""

from __future__ import annotations

from typing import Final

from blis_core.api import BlisError, CoefficientQuery

SECTION: Final = "trained_physics_coefficients"
"""Key of the coefficients in a defaults file."""

ALPHA: Final = (15563.199579, 777.3455, 45.907545)
"""us: queueing, completion, output token. Trained by the BLIS authors across models and GPUs."""

BETA: Final = (
    0.152128,
    0.0,
    1.36252915,
    0.752037,
    32.09546717,
    4.41684444,
    126.024825,
    481.8613888,
    0.0,
    1.94710771,
)
"""See :class:`blis_latency_physics.trained_physics.TrainedPhysics` for what each one weighs."""

MINIMUM_BETAS: Final = 7


def global_coefficients(query: CoefficientQuery) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(alpha, beta) for every model, GPU and TP.

    A user's defaults file replaces the packaged set, so it must hold a usable one: BlisError if
    its section is missing, has fewer than 7 betas, or only betas of zero.
    """
    if not query.sections:
        return ALPHA, BETA
    section = query.sections.get(SECTION) or {}
    alpha = tuple(float(value) for value in section.get("alpha_coeffs") or ())
    beta = tuple(float(value) for value in section.get("beta_coeffs") or ())
    if len(beta) < MINIMUM_BETAS or not any(beta):
        raise BlisError(
            f"the defaults file has no usable section {SECTION!r} ({MINIMUM_BETAS} or more "
            "beta_coeffs, not all 0); add it, or give --alpha-coeffs and --beta-coeffs"
        )
    return alpha, beta
