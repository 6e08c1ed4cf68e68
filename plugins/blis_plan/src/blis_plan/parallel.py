"""Trials in several processes, each of which has the same plugins as this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from blis_core.api import BlisError, configure_plugins, plugin_settings, set_log_level

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def in_parallel(
    work: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    jobs: int,
    on_done: Callable[[], None] = lambda: None,
) -> list[Outcome | str]:
    """``work`` of every task, in order; a text says why one failed. No failure harms the others."""
    found: list[Outcome | str] = [""] * len(tasks)
    if jobs == 1 or len(tasks) < 2:
        for place, task in enumerate(tasks):
            found[place] = _guarded(work, task)
            on_done()
        return found
    from joblib import Parallel, delayed

    settings = plugin_settings()
    calls = (delayed(_remote)(place, work, task, settings) for place, task in enumerate(tasks))
    runner = Parallel(n_jobs=jobs, backend="loky", return_as="generator_unordered", batch_size=1)
    for place, outcome in runner(calls):
        found[place] = outcome
        on_done()
    return found


def end_workers() -> None:
    """End the processes, which otherwise wait for more work until this one ends."""
    import sys

    if "joblib" in sys.modules:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)


def _remote(
    place: int,
    work: Callable[[Task], Outcome],
    task: Task,
    settings: Mapping[str, Any],
) -> tuple[int, Outcome | str]:
    configure_plugins(**settings)
    set_log_level("error")
    return place, _guarded(work, task)


def _guarded(work: Callable[[Task], Outcome], task: Task) -> Outcome | str:
    try:
        return work(task)
    except BlisError as problem:
        return str(problem)
    except Exception as problem:  # noqa: BLE001 - one candidate must not end the whole search
        return f"{type(problem).__name__}: {problem}"
