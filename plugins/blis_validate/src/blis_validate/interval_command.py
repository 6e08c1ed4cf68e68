"""``blis interval``: simulate three times, with shorter, unchanged and longer steps, and print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs
import click

from blis_core.api import (
    BlisError,
    ConfigCommand,
    RunConfig,
    ValueKind,
    option,
    set_log_level,
    simulate,
)
from blis_validate.stretching import factors, stretched

if TYPE_CHECKING:
    from blis_core.api import Results

METRICS: Final = (
    *("ttft_mean", "ttft_p90", "ttft_p99"),
    *("e2e_mean", "e2e_p90", "e2e_p99", "itl_mean"),
)


@attrs.frozen(kw_only=True, repr=False)
class IntervalConfig(RunConfig):
    """What ``interval`` simulates, and how wide it is."""

    percent: float = option(
        ValueKind.FLOAT,
        "Output",
        8.0,
        "By how much steps are shorter, and longer.",
        above=0,
        at_most=50,
    )


def execute(config: IntervalConfig) -> None:
    """Check, simulate, print."""
    set_log_level(config.log)
    config.check()
    shorter, longer = (stretched(config, factor) for factor in factors(config.percent))
    middle = simulate(config)
    if not middle.cluster.completed_requests:
        raise BlisError("no request completed, so that there is nothing to put an interval around")
    set_log_level("error")  # what there was to say has been said
    results = [simulate(shorter), middle, simulate(longer)]
    text = _json if config.output == "json" else _text
    click.echo(text(config.percent, results))


def _figures(results: list[Results], metric: str) -> tuple[float, float, float]:
    """(lowest, predicted, highest) in ms; longer steps may well shorten a percentile."""
    values = [getattr(result.cluster, f"{metric}_ms") for result in results]
    return min(values), values[1], max(values)


def _covered(percent: float, results: list[Results]) -> dict[str, float]:
    """Share of measured runs within such an interval in per cent, where it is known."""
    accuracy = results[1].accuracy
    known = accuracy.interval if accuracy is not None else None
    return dict(known.covered_percent) if known and known.step_percent == percent else {}


def _json(percent: float, results: list[Results]) -> str:
    covered = _covered(percent, results)
    figures = {}
    for metric in METRICS:
        low, predicted, high = _figures(results, metric)
        figures[f"{metric}_ms"] = {
            "low": low,
            "predicted": predicted,
            "high": high,
            "covered_percent": covered.get(metric),
        }
    return json.dumps({"step_percent": percent, "figures": figures}, indent=2)


def _text(percent: float, results: list[Results]) -> str:
    covered = _covered(percent, results)
    accuracy = results[1].accuracy
    headings = ["low ms", "predicted ms", "high ms"] + (["measured inside"] if covered else [])
    lines = [
        f"Steps {percent:g} % shorter to longer",
        " " * 9 + "".join(f"  {heading:>15}" for heading in headings),
    ]
    for metric in METRICS:
        cells = [f"{value:,.2f}" for value in _figures(results, metric)]
        if covered:
            share = covered.get(metric)
            cells.append("" if share is None else f"{share:.0f} %")
        lines.append(f"{metric:<9}" + "".join(f"  {cell:>15}" for cell in cells))
    if covered and accuracy is not None and accuracy.interval is not None:
        runs = accuracy.interval.runs
        lines.append(f"measured inside: in such an interval around simulations of {runs} runs")
    if accuracy is not None:
        lines += [f"not compared: {text}" for text in accuracy.outside]
        lines += [f"unstable: {text}" for text in accuracy.unstable]
    return "\n".join(lines)


interval = ConfigCommand(
    "interval",
    IntervalConfig,
    execute,
    help="Simulate as blis run does, and once more with shorter and with longer steps: an interval"
    " for each latency, and how often such an interval held what was measured.",
    without=("metrics_path", "trace_output"),
)
