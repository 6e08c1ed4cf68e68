"""How well a client kept to its plan: the clock of a run, and what delayed its requests.

What a client measures is worth as much as its pace: a request that leaves late has not put its load
on the server when it should have, and a chunk that is read late looks slow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

_SAMPLE_S = 0.02
BUSY = 0.9
"""Share of a core above which the client itself is in doubt (it works on one)."""
LATE_MS = 10.0
"""99th percentile of the event loop's delay above which times of chunks are in doubt."""


class Clock:
    """Microseconds, both since the start of a run and as Unix epoch; never set back meanwhile."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()
        self._start = time.monotonic_ns()

    def start(self) -> None:
        """The run starts now."""
        self._start = time.monotonic_ns()

    def now(self) -> int:
        """us since the start."""
        return (time.monotonic_ns() - self._start) // 1000

    def wall(self) -> int:
        """us since the Unix epoch."""
        return (time.monotonic_ns() + self._offset) // 1000

    def epoch(self, time_us: int) -> int:
        """Unix epoch us of a time since the start."""
        return (self._start + self._offset) // 1000 + time_us


class Pacing:
    """Delays of one run, in us."""

    def __init__(self) -> None:
        self.late: list[int] = []
        """From the intended to the actual time, of each request that was sent."""
        self.waits: list[int] = []
        """Waits for a free place among the requests in flight, where there was one."""

    def sent(self, late_us: int) -> None:
        """A request was sent so late."""
        self.late.append(late_us)


class LoopWatch:
    """Watches how busy the client is: the delay of its event loop, and its share of a core."""

    def __init__(self) -> None:
        self._delays: list[float] = []
        self._began = (time.monotonic(), time.process_time())
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(_SAMPLE_S)
            self._delays.append((time.monotonic() - before - _SAMPLE_S) * 1e3)

    def stop(self) -> None:
        """End the watch."""
        self._task.cancel()

    @property
    def delay_ms(self) -> float:
        """99th percentile of the delay."""
        return percentile(self._delays, 99)

    @property
    def busy(self) -> float:
        """Share of one core that was used, since the start."""
        wall, cpu = self._began
        return (time.process_time() - cpu) / max(1e-9, time.monotonic() - wall)

    def complaint(self) -> str:
        """What is wrong with the client; empty if nothing is."""
        if self.busy > BUSY:
            return f"it kept a core {self.busy:.0%} busy"
        if self.delay_ms > LATE_MS:
            return f"it noticed what came in up to {self.delay_ms:.0f} ms late (99th percentile)"
        return ""


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` per cent of ``values`` lie; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))]
