"""A Ray cluster: one that runs somewhere, or one on this machine for as long as the sweep."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import ray
from ray import exceptions

from blis_core.api import BlisError
from blis_sweep.worker import Outcome, Setup, Task, lost, run_task

AHEAD: Final = 2
"""Tasks that are handed out per CPU, so that nobody waits for work."""


class RayCluster:
    """Tasks of a Ray cluster. Ray runs a task again, once, whose worker has died."""

    def __init__(self, jobs: int, address: str = "") -> None:
        self._jobs = jobs
        self._address = address

    @property
    def slots(self) -> int:
        """CPUs of the cluster on this machine; 0 for one that runs elsewhere."""
        return 0 if self._address else self._jobs

    def run(self, setup: Setup, tasks: Sequence[Task]) -> Generator[Outcome]:
        """The outcome of each task, as they end."""
        with self._connected():
            call = ray.remote(num_cpus=1, max_retries=1)(run_task)
            shared = ray.put(setup)
            waiting = deque(tasks)
            under_way: dict[Any, Task] = {}
            while waiting or under_way:
                cpus = int(ray.cluster_resources().get("CPU", 1))
                while waiting and len(under_way) < AHEAD * cpus:
                    task = waiting.popleft()
                    under_way[call.remote(shared, task)] = task
                for done in ray.wait(list(under_way), num_returns=1)[0]:
                    yield _outcome(done, under_way.pop(done))

    @contextmanager
    def _connected(self) -> Iterator[None]:
        if ray.is_initialized():  # by whoever calls from Python
            yield
            return
        options: dict[str, Any] = {"address": self._address}
        if not self._address:
            options = {"address": "local", "num_cpus": self._jobs, "include_dashboard": False}
        try:
            ray.init(**options, logging_level=logging.ERROR, log_to_driver=False)
        except ConnectionError as problem:
            raise BlisError(f"no Ray cluster at --address {self._address}: {problem}") from None
        try:
            yield
        finally:
            ray.shutdown()


def _outcome(done: Any, task: Task) -> Outcome:
    try:
        outcome: Outcome = ray.get(done)
    except (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError) as problem:
        return lost(task, f"its worker died twice: {str(problem).partition('.')[0]}")
    except exceptions.RayError as problem:
        raise BlisError(f"the Ray cluster has given up its tasks: {problem}") from None
    return outcome
