"""Whether the values of a workload specification make sense.

The first problem found is a BlisError that names the place (``clients[2].arrival.cv``) and what is
allowed there. The order of the checks is part of the contract, so that the same mistake is reported
as by the reference. Not checked: parameters that a sampler finds missing when it is made, anything
in ``network`` and ``multimodal``, and sums of fractions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import attrs

from blis_core.errors import BlisError
from blis_core.plugins import get_registry
from blis_core.records import Record
from blis_core.workload.numeric import trunc_int64
from blis_core.workload.spec import Arrival, Client, Cohort, Distribution, Reasoning, WorkloadSpec

CATEGORIES = ("", "language", "multimodal", "reasoning")
SLO_CLASSES = ("", "critical", "standard", "sheddable", "batch", "background")
MAX_POPULATION = 100_000
WEIBULL_CV = (0.01, 10.4)
"""Range in which a Weibull shape can be found for a coefficient of variation."""

NOT_FOR_TOKENS = frozenset({"lognormal"})
"""Length distributions that serve other purposes than prompts and outputs (quirk 04-14)."""


@attrs.frozen(eq=False, repr=False)
class _Names(Record):
    """Samplers that are there to be chosen from, plugins' included."""

    processes: Collection[str]
    lengths: Collection[str]


def check_sources(spec: WorkloadSpec) -> None:
    """BlisError if more than one of clients, ServeGen data and inference-perf is given.

    To be called before the latter two are turned into clients. Cohorts go with any of them.
    """
    given = [name for name in ("clients", "servegen_data", "inference_perf") if getattr(spec, name)]
    if len(given) > 1:
        raise BlisError(
            f"{' and '.join(given)} exclude one another; "
            "give one of clients, servegen_data, inference_perf"
        )


def validate(spec: WorkloadSpec) -> None:
    """Raise BlisError for the first value that is not allowed.

    ``spec`` is in version 2, its ServeGen or inference-perf section has become clients, its cohorts
    are not expanded yet.
    """
    registry = get_registry()
    names = _Names(
        processes=registry.names("arrival-sampler"),
        lengths=[n for n in registry.names("length-sampler") if n not in NOT_FOR_TOKENS],
    )
    _choice("category", spec.category, CATEGORIES)
    if spec.cohorts or any(client.concurrency == 0 for client in spec.clients):
        _positive("aggregate_rate", spec.aggregate_rate)
    if not (spec.clients or spec.cohorts or spec.servegen_data):
        raise BlisError(
            "nothing makes requests: give clients, cohorts, servegen_data or inference_perf"
        )
    for index, client in enumerate(spec.clients):
        try:
            _check_client(client, names)
        except BlisError as problem:
            raise BlisError(f"clients[{index}].{problem}") from None
    _check_closed_loops(spec)
    for index, cohort in enumerate(spec.cohorts):
        try:
            _check_cohort(cohort, names)
        except BlisError as problem:
            raise BlisError(f"cohorts[{index}].{problem}") from None


def _check_client(client: Client, names: _Names) -> None:
    _choice("slo_class", client.slo_class, SLO_CLASSES)
    _at_least("concurrency", client.concurrency, 0)
    _at_least("think_time_us", client.think_time_us, 0)
    if client.concurrency > 0:
        if client.rate_fraction > 0:
            raise BlisError(
                "rate_fraction cannot go with concurrency, which leaves the rate to the answers"
            )
    else:
        _positive("rate_fraction", client.rate_fraction)
        if client.factory is None:
            _check_process(client.arrival, names)
        _check_cv(client.arrival)
    _at_least("prefix_length", client.prefix_length, 0)
    _check_lengths("input_distribution", client.input_distribution, names)
    _check_lengths("output_distribution", client.output_distribution, names)
    _check_timeout(client.timeout)
    _check_rounds(client.reasoning)
    if client.lifecycle is not None and not client.lifecycle.windows:
        raise BlisError(
            "lifecycle.windows must list at least one window; without lifecycle, always active"
        )
    for index, window in enumerate(client.windows):
        at = f"lifecycle.windows[{index}]"
        _at_least(f"{at}.start_us", window.start_us, 0)
        if window.end_us <= window.start_us:
            raise BlisError(
                f"{at}.end_us must be greater than start_us ({window.start_us}), "
                f"not {window.end_us}"
            )


def _check_closed_loops(spec: WorkloadSpec) -> None:
    """Concurrency users and multi-turn sessions do not mix, not even in different clients."""
    users = next((i for i, client in enumerate(spec.clients) if client.concurrency > 0), None)
    if users is None:
        return
    groups: tuple[tuple[str, Sequence[Client | Cohort]], ...] = (
        ("clients", spec.clients),
        ("cohorts", spec.cohorts),
    )
    for kind, members in groups:
        for index, member in enumerate(members):
            if member.multi_turn is not None:
                raise BlisError(
                    f"{kind}[{index}].reasoning.multi_turn cannot go with "
                    f"clients[{users}].concurrency in one specification"
                )


def _check_cohort(cohort: Cohort, names: _Names) -> None:
    if not 0 < cohort.population <= MAX_POPULATION:
        raise BlisError(f"population must be in [1, {MAX_POPULATION}], not {cohort.population}")
    _positive("rate_fraction", cohort.rate_fraction)
    _choice("slo_class", cohort.slo_class, SLO_CLASSES)
    _check_process(cohort.arrival, names)
    _check_cv(cohort.arrival)
    _check_lengths("input_distribution", cohort.input_distribution, names)
    _check_lengths("output_distribution", cohort.output_distribution, names)
    if cohort.diurnal is not None:
        ratio, peak = cohort.diurnal.peak_to_trough_ratio, cohort.diurnal.peak_hour
        if not 1 <= ratio < math.inf:
            raise BlisError(
                f"diurnal.peak_to_trough_ratio must be a finite number of at least 1, not {ratio}"
            )
        if not 0 <= peak <= 23:
            raise BlisError(f"diurnal.peak_hour must be in [0, 23], not {peak}")
    if cohort.spike is not None:
        _at_least("spike.start_time_us", cohort.spike.start_time_us, 0)
        _at_least("spike.duration_us", cohort.spike.duration_us, 1)
    if cohort.drain is not None:
        _at_least("drain.start_time_us", cohort.drain.start_time_us, 0)
        _at_least("drain.ramp_duration_us", cohort.drain.ramp_duration_us, 1)
    _at_least("prefix_length", cohort.prefix_length, 0)
    _check_timeout(cohort.timeout)
    _check_rounds(cohort.reasoning)


# -------------------------------------------------------------------------------- shared checks


def _check_process(arrival: Arrival, names: _Names) -> None:
    _choice("arrival.process", arrival.process, names.processes)
    low, high = WEIBULL_CV
    if arrival.process == "weibull" and arrival.cv is not None and not low <= arrival.cv <= high:
        raise BlisError(f"arrival.cv of weibull must be in [{low}, {high}], not {arrival.cv}")


def _check_cv(arrival: Arrival) -> None:
    if arrival.cv is not None:
        _positive("arrival.cv", arrival.cv)


def _check_lengths(at: str, distribution: Distribution, names: _Names) -> None:
    if distribution.type in NOT_FOR_TOKENS:
        raise BlisError(
            f"{at}.type: {distribution.type!r} is not for prompts and outputs "
            f"(choose from {', '.join(names.lengths)})"
        )
    _choice(f"{at}.type", distribution.type, names.lengths)
    params = distribution.params
    for name, value in params.items():
        if not math.isfinite(value):
            raise BlisError(f"{at}.params.{name} must be a finite number, not {value}")
    if distribution.type == "gaussian" and "min" in params and "max" in params:
        # Equal bounds are the length itself, and none can be negative (the reference crashes).
        low, high = trunc_int64(params["min"]), trunc_int64(params["max"])
        if low == high < 0:
            raise BlisError(f"{at}.params: equal min and max must be at least 0, not {low}")


def _check_timeout(timeout: int | None) -> None:
    if timeout is not None:
        _at_least("timeout", timeout, 0)


def _check_rounds(reasoning: Reasoning | None) -> None:
    if reasoning is not None and reasoning.multi_turn is not None:
        _at_least("reasoning.multi_turn.max_rounds", reasoning.multi_turn.max_rounds, 1)


def _choice(at: str, name: str, allowed: Collection[str]) -> None:
    if name in allowed:
        return
    choices = f"(choose from {', '.join(filter(None, allowed))})"
    if not name:
        raise BlisError(f"{at} is missing {choices}")
    from difflib import get_close_matches  # errors only

    close = get_close_matches(name.lower(), allowed, 1)
    hint = f", did you mean {close[0]!r}?" if close else ""
    raise BlisError(f"{at}: unknown {name!r}{hint} {choices}")


def _at_least(at: str, value: int, bound: int) -> None:
    if value < bound:
        raise BlisError(f"{at} must be at least {bound}, not {value}")


def _positive(at: str, value: float) -> None:
    if value == 0:
        raise BlisError(f"{at} is missing, or 0; it must be a finite number greater than 0")
    if not 0 < value < math.inf:
        raise BlisError(f"{at} must be a finite number greater than 0, not {value}")
