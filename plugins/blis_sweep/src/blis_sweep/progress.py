"""How far a sweep is: a bar on a terminal, a line now and then elsewhere; all on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

from blis_sweep.worker import Outcome

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

FIRST_S: Final = 10.0
"""Seconds until the first line if there is no terminal,"""
EVERY_S: Final = 60.0
"""and between two lines."""


class Progress:
    """Counts what is done, and says so."""

    def __init__(self, total: int, *, shown: bool) -> None:
        """``total``: runs that are to be simulated. Unless ``shown``, it counts only."""
        self._shown = shown
        self.done = 0
        self.failed = 0
        self.busy_s = 0.0
        """What the workers have spent on the runs, in all."""
        self._total = total
        self._start = time.monotonic()
        self._next = self._start + FIRST_S
        self._first = 0.0
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    def __enter__(self) -> Progress:
        if self._shown and self._total and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("ETA"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("simulating", total=self._total)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, outcome: Outcome) -> None:
        """One run has ended."""
        self.done += 1
        self.failed += outcome.finished is None
        self.busy_s += outcome.seconds
        if self._bar is not None and self._task is not None:
            failed = f", {self.failed} failed" if self.failed else ""
            self._bar.update(self._task, advance=1, description=f"simulating{failed}")
            return
        now = time.monotonic()
        self._first = self._first or now
        if self._shown and now >= self._next and self.done > 1:
            self._next = now + EVERY_S
            # Counted from the first run that ended: to start a cluster takes its time.
            left = (now - self._first) / (self.done - 1) * (self._total - self.done)
            failed = f", {self.failed} failed" if self.failed else ""
            print(
                f"blis: sweep: {self.done} of {self._total} runs{failed}, about {_span(left)} left",
                file=sys.stderr,
                flush=True,
            )


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
