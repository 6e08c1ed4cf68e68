"""What runs in a worker process: one simulation after the other.

It imports no more than a simulation needs. Nothing that goes wrong in a simulation ends the worker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from blis_core.api import (
    BlisError,
    ReplayConfig,
    RunConfig,
    configure_plugins,
    plugin_settings,
    set_log_level,
    simulate,
)
from blis_sweep.identity import code_identity
from blis_sweep.metrics import measure, traffic_digest
from blis_sweep.store import Finished

if TYPE_CHECKING:
    from blis_sweep.options import Options

_LOOK_S: Final = 1.0
"""Seconds between two looks at whether the sweep is still there."""


@attrs.frozen(kw_only=True)
class Setup:
    """What is the same for all tasks of a sweep."""

    code: str
    """Digest of the code that the results are attributed to."""
    plugin_files: tuple[tuple[str, bytes], ...] = ()
    """Path and contents of each plugin that is a file."""
    disabled: tuple[str, ...] = ()
    """Plugins that are left out."""


@attrs.frozen(kw_only=True)
class Task:
    """One simulation."""

    index: int
    replays: bool
    options: Options


@attrs.frozen(kw_only=True)
class Outcome:
    """What came of a task."""

    index: int
    finished: Finished | None = None
    """None = it failed."""
    error: str = ""
    seconds: float = 0.0
    """How long the worker was busy with it."""


def run_task(setup: Setup, task: Task) -> Outcome:
    """Simulate. Whatever goes wrong becomes an outcome."""
    start = time.perf_counter()
    finished, error = None, ""
    try:
        # What foreign code prints must not mix with the results of the sweep.
        with contextlib.redirect_stdout(sys.stderr):
            _prepare(setup)
            finished = _simulated(task)
    except BlisError as problem:
        error = str(problem)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - plugins may raise anything
        error = f"{type(problem).__name__}: {problem}"
    return Outcome(
        index=task.index,
        finished=finished,
        error=" ".join(error.split()),
        seconds=time.perf_counter() - start,
    )


def _simulated(task: Task) -> Finished:
    # With a trace output the results list what was generated. Nothing is written by simulate.
    options = {**task.options, "trace_output": "-"}
    config = ReplayConfig(**options) if task.replays else RunConfig(**options)
    results = simulate(config)
    return Finished(
        metrics=measure(results),
        traffic=traffic_digest(results.generated),
        warnings=tuple(results.warnings),
    )


# ------------------------------------------------------------------------- the worker process

_prepared: Setup | None = None


def _prepare(setup: Setup) -> None:
    """Load the plugins of the sweep, once per process; BlisError if the code is not the same."""
    global _prepared
    if setup == _prepared:
        return
    set_log_level("error")
    files = [_local_copy(path, contents) for path, contents in setup.plugin_files]
    configure_plugins(files=files, disabled=setup.disabled)
    if code_identity() != setup.code:
        raise BlisError(
            "the worker has other versions of blis-core or of plugins than the sweep; install the"
            " same ones"
        )
    _prepared = setup


def _local_copy(path: str, contents: bytes) -> Path:
    """A file with these contents: ``path`` itself, where it is that."""
    given = Path(path)
    with contextlib.suppress(OSError):
        if given.read_bytes() == contents:
            return given
    copy = Path(tempfile.mkdtemp(prefix="blis-sweep-")) / given.name
    copy.write_bytes(contents)
    return copy


def start_worker(parent: int) -> None:
    """Make a child of the process ``parent`` a worker: it ends soon after its parent, however that
    ended, and leaves interrupts to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "win32":  # there a process does not learn that its parent has ended
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="blis-sweep-watch").start()


def lost(task: Task, reason: str) -> Outcome:
    """The outcome of a task that took its worker along."""
    return Outcome(index=task.index, error=reason)


def setup_here(code: str) -> Setup:
    """A setup like that of this process, whose code has the digest ``code``."""
    settings = plugin_settings()
    return Setup(
        code=code,
        plugin_files=tuple((path, Path(path).read_bytes()) for path in settings["files"]),
        disabled=tuple(settings["disabled"]),
    )
