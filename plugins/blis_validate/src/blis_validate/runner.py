"""Simulates the records of a data set, one process per core."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import attrs

from blis_core.api import BlisError, SimulationConfig, resolve, set_log_level, simulate
from blis_validate.dataset import Record
from blis_validate.figures import Figures, simulated_figures
from blis_validate.per_request import RequestErrors, compare_requests
from blis_validate.scenario import (
    Settings,
    configure,
    listed_requests,
    prompt_length,
    stage_sizes,
    unsupported,
)
from blis_validate.stretching import stretched


@attrs.frozen(kw_only=True)
class Outcome:
    """What came of the simulation of one record."""

    id: str
    seed: int = 0
    """Of the arrivals."""
    figures: Figures | None = None
    """None = it was not simulated."""
    stages: tuple[Figures, ...] = ()
    reason: str = ""
    """Why it was not simulated."""
    warnings: tuple[str, ...] = ()
    """What the latency model says of its validity."""
    kv_blocks: int = 0
    """The latency model's own estimate; 0 = none."""
    prompt_tokens: float = 0.0
    """Mean prompt length that was simulated."""
    output_tokens: float = 0.0
    """Mean output length."""
    peak_kv_use: float = 0.0
    """Largest share of the KV blocks in use at once."""
    requests: RequestErrors | None = None
    """Errors of single requests; None if nobody measured single ones."""


def run_record(record: Record, prompt_tokens: float, folder: Path, settings: Settings) -> Outcome:
    """Simulate one record. What the latency model refuses ends as a reason, not as an error."""
    seed = settings.seed
    reason = unsupported(record)
    if reason:
        return Outcome(id=record.id, seed=seed, reason=reason)
    with tempfile.TemporaryDirectory(prefix="blis-validate-") as name:
        config = configure(record, prompt_tokens, folder, Path(name), settings)
        try:
            config = stretched(config, settings.stretch)
            results = simulate(config)
        except BlisError as problem:
            return Outcome(id=record.id, seed=seed, reason=str(problem))
    requests = results.requests
    if not requests:
        reason = "no request was small enough to be served"
        return Outcome(id=record.id, seed=seed, reason=reason)
    whole, stages = simulated_figures(requests, stage_sizes(record), record.workload.stages)
    estimate = _estimated_blocks(config)
    blocks = config.total_kv_blocks or estimate
    return Outcome(
        id=record.id,
        seed=seed,
        figures=whole,
        stages=tuple(stages),
        warnings=tuple(results.warnings),
        kv_blocks=estimate,
        prompt_tokens=sum(r.prompt_len for r in requests) / len(requests),
        output_tokens=sum(r.output_len for r in requests) / len(requests),
        peak_kv_use=results.cluster.peak_used_blocks / blocks if blocks else 0.0,
        requests=(
            compare_requests(listed_requests(record, folder), requests)
            if record.workload.trace
            else None
        ),
    )


def run_records(
    records: Sequence[Record],
    every: Sequence[Record],
    folder: Path,
    settings: Settings,
    seeds: Sequence[int],
    jobs: int,
    on_done: Callable[[Outcome], None],
) -> list[list[Outcome]]:
    """Simulate ``records`` with each of ``seeds`` in ``jobs`` processes.

    Returns the outcomes of each record in the order of the seeds. ``every`` are the records of the
    whole data set, from which missing prompt lengths are taken.
    """
    tasks = [
        (record, prompt_length(record, every), folder, attrs.evolve(settings, seed=seed))
        for record in records
        for seed in seeds
    ]
    found: dict[tuple[str, int], Outcome] = {}
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            outcome = run_record(*task)
            found[outcome.id, outcome.seed] = outcome
            on_done(outcome)
    else:
        # longest first, so that no core waits at the end
        order = sorted(tasks, key=lambda task: -_work(task[0]))
        with ProcessPoolExecutor(
            min(jobs, len(tasks)),
            mp_context=multiprocessing.get_context(_start_method()),
            initializer=set_log_level,
            initargs=("error",),
        ) as pool:
            futures = [pool.submit(run_record, *task) for task in order]
            for future in as_completed(futures):
                outcome = future.result()
                found[outcome.id, outcome.seed] = outcome
                on_done(outcome)
    return [[found[record.id, seed] for seed in seeds] for record in records]


def _start_method() -> str:
    """Forked processes know plugins that were loaded from files."""
    return "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"


def _work(record: Record) -> float:
    load = record.workload
    return load.num_requests * (load.output_tokens or load.output_tokens_mean or 1)


def _estimated_blocks(config: SimulationConfig) -> int:
    """KV blocks that the deployment would get if nobody said how many; 0 = not known."""
    try:
        return resolve(attrs.evolve(config, total_kv_blocks=None)).total_blocks
    except BlisError:
        return 0
