"""Options of a stage: what the policy file may give it."""

from __future__ import annotations

from blis_core.contracts_autoscaling import ScalingSetup
from blis_core.errors import BlisError


def no_options(setup: ScalingSetup, name: str) -> None:
    """BlisError if a stage that has no options is given any."""
    if setup.options:
        given = ", ".join(sorted(setup.options))
        raise BlisError(f"{name} has no options, but got {given}: remove them")
