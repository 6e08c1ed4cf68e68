"""One prediction from several simulations that differ in the seed of the arrivals.

A measured run is one draw of random arrivals, and so is a simulated one. Where a batch or a KV
cache is nearly full, most draws are alike, and a few see a queue that multiplies the percentiles.
The prediction for a single run is therefore the median of the draws, figure by figure.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from blis_validate.figures import Figures

if TYPE_CHECKING:
    from blis_validate.runner import Outcome


def median_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The median of simulations of one record; the first reason if one was not simulated.

    Overloaded is what most of them are; ties count as overloaded. Errors of single requests are
    those of the first: where requests are listed, no seed matters.
    """
    first = outcomes[0]
    failed = next((o for o in outcomes if o.figures is None), None)
    if failed is not None or len(outcomes) == 1:
        return failed or first
    return attrs.evolve(
        first,
        figures=_median_figures([o.figures for o in outcomes if o.figures is not None]),
        stages=tuple(
            _median_figures(parts) for parts in zip(*(o.stages for o in outcomes), strict=True)
        ),
        warnings=tuple(dict.fromkeys(text for o in outcomes for text in o.warnings)),
        prompt_tokens=statistics.fmean(o.prompt_tokens for o in outcomes),
        output_tokens=statistics.fmean(o.output_tokens for o in outcomes),
        peak_kv_use=max(o.peak_kv_use for o in outcomes),
    )


def _median_figures(parts: Sequence[Figures]) -> Figures:
    """Medians by metric, over the simulations that have it."""
    metrics = dict.fromkeys(metric for part in parts for metric in part.values)
    return Figures(
        values={
            metric: statistics.median(p.values[metric] for p in parts if metric in p.values)
            for metric in metrics
        },
        completed=round(statistics.median(part.completed for part in parts)),
        failed=round(statistics.median(part.failed for part in parts)),
        overloaded=2 * sum(part.overloaded for part in parts) >= len(parts),
    )
