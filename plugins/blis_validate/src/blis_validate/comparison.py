"""Errors of predictions, record by record and in groups."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from blis_validate.dataset import Measured, Record
from blis_validate.figures import measured_figures
from blis_validate.runner import Outcome
from blis_validate.seeds import median_outcome

OWN: Final = "simulated"
"""Name of our own prediction among those of others. With several seeds it is their median."""


@attrs.frozen(kw_only=True)
class Comparison:
    """One record, what it measured, and what was predicted."""

    record: Record
    outcome: Outcome
    """With several seeds: the median of them."""
    by_seed: Sequence[Outcome]
    interval: dict[str, tuple[float, float]] = attrs.field(factory=dict)
    """Lowest and highest error in per cent by metric, with shorter and with longer steps too; empty
    if nobody asked."""
    measured: dict[str, float]
    """By metric."""
    errors: dict[str, dict[str, float]]
    """Error in per cent by predictor and metric: (predicted - measured) / measured."""

    @property
    def comparable(self) -> bool:
        """Whether its errors count: it was simulated, and nobody was overloaded."""
        figures = self.outcome.figures
        return figures is not None and not figures.overloaded and not self.record.overload

    def spread(self, metric: str) -> tuple[float, float] | None:
        """Lowest and highest error of the seeds in per cent; None with one seed, or if unknown."""
        every = (self.errors.get(seed_name(outcome.seed), {}) for outcome in self.by_seed)
        errors = [of_seed[metric] for of_seed in every if metric in of_seed]
        return (min(errors), max(errors)) if errors else None

    @property
    def load(self) -> str:
        """The traffic in a few words."""
        load = self.record.workload
        rates = "/".join(f"{stage.rate_rps:g}" for stage in load.stages)
        return f"{load.profile} {rates}/s" if rates else load.generator

    @property
    def kv_error(self) -> float | None:
        """Error of the estimated number of KV blocks in per cent, where one is published."""
        record, estimate = self.record, self.outcome.kv_blocks
        published = record.total_kv_blocks_source in ("published", "")
        known = record.total_kv_blocks and record.gpu_memory_utilization
        if not (estimate and published and known):
            return None
        return percent(estimate, record.dp * record.total_kv_blocks)


@attrs.frozen(kw_only=True)
class Summary:
    """Absolute errors of one metric over several records, in per cent."""

    count: int
    mean: float
    median: float
    worst: float
    worst_id: str


def percent(predicted: float, measured: float) -> float:
    """The error of a prediction in per cent."""
    return 100.0 * (predicted - measured) / measured


def seed_name(seed: int) -> str:
    """Name of the prediction with one of several seeds."""
    return f"{OWN}, seed {seed}"


def compare(
    records: Sequence[Record],
    outcomes: Iterable[Sequence[Outcome]],
    stretched: Sequence[Sequence[Sequence[Outcome]]] = (),
) -> list[Comparison]:
    """Our predictions and those in the data set against what was measured.

    ``outcomes``: those of each record, one for each seed. ``stretched``: the same with shorter,
    and with longer steps.
    """
    return [
        Comparison(
            record=record,
            outcome=median_outcome(by_seed),
            by_seed=by_seed,
            interval=_interval(record, [by_seed, *others]) if others else {},
            measured=_known(record, record.measured),
            errors=_errors(record, by_seed),
        )
        for record, by_seed, *others in zip(records, outcomes, *stretched, strict=True)
    ]


def _interval(
    record: Record, predictions: Sequence[Sequence[Outcome]]
) -> dict[str, tuple[float, float]]:
    """Lowest and highest error by metric."""
    every = [median_outcome(by_seed).figures for by_seed in predictions]
    interval = {}
    for metric, value in _known(record, record.measured).items():
        errors = [
            percent(figures.values[metric], value)
            for figures in every
            if figures is not None and metric in figures.values
        ]
        if len(errors) == len(every):
            interval[metric] = min(errors), max(errors)
    return interval


def _errors(record: Record, by_seed: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    measured = _known(record, record.measured)
    own = {OWN: median_outcome(by_seed)}
    if len(by_seed) > 1:
        own |= {seed_name(outcome.seed): outcome for outcome in by_seed}
    predictions = {
        name: outcome.figures.values for name, outcome in own.items() if outcome.figures is not None
    }
    predictions |= {
        name: _known(record, figures) for name, figures in record.reference_predictions.items()
    }
    errors = {
        name: {
            metric: percent(values[metric], value)
            for metric, value in measured.items()
            if metric in values
        }
        for name, values in predictions.items()
    }
    for name, outcome in own.items():
        if outcome.requests is not None:
            errors[name]["request_e2e"] = outcome.requests.e2e_mean
    return errors


def _known(record: Record, figures: Measured) -> dict[str, float]:
    return measured_figures(figures, burst=not record.workload.stages)


def predictors(comparisons: Sequence[Comparison]) -> list[str]:
    """Names of all who predicted, ourselves first."""
    return list(dict.fromkeys(name for c in comparisons for name in (OWN, *c.errors)))


def summarise(
    comparisons: Iterable[Comparison], metric: str, predictor: str = OWN
) -> Summary | None:
    """The errors of one predictor in one metric; None if no record can be compared."""
    errors = [
        (abs(c.errors[predictor][metric]), c.record.id)
        for c in comparisons
        if c.comparable and metric in c.errors.get(predictor, {})
    ]
    if not errors:
        return None
    worst, worst_id = max(errors)
    values = [error for error, _ in errors]
    return Summary(
        count=len(values),
        mean=statistics.fmean(values),
        median=statistics.median(values),
        worst=worst,
        worst_id=worst_id,
    )


GROUPINGS: Final[Mapping[str, Callable[[Comparison], str]]] = {
    "set": lambda c: c.record.set or "all",
    "model": lambda c: c.record.model,
    "GPU": lambda c: f"{c.record.tp} x {c.record.hardware}",
    "load": lambda c: c.load,
}
"""Ways to divide records into groups."""


def groups(
    comparisons: Sequence[Comparison], grouping: str
) -> Iterator[tuple[str, list[Comparison]]]:
    """The groups of one way to divide, by name."""
    key = GROUPINGS[grouping]
    for name in sorted({key(c) for c in comparisons}):
        yield name, [c for c in comparisons if key(c) == name]
