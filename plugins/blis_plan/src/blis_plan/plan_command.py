"""``blis plan``: parse, search, print."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import click

from blis_core.api import (
    BlisError,
    ConfigCommand,
    ValueKind,
    option,
    set_log_level,
)
from blis_plan.candidates import Group, make_groups, parse_names, parse_numbers, parse_prices
from blis_plan.load import make_load
from blis_plan.options import NOT_HERE, OUTPUT, SEARCH, LoadConfig
from blis_plan.parallel import end_workers, in_parallel
from blis_plan.plan_file import read_plan
from blis_plan.plan_report import Answer, as_csv, as_json, print_text
from blis_plan.plan_search import Attempt, Progress, front, search
from blis_plan.probing import Probe, Trials, try_rate
from blis_plan.searching import Saturation, find_highest

NOT_MET: Final = 1
"""Exit code if nothing carries the load."""
CANDIDATES: Final = "Candidates"
VARIED: Final = (
    "hardware",
    "tp",
    "num_instances",
    "max_num_running_reqs",
    "max_num_scheduled_tokens",
)
"""Options of ``blis run`` that take several values here."""
_HIGHEST: Final = 64.0
_PRECISION: Final = 0.05
"""Of the highest rate that a candidate carries: most doublings, and relative error."""


def _varied(default: str, help: str) -> Any:
    return option(ValueKind.TEXT, CANDIDATES, default, help, implied=default or "catalogue")


@attrs.frozen(kw_only=True, repr=False)
class PlanConfig(LoadConfig):
    """What ``plan`` chooses from. A field with ``_`` at its end is an option of ``blis run`` that
    takes several values here."""

    plan_file: str = option(
        ValueKind.TEXT,
        CANDIDATES,
        "",
        "YAML file with these options, one key each; options that are given win over it.",
    )
    hardware_: str = _varied("", "GPUs to choose from, as in H100,L40S.")
    tp_: str = _varied("", "GPUs that share one model instance, as in 1,2,4.")
    num_instances_: str = _varied("1-16", "Model instances that share the traffic.")
    max_num_running_reqs_: str = _varied("256", "Most requests in a running batch.")
    max_num_scheduled_tokens_: str = _varied("2048", "Most new tokens in one step.")
    max_gpus: int = option(
        ValueKind.INT, CANDIDATES, 0, "Most GPUs of a candidate; 0 = no limit.", at_least=0
    )
    price: str = option(
        ValueKind.TEXT,
        CANDIDATES,
        "",
        "Price of a GPU per hour, as in H100=2.5,L40S=1.1; without prices GPUs are counted.",
    )
    highest_rate: bool = option(
        ValueKind.BOOL,
        SEARCH,
        False,
        "Find the highest rate that each of the best candidates carries, too.",
    )
    jobs: int = option(
        ValueKind.INT,
        SEARCH,
        0,
        "Trials that run at once; 0 = as many as there are cores.",
        at_least=0,
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
        if self.disaggregated:
            raise BlisError(
                "--prefill-instances: plan chooses the number of equal instances; compare pools"
                " with blis saturate"
            )
        self.groups(lookup=False)
        super().check()
        if self.rate is None and not (self.workload_spec or self.trace_header):
            raise BlisError("--rate: is required; it is the load to be carried")

    def groups(self, *, lookup: bool = True) -> list[Group]:
        """The candidates; without ``lookup`` only what the options say is checked."""
        hardware = parse_names("--hardware", self.hardware_) if self.hardware_ else ("",)
        lists = {
            "tp": parse_numbers("--tp", self.tp_) if self.tp_ else (0,),
            "max_running": parse_numbers("--max-num-running-reqs", self.max_num_running_reqs_),
            "max_tokens": parse_numbers(
                "--max-num-scheduled-tokens", self.max_num_scheduled_tokens_
            ),
            "instances": parse_numbers("--num-instances", self.num_instances_),
        }
        prices = parse_prices(self.price)
        if not lookup:
            return []
        return make_groups(
            self.shared, hardware=hardware, prices=prices, max_gpus=self.max_gpus, **lists
        )


class PlanCommand(ConfigCommand[PlanConfig]):
    """The command, whose options may come from a file."""

    def configure(self, given: dict[str, Any]) -> PlanConfig:
        """Options that are given win over those of the file."""
        given = {name: value for name, value in given.items() if value != ()}
        if path := given.get("plan_file"):
            specs = [spec for spec in self.specs if spec.name != "plan_file"]
            lists = [f"{name}_" for name in VARIED] + ["price"]
            given = {**read_plan(path, specs, lists), **given}
        return super().configure(given)


@attrs.frozen
class _Task:
    """A trial, as another process needs it."""

    trials: Trials
    options: dict[str, Any]
    rate: float


def _attempt(task: _Task) -> Probe:
    probe = try_rate(task.trials, task.options, task.rate)
    if any(run.changing_fleet for run in probe.runs):
        raise BlisError(
            "--policy-config: the fleet changes by itself (node_pools, autoscaler), so the number"
            " of instances is not to choose; try it with blis saturate"
        )
    return probe


def _highest(task: tuple[_Task, Probe]) -> Saturation:
    """The highest rate from that of a trial, which was carried, on."""
    given, known = task

    def attempt(rate: float) -> Probe:
        return known if rate == known.rate else try_rate(given.trials, given.options, rate)

    return find_highest(
        attempt,
        known.rate,
        lowest=known.rate,
        highest=known.rate * _HIGHEST,
        precision=_PRECISION,
    )


def execute(config: PlanConfig) -> None:
    """Check, search, print. Exit code 1 if nothing carries the load."""
    set_log_level("error")
    config.check()
    jobs = config.jobs or os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="blis-plan-") as folder:
        load = make_load(config, Path(folder))
        trials = config.trials(load)
        rate = load.rate if config.rate is None else config.rate
        groups = config.groups()
        try:
            with _progress() as (on_round, on_done):

                def attempts(tries: Sequence[Attempt]) -> list[Probe | str]:
                    tasks = [
                        _Task(trials, {**group.options, "num_instances": number}, rate)
                        for group, number in tries
                    ]
                    return in_parallel(_attempt, tasks, jobs, on_done)

                every = search(groups, attempts, on_round=on_round)
                best = front(every)
                highest = _highest_rates(config, trials, best, jobs, on_round, on_done)
        finally:
            end_workers()
        answer = Answer(trials, rate, every, best, highest, bool(config.price))
        if config.output == "json":
            click.echo(as_json(config, answer))
        elif config.output == "csv":
            click.echo(as_csv(answer), nl=False)
        else:
            print_text(config, answer, plan.specs)
    if not best:
        raise click.exceptions.Exit(NOT_MET)


def _highest_rates(
    config: PlanConfig,
    trials: Trials,
    best: Sequence[Progress],
    jobs: int,
    on_round: Callable[[int, int], None],
    on_done: Callable[[], None],
) -> list[Saturation | str]:
    """One for each of the best candidates, if that is asked for."""
    if not config.highest_rate:
        return []
    on_round(0, len(best))
    tasks = []
    for progress in best:
        assert progress.best is not None
        options = {**progress.group.options, "num_instances": progress.instances}
        tasks.append((_Task(trials, options, progress.best.rate), progress.best))
    return in_parallel(_highest, tasks, jobs, on_done)


@contextmanager
def _progress() -> Iterator[tuple[Callable[[int, int], None], Callable[[], None]]]:
    """A bar on a terminal's stderr: to call at the start of a round, and after each trial."""
    if not sys.stderr.isatty():
        yield (lambda *_: None), (lambda: None)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def on_round(number: int, trials: int) -> None:
            name = f"round {number}" if number else "highest rates"
            bar.reset(task, total=trials, description=name)

        yield on_round, lambda: bar.advance(task)


plan = PlanCommand(
    "plan",
    PlanConfig,
    execute,
    help="Find the cheapest deployment that carries a load within SLOs: how many instances, on"
    " which GPUs, with which limits. Options of blis run describe the rest; --rate is the load, to"
    " which a workload file or a trace is scaled. Exit code 1 if nothing carries it.",
    without=(*NOT_HERE, *VARIED),
)
