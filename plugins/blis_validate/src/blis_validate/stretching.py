"""Intervals instead of points: the same run with shorter and with longer steps.

An error of the latency model is mostly one of its steps, and what that does to a latency depends on
the load: next to nothing to a TTFT that is a wait for the next step, more than proportionally where
longer steps mean that more requests run at once. Simulations with other steps know this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from blis_core.api import BlisError, SimulationConfig, StepInterval, resolve

if TYPE_CHECKING:
    from blis_validate.comparison import Comparison

OPTION: Final = "scale"
"""The option of a latency model that is a factor on its steps."""

_Config = TypeVar("_Config", bound=SimulationConfig)


def stretched(config: _Config, factor: float) -> _Config:
    """``config`` with steps that last ``factor`` times as long.

    BlisError if its latency model has no such factor.
    """
    if factor == 1:
        return config
    deployment = resolve(config)
    scale = getattr(deployment.setup.options, OPTION, None)
    if not isinstance(scale, float):
        raise BlisError(
            f"latency model {deployment.backend} has no option {OPTION}, and so no interval; use"
            " --latency-model kernels"
        )
    option = f"{OPTION}={scale * factor!r}"
    return attrs.evolve(config, latency_option=(*config.latency_option, option))


def factors(percent: float) -> tuple[float, float]:
    """Those of shorter and of longer steps."""
    return 1 - percent / 100, 1 + percent / 100


def coverage(comparisons: Sequence[Comparison], percent: float) -> StepInterval:
    """How often the measured figures lie between simulations with steps of ``percent``.

    Of those figures that every compared run has.
    """
    compared = [c for c in comparisons if c.comparable]
    inside: dict[str, list[bool]] = {}
    for c in compared:
        for metric, (low, high) in c.interval.items():
            inside.setdefault(metric, []).append(low <= 0 <= high)
    return StepInterval(
        step_percent=percent,
        runs=len(compared),
        covered_percent={
            metric: 100 * sum(found) / len(found)
            for metric, found in inside.items()
            if len(found) == len(compared)
        },
    )
