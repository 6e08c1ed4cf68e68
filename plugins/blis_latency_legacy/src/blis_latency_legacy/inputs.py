"""What the three models share: reading coefficients and checking model figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from blis_core.api import BlisError, CoefficientQuery, LatencySetup, ModelDescription

Coefficients = tuple[tuple[float, ...], tuple[float, ...]]
"""(alpha, beta)."""


def read_coefficients(section: dict[str, Any]) -> Coefficients:
    """(alpha, beta) of a coefficient section or row of a defaults file; missing lists are empty."""
    alpha = tuple(float(value) for value in section.get("alpha_coeffs") or ())
    beta = tuple(float(value) for value in section.get("beta_coeffs") or ())
    return alpha, beta


def global_coefficients(
    query: CoefficientQuery, section: str, minimum: int, packaged: Coefficients
) -> Coefficients:
    """The packaged set, or that of a user's defaults file, which replaces it.

    BlisError if such a file lacks ``section``, or has there fewer than ``minimum`` betas or only
    betas of zero.
    """
    if not query.sections:
        return packaged
    alpha, beta = read_coefficients(query.sections.get(section) or {})
    if len(beta) < minimum or not any(beta):
        raise BlisError(
            f"the defaults file has no usable section {section!r} ({minimum} or more beta_coeffs, "
            "not all 0); add it, or give --alpha-coeffs and --beta-coeffs"
        )
    return alpha, beta


def model_of(setup: LatencySetup, sizes: tuple[str, ...]) -> ModelDescription:
    """The model description; BlisError without one, or unless TP and all ``sizes`` are positive."""
    if setup.tp <= 0:
        raise BlisError(f"latency model {setup.backend!r}: --tp is {setup.tp}; it must be above 0")
    model = setup.model
    if model is None:
        raise BlisError(
            f"latency model {setup.backend!r} needs a model config; give --model-config-folder, or "
            "choose a model that is in the catalogue"
        )
    problems = [f"{name} is {getattr(model, name)}" for name in sizes if getattr(model, name) <= 0]
    if problems:
        raise BlisError(
            f"latency model {setup.backend!r} cannot work with this model's config.json: "
            f"{'; '.join(problems)}; must be above 0"
        )
    return model


def constant_times(time_us: int, steps: int) -> npt.NDArray[np.int64]:
    """``steps`` equal durations."""
    times = np.empty(steps, dtype=np.int64)
    times.fill(time_us)
    return times
