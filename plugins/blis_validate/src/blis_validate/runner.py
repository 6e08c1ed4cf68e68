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
from blis_validate.scenario import (
    Settings,
    configure,
    prompt_length,
    stage_sizes,
    unsupported,
)


@attrs.frozen(kw_only=True)
class Outcome:
    """What came of the simulation of one record."""

    id: str
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


def run_record(record: Record, prompt_tokens: float, folder: Path, settings: Settings) -> Outcome:
    """Simulate one record. What the latency model refuses ends as a reason, not as an error."""
    reason = unsupported(record)
    if reason:
        return Outcome(id=record.id, reason=reason)
    with tempfile.TemporaryDirectory(prefix="blis-validate-") as name:
        config = configure(record, prompt_tokens, folder, Path(name), settings)
        try:
            results = simulate(config)
        except BlisError as problem:
            return Outcome(id=record.id, reason=str(problem))
    requests = results.requests
    if not requests:
        return Outcome(id=record.id, reason="no request was small enough to be served")
    whole, stages = simulated_figures(requests, stage_sizes(record), record.workload.stages)
    estimate = _estimated_blocks(config)
    blocks = config.total_kv_blocks or estimate
    return Outcome(
        id=record.id,
        figures=whole,
        stages=tuple(stages),
        warnings=tuple(results.warnings),
        kv_blocks=estimate,
        prompt_tokens=sum(r.prompt_len for r in requests) / len(requests),
        output_tokens=sum(r.output_len for r in requests) / len(requests),
        peak_kv_use=results.cluster.peak_used_blocks / blocks if blocks else 0.0,
    )


def run_records(
    records: Sequence[Record],
    every: Sequence[Record],
    folder: Path,
    settings: Settings,
    jobs: int,
    on_done: Callable[[Outcome], None],
) -> list[Outcome]:
    """Simulate ``records`` in ``jobs`` processes; outcomes in the order of the records.

    ``every`` are the records of the whole data set, from which missing prompt lengths are taken.
    """
    tasks = [(record, prompt_length(record, every), folder, settings) for record in records]
    found: dict[str, Outcome] = {}
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            found[task[0].id] = outcome = run_record(*task)
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
                found[outcome.id] = outcome
                on_done(outcome)
    return [found[record.id] for record in records]


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
