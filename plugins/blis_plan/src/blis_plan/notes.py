"""Remarks on results: what one should know before one relies on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from blis_plan.probing import MOST_REQUESTS, Probe, Trials, noisy

if TYPE_CHECKING:
    from blis_core.api import Deployment

FULL_CACHE: Final = 0.9
SAMPLED: Final = 0.05
"""Deviation of the rate that is worth a remark."""
BLIND: Final = 0.15
"""Overload that may go unnoticed, from which on it is worth a remark."""
RULES: Final = (
    "every request counts: one that times out, is dropped, rejected or not finished is infinitely"
    " slow"
)


def notes_on_load(trials: Trials, probes: Sequence[Probe]) -> list[str]:
    """What holds for all trials alike."""
    notes = list(trials.load.remarks)
    fewest = min((run.sent for p in probes for run in p.runs if not run.early), default=0)
    if fewest:
        notes += noisy(trials.slos, fewest)
    return notes


def notes_on(probe: Probe, deployment: Deployment) -> list[str]:
    """What is remarkable about one trial."""
    notes = []
    if not probe.violated and not probe.sustained:
        notes.append(f"not sustained: the SLOs are met only because the run ends; {probe.growing}")
    elif not probe.violated and not probe.long_enough:
        notes.append(
            "too short to tell: requests arrive for less than four times as long as one of them"
            " takes, so the system never fills up; give more requests"
        )
    blind = max((run.blind for run in probe.runs if run.blind == run.blind), default=0.0)
    if probe.steady and probe.met and blind > BLIND:
        notes.append(
            f"with so few requests an overload of less than {blind:.0%} may go unnoticed; more"
            " --num-requests bring that down"
        )
    off = max(abs(run.offered / probe.rate - 1) for run in probe.runs)
    if probe.steady and probe.met and off > SAMPLED:
        notes.append(
            f"arrivals are drawn at random: a run offers {off:.0%} more or less than the rate; more"
            " --num-requests, or --seeds, bring that down"
        )
    blocks = deployment.total_blocks
    peak = max(run.peak_used_blocks for run in probe.runs) / blocks if blocks else 0.0
    if peak >= FULL_CACHE:
        notes.append(f"the KV cache is {peak:.0%} full at its peak")
    preemptions = max(run.preemptions for run in probe.runs)
    if preemptions:
        notes.append(f"{preemptions:,} preemptions: requests lose their KV cache and start again")
    capped = max(run.length_capped for run in probe.runs)
    if capped:
        notes.append(f"{capped:,} answers are cut at the maximum length of the model")
    if probe.met and probe.failed:
        failed = ", ".join(f"{count:,} {reason}" for reason, count in probe.failed.items())
        notes.append(f"failed requests, which the SLOs leave room for: {failed}")
    if any(run.sent >= MOST_REQUESTS for run in probe.runs):
        notes.append(f"the run has the most requests that are tried ({MOST_REQUESTS:,})")
    notes += notes_on_accuracy(probe, deployment)
    return notes


def notes_on_accuracy(probe: Probe, deployment: Deployment) -> list[str]:
    """What the latency model says of its predictions."""
    run = probe.runs[-1]
    notes = list(run.warnings)
    if run.outside is None:
        notes.append(f"latency model {deployment.backend} cannot say how accurate it is")
    elif run.outside:
        notes.append(f"accuracy is not known outside what was measured: {'; '.join(run.outside)}")
    return notes + list(run.unstable)
