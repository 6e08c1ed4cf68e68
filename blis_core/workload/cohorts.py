"""Expands cohorts into clients. Draws nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable

from blis_core.contracts import MAX_INT64
from blis_core.workload.numeric import trunc_int64
from blis_core.workload.spec import Client, Cohort, Diurnal, Drain, Lifecycle, Spike, Window

HOUR_US = 3_600_000_000
_SEGMENTS = 10
"""Of a drain."""


def expand_cohorts(cohorts: Iterable[Cohort]) -> tuple[Client, ...]:
    """The members of all cohorts, cohort by cohort."""
    return tuple(client for cohort in cohorts for client in expand_cohort(cohort))


def expand_cohort(cohort: Cohort) -> tuple[Client, ...]:
    """The ``population`` (>= 1) members of a valid cohort: each has an equal share of its rate.

    The patterns of activity decide when a member is active; they do not change its rate.
    """
    windows = cohort_windows(cohort)
    lifecycle = Lifecycle(windows=windows) if windows else None
    fraction = cohort.rate_fraction / cohort.population
    return tuple(
        Client(
            id=f"{cohort.id}-{member}",
            tenant_id=cohort.tenant_id,
            slo_class=cohort.slo_class,
            model=cohort.model,
            rate_fraction=fraction,
            arrival=cohort.arrival,
            input_distribution=cohort.input_distribution,
            output_distribution=cohort.output_distribution,
            prefix_group=cohort.prefix_group,
            prefix_length=cohort.prefix_length,
            streaming=cohort.streaming,
            network=cohort.network,
            lifecycle=lifecycle,
            multimodal=cohort.multimodal,
            reasoning=cohort.reasoning,
            timeout=cohort.timeout,
            closed_loop=cohort.closed_loop,
        )
        for member in range(cohort.population)
    )


def cohort_windows(cohort: Cohort) -> tuple[Window, ...]:
    """When members are active: diurnal windows, then the spike, then the drain; empty = always."""
    windows: list[Window] = []
    if cohort.diurnal is not None:
        windows += _diurnal(cohort.diurnal)
    if cohort.spike is not None:
        windows.append(_spike(cohort.spike))
    if cohort.drain is not None:
        windows += _drain(cohort.drain)
    return tuple(windows)


def _window(start: int, length: int) -> Window:
    return Window(start_us=start, end_us=min(start + length, MAX_INT64))


def _diurnal(pattern: Diurnal) -> list[Window]:
    """One window at the start of each of the first 24 hours, a cosine of the hour long."""
    trough = 1 / pattern.peak_to_trough_ratio
    windows = []
    for hour in range(24):
        # Evaluated in the reference's order, because the result is truncated.
        wave = (1 + math.cos(2 * math.pi * (hour - pattern.peak_hour) / 24)) / 2
        level = wave * (1 - trough) + trough
        length = min(HOUR_US, max(1, trunc_int64(HOUR_US * level)))
        windows.append(_window(hour * HOUR_US, length))
    return windows


def _spike(pattern: Spike) -> Window:
    return _window(pattern.start_time_us, pattern.duration_us)


def _drain(pattern: Drain) -> list[Window]:
    """All of the time before the drain, then segments whose active parts get shorter."""
    start = pattern.start_time_us
    windows = [_window(0, start)] if start > 0 else []
    length = max(1, pattern.ramp_duration_us // _SEGMENTS)
    for i in range(_SEGMENTS):
        active = max(1, trunc_int64(length * ((_SEGMENTS - i) / _SEGMENTS)))
        if start + i * length < MAX_INT64:
            windows.append(_window(start + i * length, active))
    return windows
