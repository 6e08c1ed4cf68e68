"""From the words of a specification to samplers, plugins' included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blis_core.contracts import ArrivalSampler, ArrivalSetup, LengthSampler, LengthSetup
from blis_core.errors import BlisError
from blis_core.plugins import get_registry
from blis_core.workload.lengths import LognormalLengths

if TYPE_CHECKING:
    from blis_core.workload.spec import Arrival, Distribution


def arrival_sampler(arrival: Arrival, rate_per_us: float, owner: str) -> ArrivalSampler:
    """Sampler of the gaps of a client; BlisError, naming ``owner``, if it cannot be made."""
    setup = ArrivalSetup(rate_per_us=rate_per_us, cv=arrival.cv)
    try:
        made: ArrivalSampler = get_registry().create("arrival-sampler", arrival.process, setup)
    except BlisError as error:
        raise BlisError(f"{owner}, arrival: {error}") from error
    return made


def length_sampler(distribution: Distribution, owner: str) -> LengthSampler:
    """Sampler of lengths; BlisError, naming ``owner``, for a missing parameter and the like."""
    setup = LengthSetup(params=distribution.params)
    try:
        if distribution.type == "lognormal":
            # For sizes, counts and shares only; validation refuses it for prompts and outputs.
            return LognormalLengths(setup)
        made: LengthSampler = get_registry().create("length-sampler", distribution.type, setup)
    except BlisError as error:
        raise BlisError(f"{owner}: {error}") from error
    return made
