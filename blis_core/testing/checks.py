"""What the conformance classes share: failing with a reason, counting work, watching what is read.

Plain ``assert`` is not used: it would say nothing outside of a pytest module, and vanish with -O.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple, NoReturn

UNPREDICTABLE = (
    "draw only from the random stream that you are given, keep no state outside of the object, and"
    " do not iterate over sets"
)
"""Advice for what gives different results from the same input."""


def fail(message: str) -> NoReturn:
    """Fail the test at hand."""
    __tracebackhide__ = True
    raise AssertionError(message)


def require(holds: object, message: str) -> None:
    """Fail with ``message`` unless ``holds`` is true."""
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(message)


def require_whole(value: object, least: int, what: str) -> None:
    """Fail unless ``value`` is a Python integer of at least ``least``."""
    __tracebackhide__ = True
    require(
        type(value) is int,
        f"{what} returned {value!r} of type {type(value).__name__}; return a Python int, so that"
        " sums stay exact whatever their size",
    )
    require(isinstance(value, int) and value >= least, f"{what} returned {value}; at least {least}")


@contextmanager
def arrays_read_only(what: str) -> Iterator[None]:
    """Say what is wrong if the code inside writes to a read-only array."""
    try:
        yield
    except ValueError as error:
        if "read-only" in str(error):
            fail(
                f"{what} changes an array of the fleet view ({error}); all policies read the same"
                " arrays, so work on a copy"
            )
        raise


# ------------------------------------------------------------------------------------------ costs


class Cost(NamedTuple):
    """What a call takes, in units that do not depend on the machine."""

    steps: int
    """Byte codes and lines of Python that were executed."""
    memory: int
    """Most bytes that were allocated at once; sees vector operations, which are one step each."""

    def exceeds(self, other: Cost, factor: float = 1.0) -> bool:
        """Whether this is clearly more than ``factor`` times the other."""
        return self.steps > factor * (1.5 * other.steps + 200) or self.memory > factor * (
            1.5 * other.memory + 8192
        )

    def __str__(self) -> str:
        return f"{self.steps} steps of Python and {self.memory} bytes"


def cost(call: Callable[[], object]) -> Cost:
    """Count what ``call`` takes; what it loads or caches on first use should be there by now."""
    steps = 0

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True  # a loop within one line counts, too
        steps += 1
        return trace

    before, tracing = sys.gettrace(), tracemalloc.is_tracing()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    if not tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        at_first = tracemalloc.get_traced_memory()[0]
        call()
        peak = tracemalloc.get_traced_memory()[1] - at_first
    finally:
        if not tracing:
            tracemalloc.stop()
    return Cost(steps, max(0, peak))
