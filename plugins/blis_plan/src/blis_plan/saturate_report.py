"""What ``blis saturate`` prints."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from blis_plan.commands import run_command
from blis_plan.documents import probe_document, slo_documents, verdict
from blis_plan.notes import RULES, notes_on, notes_on_load
from blis_plan.probing import Probe, Trials
from blis_plan.tables import listing, percent, table

if TYPE_CHECKING:
    from rich.table import Table

    from blis_core.api import Deployment
    from blis_plan.saturate_command import SaturateConfig
    from blis_plan.searching import Saturation


def answer(trials: Trials, found: Saturation) -> str:
    """The result in one line."""
    slos = ", ".join(map(str, trials.slos))
    if found.best is None:
        assert found.beyond is not None
        lowest = found.beyond
        return f"No rate from {lowest.rate:.4g} requests/s on meets {slos}: {lowest.why}"
    best = found.best
    scale = ""
    if not trials.load.seeded:
        scale = f" ({best.rate / trials.load.rate:.3g} times the recorded traffic)"
    text = f"{best.rate:.4g} requests/s{scale} within {slos}"
    if found.beyond is None:
        return f"At least {text}: that is the highest rate that was tried"
    return f"Up to {text}; {found.beyond.rate:.4g} fails: {found.beyond.why}"


def warnings(found: Saturation) -> list[str]:
    """Rates that seem to meet the SLOs and are not carried."""
    seeming = [p for p in found.probes if not p.violated and not p.met]
    if not seeming:
        return []
    rates = ", ".join(f"{p.rate:.4g}" for p in sorted(seeming, key=lambda p: p.rate))
    return [
        f"at {rates} requests/s the SLOs are met only because the run ends: "
        + ("the queue grows" if not seeming[0].sustained else "it is too short to tell")
    ]


def print_text(
    config: SaturateConfig,
    deployment: Deployment,
    trials: Trials,
    found: Saturation,
    specs: Sequence[Any],
) -> None:
    """The trials as a table, the answer, the binding constraint, remarks."""
    console = Console(highlight=False)
    console.print(_table(trials, found))
    console.print()
    console.print(answer(trials, found), style="bold", soft_wrap=True)
    best = found.best or found.probes[-1]
    rows = [("Deployment", describe(deployment, config.num_instances))]
    if found.best is not None:
        limits = found.beyond or found.best
        rows.append(("Binding", limits.limits))
        rows.append(("Headroom", headrooms(found.best)))
        check = run_command(config, trials, found.best, specs, {})
        if check:
            rows.append(("Check", check))
    rows.append(("Rule", RULES))
    rows += [("Warning", text) for text in warnings(found)]
    notes = notes_on_load(trials, found.probes)
    if best.met:
        notes += notes_on(best, deployment)
    rows += [("Note", text) for text in notes]
    console.print(listing(rows))


def _table(trials: Trials, found: Saturation) -> Table:
    slos = trials.slos
    made = table("rate", "achieved", *(slo.name for slo in slos), "headroom", "verdict")
    for probe in sorted(found.probes, key=lambda p: p.rate):
        mark = "~" if probe.early else ""
        made.add_row(
            f"{probe.rate:.4g}",
            mark + f"{probe.achieved:.4g}",
            *(mark + slo.shown(v) for slo, v in zip(slos, probe.values, strict=True)),
            percent(probe.headroom),
            verdict(probe),
        )
    return made


def headrooms(probe: Probe) -> str:
    """What each SLO leaves of its limit."""
    return ", ".join(
        f"{slo.name} {percent(1 - use)}" for slo, use in zip(probe.slos, probe.uses, strict=True)
    )


def describe(deployment: Deployment, instances: int) -> str:
    """The deployment in words."""
    return (
        f"{instances} x {deployment.model} on {deployment.tp} x {deployment.gpu},"
        f" {deployment.total_blocks:,} KV blocks each, latency model {deployment.backend}"
    )


# ----------------------------------------------------------------------------------- for machines


def as_json(
    config: SaturateConfig, deployment: Deployment, trials: Trials, found: Saturation
) -> str:
    """Everything."""
    best, limits = found.best, found.beyond or found.best
    document = {
        "rate": None if best is None else best.rate,
        "answer": answer(trials, found),
        "first_failing_rate": None if found.beyond is None else found.beyond.rate,
        "binding": None if limits is None else limits.binding,
        "model": deployment.model,
        "hardware": deployment.gpu,
        "tp": deployment.tp,
        "instances": config.num_instances,
        "kv_blocks": deployment.total_blocks,
        "latency_model": deployment.backend,
        "seeds": trials.seeds,
        "slos": slo_documents(trials),
        "probes": [probe_document(probe) for probe in found.probes],
        "warnings": warnings(found),
        "notes": notes_on_load(trials, found.probes)
        + ([] if best is None else notes_on(best, deployment)),
    }
    return json.dumps(document, indent=2)


def as_csv(trials: Trials, found: Saturation) -> str:
    """One row for each trial, in the order in which they were made."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [slo.name for slo in trials.slos]
    writer.writerow(["rate", "met", "achieved", *names, "headroom", "binding", "verdict"])
    for probe in found.probes:
        values = [f"{value:.6g}" for value in probe.values]
        writer.writerow(
            [
                *(f"{probe.rate:g}", str(probe.met).lower(), f"{probe.achieved:.6g}", *values),
                *(f"{probe.headroom:.4f}", probe.binding, verdict(probe)),
            ]
        )
    return text.getvalue()
