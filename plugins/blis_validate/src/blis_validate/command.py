"""``blis validate``: parse, simulate, compare, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from blis_core.api import BlisError, UsageError, atomic_write, set_log_level
from blis_validate.comparison import compare
from blis_validate.dataset import Record, load_dataset
from blis_validate.limits import Floor, Limit, exceeded, parse_floor, parse_limit
from blis_validate.report import as_csv, as_index, as_json, as_text
from blis_validate.runner import run_records
from blis_validate.scenario import Settings
from blis_validate.stretching import coverage, factors

if TYPE_CHECKING:
    from blis_validate.runner import Outcome

EXCEEDED = 1


@click.command(name="validate", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("dataset", type=click.Path())
@click.option(
    "--latency-model",
    default="kernels",
    show_default=True,
    metavar="NAME",
    help="Predictor of step times.",
)
@click.option(
    "--latency-option",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the latency model, for all records; may be repeated.",
)
@click.option(
    "--option-for",
    multiple=True,
    metavar="ID:KEY=VALUE",
    help="The same for records whose id matches a pattern, such as '*-tp4-*:scale=1.02'.",
)
@click.option(
    "--hardware-config",
    default="",
    metavar="FILE",
    help="JSON file with figures of GPUs, for all.",
)
@click.option("--latency-profile", default="", metavar="FILE", help="A latency profile for all.")
@click.option(
    "--semantics",
    default="vllm",
    show_default=True,
    metavar="RULES",
    help="Engine rules.",
)
@click.option(
    "--only", multiple=True, metavar="PATTERN", help="Records whose id or set matches (repeatable)."
)
@click.option(
    "--max",
    "limits",
    multiple=True,
    metavar="METRIC=PERCENT",
    help="Exit with 1 if the mean error is larger; METRIC.median and METRIC.worst bound others.",
)
@click.option(
    "--min",
    "floors",
    multiple=True,
    metavar="METRIC=VALUE",
    help="Exit with 1 if the rank correlation of a record, rank_e2e or rank_ttft, is smaller.",
)
@click.option(
    "--estimate-blocks",
    is_flag=True,
    help="Use estimated KV blocks even where the real number is published.",
)
@click.option(
    "--output",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="Form of the result on stdout.",
)
@click.option(
    "--index",
    default="",
    metavar="FILE",
    help="File for the errors alone, as JSON.",
)
@click.option("--seed", type=int, default=42, show_default=True, help="Seed of the arrivals.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1, max=1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Simulate each record N times, with the seeds from --seed on; the median counts.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0, max=50, min_open=True),
    metavar="PERCENT",
    help="Simulate with steps that are so much shorter and longer, too, and count what was measured"
    " in between.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="number of cores",
    help="Records that are simulated at once.",
)
def validate(
    dataset: str,
    latency_model: str,
    latency_option: tuple[str, ...],
    option_for: tuple[str, ...],
    hardware_config: str,
    latency_profile: str,
    semantics: str,
    only: tuple[str, ...],
    limits: tuple[str, ...],
    floors: tuple[str, ...],
    estimate_blocks: bool,
    output: str,
    index: str,
    seed: int,
    seeds: int,
    interval: float | None,
    jobs: int,
) -> int:
    """Simulate every run of a DATASET of measurements and show the errors."""
    bounds: list[Limit | Floor] = [parse_limit(text) for text in limits]
    bounds += [parse_floor(text) for text in floors]
    contents = load_dataset(dataset)
    if contents.unread:
        click.echo(f"blis: validate: {dataset}: not read: {', '.join(contents.unread)}", err=True)
    every = contents.experiments
    records = _chosen(every, only)
    settings = Settings(
        options={
            "latency_model": latency_model if not latency_profile else None,
            "latency_profile": latency_profile,
            "hardware_config": hardware_config,
            "latency_option": latency_option,
            "semantics": semantics,
        },
        latency_options=tuple(_option_for(text) for text in option_for),
        published_blocks=not estimate_blocks,
    )
    draws = range(seed, seed + seeds)
    stretches = [1.0] if interval is None else [1.0, *factors(interval)]
    with _quiet(), _progress(len(records) * seeds * len(stretches)) as on_done:
        outcomes, *stretched = (
            run_records(
                *(records, every, Path(dataset).parent, attrs.evolve(settings, stretch=stretch)),
                *(draws, jobs, on_done),
            )
            for stretch in stretches
        )
    comparisons = compare(records, outcomes, stretched)
    covered = None if interval is None else coverage(comparisons, interval)
    if covered is not None and covered.runs and not covered.covered_percent:
        reasons = [o.reason for by_seed in stretched[0] for o in by_seed if o.reason]
        raise BlisError(f"--interval: {(reasons or ['nothing was measured'])[0]}")
    problems = exceeded(bounds, comparisons)
    if index:
        atomic_write(index, as_index(comparisons, latency_model, covered))
    if output == "json":
        click.echo(as_json(comparisons, problems, covered))
    elif output == "csv":
        click.echo(as_csv(comparisons), nl=False)
    else:
        click.echo(as_text(comparisons, problems, covered), nl=False)
    for problem in problems:
        click.echo(f"blis: validate: limit exceeded: {problem}", err=True)
    return EXCEEDED if problems else 0


def _chosen(records: tuple[Record, ...], patterns: tuple[str, ...]) -> list[Record]:
    """The records to simulate; UsageError for a pattern that none matches."""
    for pattern in patterns:
        if not any(_matches(record, pattern) for record in records):
            raise UsageError(f"--only {pattern}: no record has such an id or set")
    return [r for r in records if not patterns or any(_matches(r, p) for p in patterns)]


def _matches(record: Record, pattern: str) -> bool:
    return fnmatchcase(record.id, pattern) or fnmatchcase(record.set, pattern)


def _option_for(text: str) -> tuple[str, str]:
    pattern, colon, option = text.partition(":")
    if not colon or "=" not in option:
        raise UsageError(f"--option-for {text}: must have the form ID:KEY=VALUE")
    return pattern, option


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings meanwhile: those of the latency model are part of the report."""
    set_log_level("error")
    try:
        yield
    finally:
        set_log_level("warn")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Outcome], None]]:
    """A bar on a terminal's stderr, and something to call for each record that is done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=total)

        def done(outcome: Outcome) -> None:
            progress.update(task, advance=1, description=outcome.id[:40])

        yield done
