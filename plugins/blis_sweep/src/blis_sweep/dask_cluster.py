"""A Dask cluster: one that runs somewhere, or one on this machine for as long as the sweep."""

from __future__ import annotations

import logging
import pickle
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from queue import Empty, Queue
from typing import Any, Final

import dask
from distributed import Client, KilledWorker, LocalCluster, get_worker

from blis_core.api import BlisError
from blis_sweep.worker import Outcome, Setup, Task, lost, run_task

LOOK_S: Final = 5.0
"""Seconds without any news after which workers that did not come back are replaced."""
PATIENCE: Final = 24
"""How often that is tried."""


class DaskCluster:
    """Tasks of a Dask cluster.

    Dask keeps results in its workers, and what a worker has finished dies with it. So each outcome
    is sent as an event, at once.

    Dask gives a task up when as many of its workers have died as the scheduler allows
    (``distributed.scheduler.allowed-failures``), even if it was only waiting there. Such tasks are
    run once more, one at a time: what is given up again has failed.
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
            sweep = _Sweep(self._client(stack), setup, self.slots)
            suspects = yield from sweep.outcomes(tasks)
            for task in suspects:
                sweep.await_workers()  # those that start may still fail, which is not its fault
                if (yield from sweep.outcomes([task])):
                    yield lost(
                        task, "its workers died again and again, also with nothing beside it"
                    )

    def _client(self, stack: ExitStack) -> Any:
        if self._address:
            try:
                return stack.enter_context(Client(self._address))
            except OSError as problem:
                raise BlisError(
                    f"no Dask cluster at --address {self._address}: {problem}"
                ) from None
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": 1}))
        cluster = LocalCluster(
            n_workers=self._jobs,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
        return stack.enter_context(Client(stack.enter_context(cluster)))


class _Sweep:
    """The tasks of one sweep on a cluster."""

    def __init__(self, client: Any, setup: Setup, workers: int) -> None:
        """``workers`` that the cluster should have; 0 = that is the business of others."""
        self._client = client
        self._setup = setup
        self._workers = workers
        self._topic = f"blis-sweep-{uuid.uuid4().hex}"
        self._news: Queue[Any] = Queue()
        """Outcomes, and futures that are done."""
        client.subscribe_topic(self._topic, lambda event: self._news.put(pickle.loads(event[1])))

    def outcomes(self, tasks: Sequence[Task]) -> Generator[Outcome, None, list[Task]]:
        """The outcome of each task, as they end. Returns the tasks that the cluster gave up."""
        ahead = {task.index: task for task in tasks}
        count = len(tasks)
        futures = self._client.map(
            _run_and_tell, [self._setup] * count, tasks, [self._topic] * count, pure=False
        )
        by_key = {future.key: task for future, task in zip(futures, tasks, strict=True)}
        for future in futures:
            future.add_done_callback(self._news.put)
        given_up = []
        while ahead:
            news = self._next()
            if isinstance(news, Outcome):
                if ahead.pop(news.index, None) is not None:  # not one that was done again
                    yield news
            elif news.status != "finished":
                task = by_key.get(news.key)
                if task is not None and ahead.pop(task.index, None) is not None:
                    given_up.append(task)
                    _check(news)
        return given_up

    def await_workers(self) -> None:
        """Wait until all workers are there, or time is up."""
        for _ in range(PATIENCE if self._workers else 0):
            with suppress(TimeoutError):
                self._client.wait_for_workers(self._workers, timeout=LOOK_S)
                return
            self._client.cluster.scale(self._workers)

    def _next(self) -> Any:
        """What comes next. Meanwhile, take care of the workers.

        Dask itself starts a worker again that has died, but not if that happens while it starts.
        """
        alone = 0
        while True:
            try:
                return self._news.get(timeout=LOOK_S)
            except Empty:
                if self._workers:
                    alone = 0 if self._client.scheduler_info()["workers"] else alone + 1
                    self._client.cluster.scale(self._workers)
            if alone > PATIENCE:
                raise BlisError("all workers of Dask have died, and none came back")


def _check(future: Any) -> None:
    """Raise BlisError unless a future has failed because its workers died."""
    error = future.exception() if future.status == "error" else future.status
    if not isinstance(error, KilledWorker):
        raise BlisError(f"the Dask cluster has given up its tasks: {error}")


def _run_and_tell(setup: Setup, task: Task, topic: str) -> None:
    """What a worker of Dask does with a task."""
    outcome = run_task(setup, task)
    get_worker().log_event(topic, pickle.dumps(outcome))
