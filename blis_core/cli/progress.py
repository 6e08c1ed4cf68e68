"""A progress bar on stderr for long simulations.

A thread looks at counters from time to time, so the simulation itself does nothing for it beyond
counting the requests that it draws, and only if there is a terminal to show the bar on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from blis_core.contracts import MAX_INT64

if TYPE_CHECKING:
    from blis_core.cluster.simulation import Cluster
    from blis_core.contracts import Request

DELAY_S = 1.0
"""Runs that end sooner show nothing."""
INTERVAL_S = 0.2


class RunWatcher:
    """Shows how far a simulation is: requests done, simulated time, time to go."""

    def __init__(self, delay_s: float = DELAY_S, interval_s: float = INTERVAL_S) -> None:
        self._delay_s = delay_s
        self._interval_s = interval_s
        self._over = threading.Event()
        self._drawn = 0
        self._latest = 0  # arrival of the request drawn last, us

    @contextmanager
    def watching(
        self, cluster: Cluster, requests: Iterable[Request], expected: int, horizon: int
    ) -> Iterator[Iterable[Request]]:
        """Show progress meanwhile; gives the requests to simulate instead of ``requests``.

        ``expected`` is the number of requests, 0 = not known; ``horizon`` in us.
        """
        self._over.clear()
        thread = threading.Thread(
            target=self._show, args=(cluster, expected, horizon), daemon=True, name="progress"
        )
        thread.start()
        try:
            yield self._counted(requests)
        finally:
            self._over.set()
            thread.join()

    def _counted(self, requests: Iterable[Request]) -> Iterator[Request]:
        for request in requests:
            self._drawn += 1
            self._latest = request.arrival
            yield request

    def _show(self, cluster: Cluster, expected: int, horizon: int) -> None:
        """The thread."""
        started = time.monotonic()
        if self._over.wait(self._delay_s):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[rest]}"),
            console=Console(file=sys.stderr),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
        )
        with bar:
            task = bar.add_task(self._description(cluster, expected), total=None, rest="")
            while True:
                share = self._share(cluster, expected, horizon)
                passed = time.monotonic() - started
                rest = f"{_duration(passed / share - passed)} to go" if share > 0.01 else ""
                bar.update(
                    task,
                    description=self._description(cluster, expected),
                    total=1.0 if share else None,
                    completed=share,
                    rest=rest,
                )
                bar.refresh()
                if self._over.wait(self._interval_s):
                    return

    def _share(self, cluster: Cluster, expected: int, horizon: int) -> float:
        """Which part of the work is done, in [0, 1]; 0 = not known.

        Requests may all be drawn before the first one is simulated, so both count.
        """
        if expected:
            return min(1.0, (self._drawn + _finished(cluster)) / (2 * expected))
        if horizon < MAX_INT64:
            return min(1.0, (self._latest + _clock(cluster)) / (2 * horizon))
        return 0.0

    def _description(self, cluster: Cluster, expected: int) -> str:
        done, clock = _finished(cluster), _clock(cluster)
        if not done:
            return f"{self._drawn:,} requests drawn"
        of = f" of {expected:,}" if expected else ""
        return f"{done:,}{of} requests, {_duration(clock / 1e6)} simulated"


def _finished(cluster: Cluster) -> int:
    """Requests that completed, timed out or were dropped."""
    return sum(instance.finished for instance in list(cluster.instances))


def _clock(cluster: Cluster) -> int:
    """Time of the latest event of any instance, in us."""
    return max((instance.clock for instance in list(cluster.instances)), default=0)


def _duration(seconds: float) -> str:
    """For example 42 s, 3:05 min, 2:10 h."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60:,}:{minutes % 60:02d} h"
