"""A Dask cluster: one that runs somewhere, or one on this machine for as long as the sweep."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import Any

from distributed import Client, KilledWorker, LocalCluster, as_completed

from blis_core.api import BlisError
from blis_sweep.worker import Outcome, Setup, Task, lost, run_task


class DaskCluster:
    """Tasks of a Dask cluster.

    Dask itself runs a task again whose worker has died, and gives it up when it has outlived as
    many workers as the scheduler allows (``distributed.scheduler.allowed-failures``).
    """

    def __init__(self, jobs: int, address: str = "") -> None:
        self._jobs = jobs
        self._address = address

    @property
    def slots(self) -> int:
        """Workers of the cluster on this machine; 0 for one that runs elsewhere."""
        return 0 if self._address else self._jobs

    def run(self, setup: Setup, tasks: Sequence[Task]) -> Generator[Outcome]:
        """The outcome of each task, as they end."""
        with ExitStack() as stack:
            client = self._client(stack)
            futures = client.map(run_task, [setup] * len(tasks), tasks, pure=False)
            by_key = {future.key: task for future, task in zip(futures, tasks, strict=True)}
            for future in as_completed(futures):
                yield _outcome(future, by_key.pop(future.key))
                future.release()

    def _client(self, stack: ExitStack) -> Any:
        if self._address:
            try:
                return stack.enter_context(Client(self._address))
            except OSError as problem:
                raise BlisError(
                    f"no Dask cluster at --address {self._address}: {problem}"
                ) from None
        cluster = LocalCluster(
            n_workers=self._jobs,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        )
        return stack.enter_context(Client(stack.enter_context(cluster)))


def _outcome(future: Any, task: Task) -> Outcome:
    if future.status == "finished":
        outcome: Outcome = future.result()
        return outcome
    error = future.exception() if future.status == "error" else future.status
    if isinstance(error, KilledWorker):
        return lost(task, f"its workers died, one after the other: {error}")
    raise BlisError(f"the Dask cluster has given up its tasks: {error}")
