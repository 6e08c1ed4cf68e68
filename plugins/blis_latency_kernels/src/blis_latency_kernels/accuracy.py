"""How far the model was off where it was compared with served models.

``data/validation.json`` is written by ``blis validate --index``: errors of our own simulations, no
measured figures.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from blis_core.api import Accuracy, RunFacts, StepInterval, ValidatedRun
from blis_latency_kernels.constants import ALIASES
from blis_latency_kernels.validity import MOST_TOKENS

NEAREST: Final = 3
"""Runs that are shown."""
MARGIN: Final = 1.25
"""Factor by which a load may leave the range of those that were compared."""
FULL_BATCH: Final = 0.9
FULL_CACHE: Final = 0.95
"""Shares of the batch and of the KV cache above which a queue is near."""


@cache
def _index() -> dict[str, Any]:
    """The file. Shared by all callers: do not change it."""
    text = resources.files("blis_latency_kernels").joinpath("data/validation.json").read_bytes()
    found: dict[str, Any] = json.loads(text)
    return found


def step_interval() -> StepInterval | None:
    """What steps that are a little shorter and longer have covered; None if nobody looked."""
    found = _index().get("interval")
    return StepInterval(**found) if found else None


@cache
def validated_runs(engines: int = 1) -> tuple[ValidatedRun, ...]:
    """The runs that were compared, without overloads, with this many data parallel engines."""
    return tuple(
        ValidatedRun(
            id=record["id"],
            model=record["model"].lower(),
            hardware=record["hardware"],
            tp=record["tp"],
            rates=tuple(record["rates"]),
            prompt_tokens=record["prompt_tokens"],
            output_tokens=record["output_tokens"],
            errors=record["errors_percent"],
        )
        for record in _index()["records"]
        if record["compared"] and record.get("dp", 1) == engines
    )


def accuracy_of(run: RunFacts, *, lagging: bool, engines: int = 1) -> Accuracy:
    """The nearest runs that were compared, and what sets ``run`` apart from all of them.

    ``lagging``: whether the engine chose its batches ahead of their execution. ``engines`` that
    are data parallel and share the experts.
    """
    known = validated_runs(engines)
    gpu = ALIASES.get(run.hardware, run.hardware)
    outside = list(_outside(run, gpu, known))
    if not lagging:
        outside.append("the engine rules of the reference (compared: --semantics vllm)")
    return Accuracy(
        nearest=tuple(sorted(known, key=lambda other: _distance(run, gpu, other))[:NEAREST]),
        outside=tuple(outside),
        unstable=tuple(_unstable(run)),
        interval=step_interval(),
    )


def _distance(run: RunFacts, gpu: str, other: ValidatedRun) -> float:
    """Unlikeness in doublings; another GPU or model counts as several of them."""
    doublings = [
        _doublings(run.tp, other.tp),
        _doublings(run.prompt_tokens, other.prompt_tokens),
        _doublings(run.output_tokens, other.output_tokens),
    ]
    if run.rate > 0 and other.rates:
        doublings.append(min(_doublings(run.rate, rate) for rate in other.rates))
    return 4 * (gpu != other.hardware) + 3 * (run.model != other.model) + sum(doublings)


def _doublings(value: float, other: float) -> float:
    return abs(math.log2(max(value, 1e-3) / max(other, 1e-3)))


def _outside(run: RunFacts, gpu: str, known: Sequence[ValidatedRun]) -> Iterator[str]:
    on_gpu = [other for other in known if other.hardware == gpu]
    if run.longest > MOST_TOKENS:
        yield (
            f"requests of up to {run.longest:,} tokens (attention was measured up to"
            f" {MOST_TOKENS:,})"
        )
    if not on_gpu:
        yield f"no run on {run.hardware}"
        return
    if all(other.model != run.model for other in on_gpu):
        yield f"no run of {run.model} on {run.hardware}"
    degrees = sorted({other.tp for other in on_gpu})
    if run.tp not in degrees:
        yield f"TP {run.tp} on {run.hardware} (compared: {', '.join(map(str, degrees))})"
    rates = [rate for other in on_gpu for rate in other.rates]
    for name, value, values in (
        ("requests per second and instance", run.rate, rates),
        ("prompt tokens on average", run.prompt_tokens, [o.prompt_tokens for o in on_gpu]),
        ("output tokens on average", run.output_tokens, [o.output_tokens for o in on_gpu]),
    ):
        # fewer requests than in any run are an easier load, not another one
        low = 0.0 if values is rates else min(values, default=0.0) / MARGIN
        if values and not low <= value <= max(values) * MARGIN:
            ends = dict.fromkeys((_short(min(values)), _short(max(values))))
            yield f"{_short(value)} {name} (compared: {' to '.join(ends)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _unstable(run: RunFacts) -> Iterator[str]:
    full_batch = run.peak_running > FULL_BATCH * run.max_running
    full_cache = run.peak_kv_use > FULL_CACHE
    if full_batch:
        yield f"up to {run.peak_running} of {run.max_running} places in the batch were taken"
    if full_cache:
        yield f"up to {100 * run.peak_kv_use:.0f} % of the KV blocks were in use"
    if full_batch or full_cache:
        yield "compare other seeds, and --latency-option scale=0.95 and scale=1.05"
