"""Durations of coming decode steps, valid as long as the batch keeps its members."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from blis_core.contracts import MAX_INT64, BatchShape, LatencyModel, PrefillChunk

if TYPE_CHECKING:
    Times = array[int]
"""Integers that cost nothing to slice and to append to others."""

NEVER = MAX_INT64 + 1  # after every time that can occur
FEW = 6  # fewer steps are cheaper one by one than as an array

batch_shape: Callable[[tuple[Any, int, int]], BatchShape] = partial(tuple.__new__, BatchShape)
"""A BatchShape of a tuple; quicker than the class, which is called in Python."""
prefill_chunk: Callable[[tuple[int, int, int]], PrefillChunk] = partial(tuple.__new__, PrefillChunk)
"""The same for a PrefillChunk."""


class Plan(NamedTuple):
    """Consecutive decode steps. Times in us."""

    version: int
    """Of the batch (see RunningBatch.version)."""
    first: int
    """Number of the first step."""
    starts: Times
    """When each step begins, and when the last one ends."""
    token_times: Times
    """Inter-token latency of each step."""

    def place(self, version: int, step: int, now: int) -> int:
        """Place of step number ``step``, due at ``now``; -1 if the plan does not cover it."""
        k = step - self.first
        if version == self.version and k < len(self.token_times) and self.starts[k] == now:
            return k
        return -1


_plan: Callable[[tuple[int, int, Times, Times]], Plan] = partial(tuple.__new__, Plan)


def make_plan(
    latency: LatencyModel,
    overhead: int,
    *,
    version: int,
    first: int,
    now: int,
    decodes: int,
    context: int,
    steps: int,
) -> Plan:
    """A plan of ``steps`` steps of ``decodes`` members from ``now`` on.

    ``context`` is the sum of their contexts, ``overhead`` what a token takes beyond its step (us).
    """
    if steps < FEW:
        step_time = latency.step_time
        few = [
            time if (time := step_time(batch_shape(((), decodes, total)))) > 0 else 1
            for total in range(context, context + decodes * steps, decodes)
        ]
        starts = array("q", accumulate(few, initial=now))
        return _plan((version, first, starts, array("q", [t + overhead for t in few])))
    times = latency.decode_times(decodes, context, steps)
    ends = times.cumsum()
    ends += now
    starts = array("q", (now,))
    starts.frombytes(ends.tobytes())
    token_times = array("q")
    token_times.frombytes((times + overhead if overhead else times).tobytes())
    return _plan((version, first, starts, token_times))
