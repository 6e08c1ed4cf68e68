"""What a capacity planner asks first: did it keep up, what held it back, how full was it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from blis_core.api import PARTS, Outcome, Phase
from blis_report.curves import RUNNING, WAITING
from blis_report.quantities import duration, percent

if TYPE_CHECKING:
    import numpy.typing as npt

    from blis_core.api import Recording

FULL = 0.95
"""Share of the KV blocks in use from which the KV cache counts as full."""
_NOTICEABLE = 0.05  # of the latency of a request alone

_PARTS_IN_WORDS = {
    "routing": "admission and routing latency",
    "gateway": "waiting at the gateway",
    "intake": "intake before the wait queue",
    "queue": "waiting in the queue",
    "prefill": "prefill beside other requests",
    "decode": "decode steps made longer by other requests",
    "stalled": "a spent token budget",
    "preemption": "preemptions",
    "transfer": "transfers of KV caches",
    "output": "processing of output tokens",
}


@attrs.frozen
class Finding:
    """One sentence of the summary."""

    level: str
    """good, fair or bad; "" = neutral."""
    title: str
    text: str


@attrs.frozen
class Load:
    """How full the instances were."""

    busy: float
    """Share of the time in which an instance had a batch, over all instances."""
    batch: float
    """Mean number of running requests over the most that fit, while busy."""
    kv_mean: float
    """Mean share of KV blocks in use, while busy."""
    kv_peak: float
    waits: dict[str, float]
    """Share of the waiting time by what was full meanwhile: slots, memory, tokens."""


def load(recording: Recording) -> Load:
    """How full the instances were, and what was full while requests waited."""
    steps, instances = recording.steps, recording.instances
    lasted = steps["duration"].astype(float)
    total = float(lasted.sum())
    if not total:
        return Load(0.0, 0.0, 0.0, 0.0, {})
    index = steps["instance"]
    most = np.array([int(i["max_running"]) for i in instances])[index]
    blocks = np.array([max(1, int(i["total_blocks"])) for i in instances])[index]
    use = steps["used_blocks"] / blocks
    waited = steps["waiting"] * lasted
    slots = steps["running"] >= most
    memory = ~slots & (use >= FULL)
    shares = {}
    if waited.sum():
        for name, mask in (("slots", slots), ("memory", memory), ("tokens", ~slots & ~memory)):
            shares[name] = float(waited[mask].sum() / waited.sum())
    span = max(recording.end, 1) * max(1, len(instances))
    return Load(
        busy=min(1.0, total / span),
        batch=float((steps["running"] / most * lasted).sum() / total),
        kv_mean=float((use * lasted).sum() / total),
        kv_peak=float(use.max(initial=0.0)),
        waits=shares,
    )


def waits(recording: Recording) -> npt.NDArray[np.int64]:
    """us that each request waited: at the gateway, in queues, after preemptions."""
    parts, lost = recording.parts(), recording.parts("lost")
    names = ("gateway", "queue", "preemption")
    total: npt.NDArray[np.int64] = np.sum([parts[n] + lost[n] for n in names], axis=0)
    return total


def cautions(recording: Recording) -> dict[str, str]:
    """What makes the figures misleading, by name; see the key ``warnings`` of the results."""
    found: dict[str, str] = {}
    for text in recording.results.get("warnings", ()):
        name, colon, rest = str(text).partition(": ")
        known = bool(colon) and " " not in name
        found[name if known else str(len(found))] = rest if known else str(text)
    return found


def keeps_up(recording: Recording) -> Finding:
    """Whether the load is more than the instances can serve, and how long requests waited."""
    saturated = cautions(recording).get("saturated")
    if saturated is not None:
        return Finding("bad", "Saturated", f"{saturated[:1].upper()}{saturated[1:]}.")
    waited = waits(recording)
    if not len(waited):
        return Finding("", "Load", "No request arrived.")
    alone = alone_e2e(recording)
    alone = alone[alone >= 0]
    noticeable = _NOTICEABLE * float(np.median(alone)) if len(alone) else 0.0
    mean, p99 = float(waited.mean()), float(np.percentile(waited, 99))
    text = f"Requests waited {duration(mean)} on average ({duration(p99)} at the 99th percentile)"
    if mean > noticeable:
        return Finding("fair", "Busy", f"{text}; the waits do not grow in the course of the run.")
    return Finding("good", "Keeps up", f"{text}, which is little beside their latency.")


def alone_e2e(recording: Recording) -> npt.NDArray[np.int64]:
    """us that each request takes alone on an idle instance; -1 = not known."""
    parts = np.stack(list(recording.parts("alone").values()))
    total: npt.NDArray[np.int64] = np.where(parts[0] < 0, -1, parts.sum(axis=0))
    return total


def slowdown_shares(recording: Recording) -> dict[str, float]:
    """us per completed request by which each part is longer than alone, on average."""
    rows = recording.completed()
    rows = rows[alone_e2e(recording)[rows] >= 0]
    parts, alone, lost = (recording.parts(kind) for kind in ("part", "alone", "lost"))
    if not len(rows):
        return dict.fromkeys(PARTS, 0.0)
    return {
        name: float((parts[name][rows] + lost[name][rows] - alone[name][rows]).mean())
        for name in PARTS
    }


def bottleneck(recording: Recording) -> Finding:
    """What makes requests slower than alone, and what was full while they waited."""
    more = slowdown_shares(recording)
    total = sum(value for value in more.values() if value > 0)
    alone = alone_e2e(recording)
    rows = recording.completed()
    rows = rows[alone[rows] > 0]
    if not len(rows) or not total:
        return Finding("", "Bottleneck", "No completed request was slower than it is alone.")
    slower = float(np.median(recording.requests["e2e"][rows] / alone[rows]))
    worst = max(more, key=lambda name: more[name])
    text = (
        f"A request takes {slower:.2f} times as long as alone (median). Most of the difference,"
        f" {percent(more[worst] / total)}, is {_PARTS_IN_WORDS[worst]}."
    )
    shares = load(recording).waits
    if shares and worst in ("queue", "preemption", "gateway"):
        text += " " + _full(shares)
    level = "good" if slower < 1.5 else "fair" if slower < 4 else "bad"
    return Finding(level, "Bottleneck", text)


def _full(shares: dict[str, float]) -> str:
    name, share = max(shares.items(), key=lambda item: item[1])
    what = {
        "slots": "all places in the batch were taken (--max-num-running-reqs)",
        "memory": "the KV cache was full (--total-kv-blocks)",
        "tokens": "the tokens of the steps were spent (--max-num-scheduled-tokens), or a step was"
        " under way",
    }[name]
    return f"During {percent(share)} of the waiting in queues {what}."


def failures(recording: Recording) -> dict[str, int]:
    """How many requests did not complete, by outcome."""
    names = {
        Outcome.UNFINISHED: "unfinished",
        Outcome.TIMED_OUT: "timed out",
        Outcome.REJECTED: "rejected",
        Outcome.SHED: "shed at the gateway",
        Outcome.UNROUTABLE: "no instance for its model",
        Outcome.UNSERVABLE: "too long",
        Outcome.NO_ROOM: "no room on a decode instance",
        Outcome.DRAINED: "lost in a drain",
    }
    counts = np.bincount(recording.requests["outcome"], minlength=len(Outcome))
    return {text: int(counts[outcome]) for outcome, text in names.items() if counts[outcome]}


def prefix_hits(recording: Recording) -> float | None:
    """Share of the prompt tokens that were cached when requests were scheduled first.

    None if no request was scheduled.
    """
    columns, spans = recording.requests, recording.spans
    scheduled = np.unique(spans["request"][np.isin(spans["phase"], RUNNING)])
    tokens = int(columns["prompt_tokens"][scheduled].sum())
    return int(columns["cached_tokens"][scheduled].sum()) / tokens if tokens else None


def waiting_share(recording: Recording) -> float:
    """Share of the requests that waited in a queue at all."""
    spans = recording.spans
    waited = np.unique(spans["request"][np.isin(spans["phase"], (*WAITING, Phase.GATEWAY))])
    return len(waited) / len(recording.ids) if recording.ids else 0.0


def routed(recording: Recording) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Requests and tokens (prompt and output) by instance; halves count where they ran."""
    columns, count = recording.requests, len(recording.instances)
    requests, tokens = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    last, first = columns["instance"], columns["prefill_instance"]
    for where, sizes in (
        (last, columns["output_tokens"] + np.where(first < 0, columns["prompt_tokens"], 0)),
        (np.where(first == last, -1, first), columns["prompt_tokens"]),
    ):
        known = where >= 0
        requests += np.bincount(where[known], minlength=count)
        tokens += np.bincount(where[known], sizes[known], minlength=count).astype(np.int64)
    return requests, tokens


def imbalance(recording: Recording) -> float | None:
    """Tokens of the busiest instance over the mean; None without several instances or work.

    Pools are looked at one by one, and the worst counts.
    """
    _, tokens = routed(recording)
    roles = [str(instance["role"]) for instance in recording.instances]
    worst: float | None = None
    for role in set(roles):
        mine = tokens[[k for k, other in enumerate(roles) if other == role]]
        if len(mine) > 1 and mine.sum():
            worst = max(worst or 0.0, float(mine.max() / mine.mean()))
    return worst


def key_figures(recording: Recording) -> dict[str, float | None]:
    """The figures that are compared, by name; None = there is none."""
    cluster: dict[str, Any] = recording.results["cluster"]
    done = cluster["completed_requests"]
    full = load(recording)
    names = ("ttft", "itl", "e2e")
    figures: dict[str, float | None] = {
        "requests": float(len(recording.ids)),
        "completed": done / len(recording.ids) if recording.ids else None,
        "request_rate": cluster["responses_per_sec"],
        "token_rate": cluster["tokens_per_sec"],
    }
    for name in names:
        for which in ("mean", "p50", "p90", "p99"):
            figures[f"{name}_{which}"] = cluster[f"{name}_{which}_ms"] * 1e3 if done else None
    figures |= {
        "wait_p99": float(np.percentile(waits(recording), 99)) if recording.ids else None,
        "preemptions": float(recording.requests["preemptions"].sum()),
        "prefix_hits": prefix_hits(recording),
        "kv_peak": full.kv_peak,
        "busy": full.busy,
        "imbalance": imbalance(recording),
    }
    return figures
