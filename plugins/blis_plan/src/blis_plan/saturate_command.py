"""``blis saturate``: parse, search, print."""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Final

import attrs
import click

from blis_core.api import (
    BlisError,
    ConfigCommand,
    UsageError,
    ValueKind,
    option,
    resolve,
    set_log_level,
)
from blis_plan.load import Load, make_load
from blis_plan.options import NOT_HERE, OUTPUT, SEARCH, LoadConfig, parse_share
from blis_plan.probing import Probe, Trials, try_rate
from blis_plan.saturate_report import as_csv, as_json, print_text
from blis_plan.searching import Saturation, find_highest

NOT_MET: Final = 1
"""Exit code if no rate is carried."""
_DEPTH: Final = 100.0
"""Without --min-rate, the lowest rate is this part of the first one."""


@attrs.frozen(kw_only=True, repr=False)
class SaturateConfig(LoadConfig):
    """What ``saturate`` searches, and how far."""

    precision: str = option(
        ValueKind.TEXT, SEARCH, "2%", "Between the last rate that is carried and the next."
    )
    min_rate: float | None = option(
        ValueKind.FLOAT,
        SEARCH,
        None,
        "Lowest rate to try.",
        implied="a hundredth of the first one",
        above=0,
    )
    max_rate: float | None = option(
        ValueKind.FLOAT, SEARCH, None, "Highest rate to try.", implied="no limit", above=0
    )
    output: str = option(
        ValueKind.TEXT,
        OUTPUT,
        "text",
        "Form of the result on stdout.",
        choices=("text", "json", "csv"),
    )

    def check(self) -> None:
        """Everything that is wrong whatever model and files say."""
        if parse_share("--precision", self.precision) < 0.001:
            raise UsageError(f"--precision {self.precision}: must be at least 0.1%")
        for flag, rate in (("--min-rate", self.min_rate), ("--max-rate", self.max_rate)):
            if rate is not None and not math.isfinite(rate):
                raise UsageError(f"{flag}: must be finite, got {rate}")
        if self.min_rate and self.max_rate and self.min_rate > self.max_rate:
            raise UsageError(f"--min-rate: {self.min_rate:g} is above --max-rate {self.max_rate:g}")
        super().check()


def search(config: SaturateConfig, load: Load, trials: Trials) -> Saturation:
    """Find the highest rate of ``load`` on the deployment of ``config``."""
    start = load.rate if config.rate is None else config.rate
    base = config.shared

    def attempt(rate: float) -> Probe:
        probe = try_rate(trials, base, rate)
        if sys.stderr.isatty():
            verdict = "met" if probe.met else probe.why
            click.echo(f"{rate:>10.4g} requests/s: {verdict}", err=True)
        return probe

    return find_highest(
        attempt,
        start,
        lowest=start / _DEPTH if config.min_rate is None else config.min_rate,
        highest=math.inf if config.max_rate is None else config.max_rate,
        precision=parse_share("--precision", config.precision),
    )


def execute(config: SaturateConfig) -> None:
    """Check, search, print. Exit code 1 if not even the lowest rate is carried."""
    set_log_level("error")
    config.check()
    deployment = resolve(config)
    if deployment.assumed_blocks:
        raise BlisError(f"the KV cache cannot be sized: {deployment.assumed_blocks}")
    with tempfile.TemporaryDirectory(prefix="blis-saturate-") as folder:
        load = make_load(config, Path(folder))
        trials = config.trials(load)
        found = search(config, load, trials)
        if config.output == "json":
            click.echo(as_json(config, deployment, trials, found))
        elif config.output == "csv":
            click.echo(as_csv(trials, found), nl=False)
        else:
            print_text(config, deployment, trials, found, saturate.specs)
    if found.best is None:
        raise click.exceptions.Exit(NOT_MET)


saturate: ConfigCommand[SaturateConfig] = ConfigCommand(
    "saturate",
    SaturateConfig,
    execute,
    help="Find the highest rate that a deployment carries within SLOs, by bisection. Options of"
    " blis run describe deployment and load; a workload file is scaled by its aggregate_rate, a"
    " trace by its time. --rate is the first rate to try. Exit code 1 if not even the lowest rate"
    " is carried.",
    without=NOT_HERE,
)
