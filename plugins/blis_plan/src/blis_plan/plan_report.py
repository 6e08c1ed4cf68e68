"""What ``blis plan`` prints."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
from rich.console import Console

from blis_plan.commands import run_command
from blis_plan.documents import probe_document, slo_documents
from blis_plan.notes import RULES, notes_on, notes_on_load
from blis_plan.plan_search import Progress
from blis_plan.probing import Probe, Trials
from blis_plan.searching import Saturation
from blis_plan.tables import finite, listing, percent, print_table, table

if TYPE_CHECKING:
    from rich.table import Table

    from blis_plan.options import LoadConfig

BEST, DOMINATED, GIVEN_UP, NOT_CARRIED, IMPOSSIBLE = (
    "best",
    "dominated",
    "given up",
    "not carried",
    "impossible",
)
"""What may become of a group."""
SECONDS: Final = 3600


@attrs.frozen
class Answer:
    """The outcome of a search."""

    trials: Trials
    rate: float
    every: Sequence[Progress]
    best: Sequence[Progress]
    """The cheapest first."""
    highest: Sequence[Saturation | str]
    """For each of ``best`` its highest rate, if that was asked for."""
    priced: bool
    """Whether cost is money; else it is GPUs."""

    def status(self, progress: Progress) -> str:
        """What became of a group."""
        if progress.error:
            return IMPOSSIBLE
        if progress.beaten_by is not None:
            return GIVEN_UP
        if progress.instances is None:
            return NOT_CARRIED
        return BEST if progress in self.best else DOMINATED

    def name(self, progress: Progress, instances: int | None = None) -> str:
        """A deployment in a few words; of limits only those that differ."""
        group = progress.group
        number = progress.instances if instances is None else instances
        parts = [f"{group.hardware or 'GPU of the catalogue'}"]
        if group.tp > 1:
            parts[0] = f"({group.tp} {group.hardware})"
        if number is not None:
            parts[0] = f"{number} x {parts[0]}"
        groups = [p.group for p in self.every]
        if len({other.max_running for other in groups}) > 1:
            parts.append(f"{group.max_running} reqs")
        if len({other.max_tokens for other in groups}) > 1:
            parts.append(f"{group.max_tokens} tokens")
        return ", ".join(parts)

    def fewer(self, progress: Progress) -> tuple[int, Probe] | None:
        """The most instances that were tried and do not carry the load."""
        if progress.low < 0:
            return None
        number = progress.group.instances[progress.low]
        return number, progress.probes[number]

    def binding(self, progress: Progress) -> str:
        """What stands in the way of fewer instances; empty if there are no fewer."""
        found = self.fewer(progress)
        return found[1].binding if found else ""

    def per_million(self, progress: Progress, *, output_only: bool) -> float:
        """Cost of a million tokens at this load; nan without any."""
        assert progress.best is not None
        run = progress.best.runs[0]
        tokens = self.rate * (run.output_tokens if output_only else run.total_tokens)
        return progress.cost * 1e6 / (tokens * SECONDS) if tokens else float("nan")

    def highest_rate(self, progress: Progress) -> float | None:
        """The highest rate of one of the best, if known."""
        if not self.highest:
            return None
        found = self.highest[list(self.best).index(progress)]
        return found.best.rate if isinstance(found, Saturation) and found.best else None

    def why(self, progress: Progress) -> str:
        """In words, why a group is not among the best."""
        group, status = progress.group, self.status(progress)
        if status == IMPOSSIBLE:
            return progress.error
        if status == NOT_CARRIED:
            assert progress.last is not None
            most = group.instances[-1]
            verb = "instance does" if most == 1 else "instances do"
            return f"{most} {verb} not carry it: {progress.last.why}"
        if status == GIVEN_UP:
            assert progress.beaten_by is not None
            return (
                f"at least {self._cost(progress.least_cost)} with at most"
                f" {percent(progress.most_headroom)} headroom;"
                f" {self.name(progress.beaten_by)} does better"
            )
        assert status == DOMINATED
        assert progress.best is not None
        return (
            f"{self._cost(progress.cost)} with {percent(progress.best.headroom)} headroom;"
            f" {self.name(self._better(progress))} does no worse"
        )

    def _cost(self, cost: float) -> str:
        return f"{cost:.2f} per hour" if self.priced else f"{cost:g} GPUs"

    def _better(self, progress: Progress) -> Progress:
        assert progress.best is not None
        return next(
            other
            for other in self.best
            if other.best is not None
            and other.cost <= progress.cost
            and other.best.headroom >= progress.best.headroom
        )

    def sentence(self) -> str:
        """The result in one line."""
        if not self.best:
            return f"Nothing that was tried carries {self.rate:.4g} requests/s within the SLOs"
        first = self.best[0]
        assert first.best is not None
        assert first.instances is not None
        gpus = first.group.gpus(first.instances)
        cost = f", {first.cost:.2f} per hour" if self.priced else ""
        return (
            f"{'Cheapest' if self.priced else 'Fewest GPUs'}: {self.name(first)} ({gpus}"
            f" {'GPU' if gpus == 1 else 'GPUs'}{cost}), with {percent(first.best.headroom)}"
            f" headroom in {first.best.binding}"
        )

    def notes(self) -> Iterator[str]:
        """What to know of the load, and of each of the best."""
        probes = [probe for p in self.every for probe in p.probes.values()]
        yield from notes_on_load(self.trials, probes)
        if not self.priced and len({p.group.hardware for p in self.every if not p.error}) > 1:
            yield "GPUs of different kinds count the same; --price tells what they cost"
        said: dict[str, list[str]] = {}
        for progress in self.best:
            assert progress.best is not None
            assert progress.group.deployment is not None
            for note in notes_on(progress.best, progress.group.deployment):
                said.setdefault(note, []).append(self.name(progress))
        for note, names in said.items():
            every = len(names) == len(self.best)
            yield note if every else f"{'; '.join(names)}: {note}"
        for progress, found in zip(self.best, self.highest, strict=False):
            if isinstance(found, str):
                yield f"{self.name(progress)}: the highest rate is not known: {found}"


# ------------------------------------------------------------------------------------- for people


def print_text(config: LoadConfig, answer: Answer, specs: Sequence[Any]) -> None:
    """The best as a table, the answer, the others with reasons, remarks."""
    console = Console(highlight=False)
    slos = ", ".join(map(str, answer.trials.slos))
    console.print(f"{config.model} at {answer.rate:.4g} requests/s within {slos}", soft_wrap=True)
    console.print()
    if answer.best:
        print_table(console, _table(answer))
        console.print()
    console.print(answer.sentence(), style="bold", soft_wrap=True)
    rows = []
    if answer.best:
        first = answer.best[0]
        if found := answer.fewer(first):
            number, probe = found
            rows.append(("Fewer", f"{answer.name(first, number)}: {probe.why}"))
            rows.append(("Binding", probe.limits))
        if check := _check(config, answer, first, specs):
            rows.append(("Check", check))
    rows.append(("Rule", RULES))
    rows += [("Note", text) for text in answer.notes()]
    console.print(listing(rows))
    others = [p for p in answer.every if answer.status(p) != BEST]
    if others:
        console.print()
        console.print("Others", style="bold")
        console.print(listing([(answer.name(p), answer.why(p)) for p in others]))


def _table(answer: Answer) -> Table:
    slos = answer.trials.slos
    money = ["cost/h"] if answer.priced else []
    rates = ["up to"] if answer.highest else []
    made = table(
        *("deployment", "GPUs", *money, "/1M out" if answer.priced else "GPU-h/1M out"),
        *(slo.name for slo in slos),
        *("headroom", *rates, "fewer fail by"),
        first_is_text=True,
    )
    for progress in answer.best:
        probe = progress.best
        assert probe is not None
        assert progress.instances is not None
        highest = answer.highest_rate(progress)
        made.add_row(
            answer.name(progress),
            str(progress.group.gpus(progress.instances)),
            *([f"{progress.cost:.2f}"] if answer.priced else []),
            f"{answer.per_million(progress, output_only=True):.3g}",
            *(slo.shown(value) for slo, value in zip(slos, probe.values, strict=True)),
            f"{percent(probe.headroom)} {probe.binding}",
            *([f"{highest:.4g}/s" if highest else "?"] if answer.highest else []),
            answer.binding(progress) or "-",
        )
    return made


def _check(config: LoadConfig, answer: Answer, progress: Progress, specs: Sequence[Any]) -> str:
    """The ``blis run`` that repeats the first run of a deployment."""
    group, probe = progress.group, progress.best
    assert probe is not None
    own = {
        "hardware": group.hardware,
        "tp": group.tp,
        "num_instances": progress.instances,
        "max_num_running_reqs": group.max_running,
        "max_num_scheduled_tokens": group.max_tokens,
    }
    return run_command(config, answer.trials, probe, specs, own)


# ----------------------------------------------------------------------------------- for machines


def as_json(config: LoadConfig, answer: Answer) -> str:
    """Everything."""
    document = {
        "model": config.model,
        "rate": answer.rate,
        "slos": slo_documents(answer.trials),
        "seeds": answer.trials.seeds,
        "cost_unit": "price per hour" if answer.priced else "GPUs",
        "answer": answer.sentence(),
        "candidates": [_candidate(answer, progress) for progress in _ordered(answer)],
        "notes": list(answer.notes()),
    }
    return json.dumps(document, indent=2)


def _ordered(answer: Answer) -> list[Progress]:
    return [*answer.best, *(p for p in answer.every if answer.status(p) != BEST)]


def _candidate(answer: Answer, progress: Progress) -> dict[str, Any]:
    group, status, instances = progress.group, answer.status(progress), progress.instances
    found: dict[str, Any] = {
        "status": status,
        "hardware": group.hardware,
        "tp": group.tp,
        "max_num_running_reqs": group.max_running,
        "max_num_scheduled_tokens": group.max_tokens,
        "instances": instances,
        "kv_blocks": None
        if group.deployment is None or progress.error
        else (group.deployment.total_blocks),
    }
    if instances is not None:
        assert progress.best is not None
        found |= {
            "gpus": group.gpus(instances),
            "cost": progress.cost,
            "cost_per_million_output_tokens": finite(
                answer.per_million(progress, output_only=True)
            ),
            "cost_per_million_tokens": finite(answer.per_million(progress, output_only=False)),
            "headroom": finite(progress.best.headroom),
            "tightest": progress.best.binding,
            "binding": answer.binding(progress) or None,
            "highest_rate": answer.highest_rate(progress) if status == BEST else None,
        }
    if status != BEST:
        found["why"] = answer.why(progress)
    found["probes"] = {
        str(number): probe_document(probe) for number, probe in sorted(progress.probes.items())
    }
    return found


def as_csv(answer: Answer) -> str:
    """One row for each combination of GPU, TP and limits, the best first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [slo.name for slo in answer.trials.slos]
    writer.writerow(
        [
            *("status", "hardware", "tp", "max_num_running_reqs", "max_num_scheduled_tokens"),
            *("instances", "gpus", "cost", "cost_per_million_output_tokens", *names),
            *("headroom", "tightest", "binding", "highest_rate", "why"),
        ]
    )
    for progress in _ordered(answer):
        group, status = progress.group, answer.status(progress)
        cells: list[str] = [""] * (4 + len(names) + 4)
        if progress.instances is not None:
            probe = progress.best
            assert probe is not None
            highest = answer.highest_rate(progress) if status == BEST else None
            cells = [
                *(str(progress.instances), str(group.gpus(progress.instances))),
                f"{progress.cost:.6g}",
                f"{answer.per_million(progress, output_only=True):.6g}",
                *(f"{value:.6g}" for value in probe.values),
                *(f"{probe.headroom:.4f}", probe.binding, answer.binding(progress)),
                f"{highest:.6g}" if highest else "",
            ]
        writer.writerow(
            [
                *(status, group.hardware, group.tp, group.max_running, group.max_tokens),
                *cells,
                "" if status == BEST else answer.why(progress),
            ]
        )
    return text.getvalue()
