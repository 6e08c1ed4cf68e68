"""What ``blis validate`` prints: tables for people, JSON and CSV for machines."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import attrs

from blis_core.api import StepInterval
from blis_validate.comparison import (
    GROUPINGS,
    OWN,
    Comparison,
    Summary,
    groups,
    predictors,
    seed_name,
    summarise,
)
from blis_validate.figures import METRICS
from blis_validate.limits import RANKS
from blis_validate.runner import Outcome

SHOWN: Final = ("ttft_mean", "ttft_p90", "ttft_p99", "e2e_mean", "e2e_p99", "itl_mean")
"""Metrics of the tables."""


def as_json(
    comparisons: Sequence[Comparison],
    problems: Sequence[str],
    covered: StepInterval | None = None,
) -> str:
    """One document: records with figures and errors, summaries, limits that were exceeded."""
    document = {
        "records": [_record(c) for c in comparisons],
        "summary": {name: _summaries(comparisons, name) for name in predictors(comparisons)},
        "groups": {
            grouping: {
                name: _summaries(members, OWN) for name, members in groups(comparisons, grouping)
            }
            for grouping in GROUPINGS
        },
        "interval": attrs.asdict(covered) if covered is not None else None,
        "exceeded": list(problems),
    }
    return json.dumps(document, indent=2)


def _record(c: Comparison) -> dict[str, Any]:
    figures, outcome = c.outcome.figures, c.outcome
    return {
        "id": c.record.id,
        "set": c.record.set,
        "model": c.record.model,
        "hardware": c.record.hardware,
        "tp": c.record.tp,
        "load": c.load,
        "measured": c.measured,
        "simulated": figures.values if figures is not None else None,
        "completed": figures.completed if figures is not None else None,
        "failed": figures.failed if figures is not None else None,
        "stages": [attrs.asdict(stage) for stage in outcome.stages],
        "errors_percent": c.errors,
        "interval_percent": {metric: list(bounds) for metric, bounds in c.interval.items()},
        "overload_measured": c.record.overload,
        "overload_simulated": figures.overloaded if figures is not None else None,
        "compared": c.comparable,
        "kv_blocks_estimate": outcome.kv_blocks or None,
        "kv_blocks_error_percent": c.kv_error,
        "peak_kv_use": outcome.peak_kv_use,
        "requests": attrs.asdict(outcome.requests) if outcome.requests is not None else None,
        "seeds": [_seed(outcome) for outcome in c.by_seed],
        "not_simulated": outcome.reason or None,
        "warnings": list(outcome.warnings),
    }


def _summaries(members: Sequence[Comparison], predictor: str) -> dict[str, Any]:
    found = ((metric, summarise(members, metric, predictor)) for metric in METRICS)
    return {metric: attrs.asdict(summary) for metric, summary in found if summary is not None}


def _seed(outcome: Outcome) -> dict[str, Any]:
    figures = outcome.figures
    return {
        "seed": outcome.seed,
        "simulated": figures.values if figures is not None else None,
        "overloaded": figures.overloaded if figures is not None else None,
    }


def as_index(
    comparisons: Sequence[Comparison], latency_model: str, covered: StepInterval | None = None
) -> str:
    """Errors of our own simulations by record, rounded, without any measured figure."""
    records = [
        {
            "id": c.record.id,
            "set": c.record.set,
            "model": c.record.model,
            "hardware": c.record.hardware,
            "tp": c.record.tp,
            "dp": c.record.dp,
            "rates": [stage.rate_rps for stage in c.record.workload.stages],
            "prompt_tokens": round(c.outcome.prompt_tokens),
            "output_tokens": round(c.outcome.output_tokens),
            "compared": c.comparable,
            "errors_percent": {k: round(v, 1) for k, v in c.errors.get(OWN, {}).items()},
            "kv_blocks_error_percent": None if c.kv_error is None else round(c.kv_error, 2),
            **_index_requests(c.outcome),
            **_index_seeds(c),
        }
        for c in comparisons
        if c.outcome.figures is not None
    ]
    lines = ",\n".join(f"  {json.dumps(record)}" for record in records)
    head = f'"schema": "blis-validation/1", "latency_model": {json.dumps(latency_model)}'
    if covered is not None:
        shares = {metric: round(share, 1) for metric, share in covered.covered_percent.items()}
        interval = attrs.asdict(attrs.evolve(covered, covered_percent=shares))
        head += f',\n "interval": {json.dumps(interval)}'
    return f'{{\n {head},\n "records": [\n{lines}\n ]\n}}\n'


def _index_seeds(c: Comparison) -> dict[str, Any]:
    """Errors with single seeds, if there were several."""
    if len(c.by_seed) == 1:
        return {}
    every = {o.seed: c.errors.get(seed_name(o.seed), {}) for o in c.by_seed}
    errors = {
        str(seed): {metric: round(found[metric], 1) for metric in SHOWN if metric in found}
        for seed, found in every.items()
    }
    return {"errors_percent_by_seed": errors}


def _index_requests(outcome: Outcome) -> dict[str, float]:
    """Rank correlations, if single requests were compared."""
    single = outcome.requests
    ranks = {} if single is None else {name: getattr(single, name) for name in RANKS}
    return {name: round(rank, 4) for name, rank in ranks.items() if rank is not None}


CSV_COLUMNS: Final = (
    "id,set,model,hardware,tp,load,compared,predictor,metric,measured,predicted,error_percent"
).split(",")


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """One row for each record, predictor and metric.

    Errors and rank correlations of single requests have no measured value of their own.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for c in comparisons:
        record = c.record
        head = [record.id, record.set, record.model, record.hardware, record.tp, c.load]
        head.append(str(c.comparable).lower())
        for predictor, errors in c.errors.items():
            for metric, error in errors.items():
                measured = c.measured.get(metric)
                figures = ["", ""]
                if measured is not None:
                    figures = [f"{measured:g}", f"{measured * (1 + error / 100):g}"]
                writer.writerow([*head, predictor, metric, *figures, f"{error:.4f}"])
        if (single := c.outcome.requests) is not None:
            for metric in RANKS:
                rank = getattr(single, metric)
                if rank is not None:
                    writer.writerow([*head, OWN, metric, "", f"{rank:.6f}", ""])
    return text.getvalue()


def as_text(
    comparisons: Sequence[Comparison],
    problems: Sequence[str],
    covered: StepInterval | None = None,
) -> str:
    """Tables: errors by record, by group and by predictor; what was kept apart, and why."""
    compared = [c for c in comparisons if c.comparable]
    parts = []
    if compared:
        rows = [
            [c.record.id, *(_signed(c.errors[OWN].get(metric)) for metric in SHOWN)]
            for c in compared
        ]
        parts.append(_table("Error of each record in %", ["record", *SHOWN], rows))
        for grouping in GROUPINGS:
            rows = [
                [name, str(len(members)), *(_cell(summarise(members, m)) for m in SHOWN)]
                for name, members in groups(compared, grouping)
            ]
            title = f"By {grouping}: mean / median / worst absolute error in %"
            parts.append(_table(title, [grouping, "n", *SHOWN], rows))
        rows = [
            [name, *(_cell(summarise(compared, metric, name)) for metric in SHOWN)]
            for name in predictors(compared)
        ]
        title = "All records, beside published predictions: mean / median / worst in %"
        parts.append(_table(title, ["predictor", *SHOWN], rows))
    parts += [part for part in (_requests(compared), _seeds(comparisons)) if part]
    if covered is not None:
        parts.append(_interval(compared, covered))
    rates = [
        _rates(compared, "throughput", "Throughput under an offered rate"),
        _rates(compared, "capacity", "Throughput in a burst"),
    ]
    parts += [part for part in (*rates, _kv(comparisons)) if part]
    apart = [[c.record.id, _why_apart(c)] for c in comparisons if not c.comparable]
    if apart:
        parts.append(_table("Kept apart", ["record", "reason"], apart, words=True))
    notes = Counter(text for c in comparisons for text in c.outcome.warnings)
    if notes:
        rows = [[str(count), text] for text, count in notes.items()]
        parts.append(_table("Said by the latency model", ["records", "what"], rows, words=True))
    if problems:
        parts.append("Limits exceeded\n" + "\n".join(f"  {text}" for text in problems))
    return "\n\n".join(parts) + "\n"


def _rates(compared: Sequence[Comparison], metric: str, title: str) -> str:
    summary = summarise(compared, metric)
    if summary is None:
        return ""
    errors = f"{summary.mean:.2f} / {summary.median:.2f} / {summary.worst:.2f} %"
    return f"{title}, {summary.count} records: {errors}"


def _requests(compared: Sequence[Comparison]) -> str:
    """Errors of single requests, where they were measured."""
    rows = [
        [
            c.record.id,
            str(r.count),
            str(r.missing),
            *(f"{value:.2f}" for value in (r.e2e_mean, r.e2e_median, r.e2e_p95)),
            f"{r.ttft_mean_ms:.0f}",
            *("" if rank is None else f"{rank:.4f}" for rank in (r.rank_e2e, r.rank_ttft)),
        ]
        for c in compared
        if (r := c.outcome.requests) is not None
    ]
    headings = ["record", "n", "missing", "E2E mean %", "median %", "p95 %", "TTFT mean ms"]
    headings += ["rank E2E", "rank TTFT"]
    title = "Request by request: absolute errors, and rank correlation"
    return _table(title, headings, rows) if rows else ""


def _seeds(comparisons: Sequence[Comparison]) -> str:
    """How much the seed of the arrivals matters, record by record."""
    rows = []
    for c in comparisons:
        spreads = [c.spread(metric) for metric in SHOWN]
        if any(spread is not None for spread in spreads):
            over = sum(o.figures is not None and o.figures.overloaded for o in c.by_seed)
            cells = ("" if s is None else f"{s[0]:+.1f} to {s[1]:+.1f}" for s in spreads)
            rows.append([c.record.id, *cells, f"{over} of {len(c.by_seed)}"])
    title = "Lowest and highest error of the seeds in %, and in how many there is an overload"
    return _table(title, ["record", *SHOWN, "overload"], rows) if rows else ""


def _interval(compared: Sequence[Comparison], covered: StepInterval) -> str:
    """Errors with shorter and longer steps, and how often what was measured lies between."""
    rows = []
    for c in compared:
        bounds = (c.interval.get(metric) for metric in SHOWN)
        cells = ("" if b is None else f"{b[0]:+.1f} to {b[1]:+.1f}" for b in bounds)
        rows.append([c.record.id, *cells])
    shares = (covered.covered_percent.get(metric) for metric in SHOWN)
    rows.append(["inside", *("" if share is None else f"{share:.0f} %" for share in shares)])
    title = f"Error in % with steps {covered.step_percent:g} % shorter to longer, and share of the"
    return _table(f"{title} measured figures inside", ["record", *SHOWN], rows)


def _kv(comparisons: Sequence[Comparison]) -> str:
    rows = [
        [c.record.id, str(c.record.total_kv_blocks), str(c.outcome.kv_blocks), _signed(error, 2)]
        for c in comparisons
        if (error := c.kv_error) is not None
    ]
    headings = ["record", "published", "estimate", "error %"]
    return _table("KV blocks", headings, rows) if rows else ""


def _why_apart(c: Comparison) -> str:
    if c.outcome.figures is None:
        return c.outcome.reason
    measured, simulated = c.record.overload, c.outcome.figures.overloaded
    who = {(True, True): "measured and simulated", (True, False): "measured, but not simulated"}
    values = c.outcome.figures.values
    completed = (
        f"{c.outcome.figures.completed} of {c.outcome.figures.completed + c.outcome.figures.failed}"
    )
    return (
        f"overload {who.get((measured, simulated), 'simulated, but not measured')}; completed"
        f" {completed} (measured {c.record.measured.completed}), E2E"
        f" {values.get('e2e_mean', 0.0) / 1000:.0f} s (measured"
        f" {c.measured.get('e2e_mean', 0.0) / 1000:.0f} s)"
    )


def _signed(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:+.{digits}f}"


def _cell(summary: Summary | None) -> str:
    if summary is None:
        return ""
    return f"{summary.mean:.1f} / {summary.median:.1f} / {summary.worst:.1f}"


def _table(title: str, headings: list[str], rows: list[list[str]], *, words: bool = False) -> str:
    """``words``: columns of text, which are not aligned to the right."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    lines = [title]
    for row in (headings, *rows):
        cells = [f"{row[0]:<{widths[0]}}"]
        cells += [
            cell if words else f"{cell:>{width}}"
            for cell, width in zip(row[1:], widths[1:], strict=True)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)
