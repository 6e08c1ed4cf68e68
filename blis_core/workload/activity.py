"""When a client is active."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blis_core.workload.spec import Window


class Activity:
    """The union of one or more windows; ``time in activity`` asks whether it holds a time in us."""

    __slots__ = ("_ends", "_starts", "end", "first_start")

    def __init__(self, windows: tuple[Window, ...]) -> None:
        self.first_start = windows[0].start_us
        """Start of the window listed first, which need not be the earliest."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        for window in sorted(windows, key=lambda w: w.start_us):
            if self._ends and window.start_us <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], window.end_us)
            else:
                self._starts.append(window.start_us)
                self._ends.append(window.end_us)
        self.end = self._ends[-1]
        """End of the last window: from here on the client is never active again."""

    def __contains__(self, time: int) -> bool:
        i = bisect_right(self._starts, time)
        return i > 0 and time < self._ends[i - 1]
