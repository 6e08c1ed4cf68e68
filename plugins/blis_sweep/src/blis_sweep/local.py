"""Local processes, by joblib. A worker that is killed takes no other run along."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import ProcessPoolExecutor, get_reusable_executor

from blis_sweep.worker import Outcome, Setup, Task, lost, run_task, start_worker

if TYPE_CHECKING:
    from collections.abc import Callable

KILLED = (
    "its worker process was killed, with no other run in it; the system may have run out of memory"
)


class LocalProcesses:
    """Worker processes that live as long as the sweep, each with one task at a time.

    When a process is killed, joblib ends all of them and does not say whose task it was. So the
    tasks that had been handed out, whether they had started or not, are run again, each in a
    process of its own: what dies there has failed. The others go on in new workers.
    """

    def __init__(self, jobs: int) -> None:
        self.slots = jobs
        # A worker whose memory has grown is replaced between two tasks, as it should be.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")

    def run(self, setup: Setup, tasks: Sequence[Task]) -> Generator[Outcome]:
        """The outcome of each task, as they end."""
        waiting = deque(tasks)
        workers = min(self.slots, len(tasks))
        try:
            while waiting:
                suspects: dict[int, Task] = {}
                try:
                    for outcome in self._pool(workers, setup, waiting, suspects):
                        del suspects[outcome.index]
                        yield outcome
                except BrokenProcessPool:
                    yield from self._alone(setup, list(suspects.values()))
        finally:
            # Otherwise they would wait for more to do for minutes.
            get_reusable_executor().shutdown(wait=True, kill_workers=True)

    def _pool(
        self, workers: int, setup: Setup, waiting: deque[Task], given: dict[int, Task]
    ) -> Iterator[Outcome]:
        """Move tasks from ``waiting`` to ``given``, and yield their outcomes."""
        call: Callable[..., Any] = delayed(run_task)

        def calls() -> Iterator[Any]:
            while waiting:
                task = waiting.popleft()
                given[task.index] = task
                yield call(setup, task)

        outcomes: Iterator[Outcome]
        # One job means "in this process" to joblib, where a killed worker would end the sweep. So
        # there are two processes in that case, and one task at a time.
        with parallel_config("loky", initializer=start_worker, initargs=(os.getpid(),)):
            outcomes = Parallel(
                n_jobs=max(2, workers),
                return_as="generator_unordered",
                batch_size=1,  # whatever has finished is known at once
                pre_dispatch=1 if workers == 1 else 2 * workers,  # nobody waits for work
                max_nbytes=None,
            )(calls())
        yield from outcomes

    def _alone(self, setup: Setup, tasks: Sequence[Task]) -> Iterator[Outcome]:
        pools: list[ProcessPoolExecutor] = []

        def outcome_of(task: Task) -> Outcome:
            pool = ProcessPoolExecutor(1, initializer=start_worker, initargs=(os.getpid(),))
            pools.append(pool)
            with pool:
                try:
                    outcome: Outcome = pool.submit(run_task, setup, task).result()
                except BrokenProcessPool:
                    return lost(task, KILLED)
            return outcome

        with ThreadPoolExecutor(self.slots) as threads:
            try:
                for future in as_completed([threads.submit(outcome_of, task) for task in tasks]):
                    yield future.result()
            finally:  # at once, if the sweep is interrupted
                threads.shutdown(wait=False, cancel_futures=True)
                for pool in pools:
                    pool.shutdown(wait=False, kill_workers=True)
