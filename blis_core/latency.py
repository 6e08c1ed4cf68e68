"""What every latency model needs: checks of coefficients, and rounding to whole microseconds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from blis_core.contracts import MAX_INT64, LatencySetup
from blis_core.errors import BlisError

if TYPE_CHECKING:
    from blis_core.contracts import FloatArray, IntArray

TWO_63 = 2.0**63
"""First float beyond the range of a time."""


def check_alpha(setup: LatencySetup) -> None:
    """Refuse fewer than three alpha coefficients, and any that is negative or not finite."""
    _check_count("alpha", setup.backend, setup.alpha, 3)
    _check_values("alpha", setup.backend, setup.alpha)


def check_beta(setup: LatencySetup, minimum: int, *, values: bool = True) -> None:
    """Refuse fewer than ``minimum`` beta coefficients, and any that is negative or not finite.

    Surplus ones are checked too. ``values=False`` checks the count only, for a backend that looks
    at other figures before it looks at the values.
    """
    _check_count("beta", setup.backend, setup.beta, minimum)
    if values:
        _check_values("beta", setup.backend, setup.beta)


def truncate_us(value: float) -> int:
    """``value`` microseconds without its fraction; NaN and values beyond int64 become MAX_INT64.

    There is no lower clamp: valid coefficients yield nothing negative.
    """
    return int(value) if value < TWO_63 else MAX_INT64


def truncate_us_array(values: FloatArray) -> IntArray:
    """:func:`truncate_us` of each element, as int64."""
    import numpy as np

    fits = values < TWO_63
    if fits.all():
        return values.astype(np.int64)
    return np.where(fits, np.where(fits, values, 0.0).astype(np.int64), MAX_INT64)


def _check_count(kind: str, backend: str, values: tuple[float, ...], minimum: int) -> None:
    if len(values) < minimum:
        raise BlisError(
            f"latency model {backend!r} needs at least {minimum} {kind} coefficients, got "
            f"{len(values)}; mend --{kind}-coeffs or the defaults file"
        )


def _check_values(kind: str, backend: str, values: tuple[float, ...]) -> None:
    for position, value in enumerate(values, start=1):
        if not (math.isfinite(value) and value >= 0):
            raise BlisError(
                f"latency model {backend!r}: {kind} coefficient {position} is {value!r}; "
                "it must be a finite number of at least 0"
            )
