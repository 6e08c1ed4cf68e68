"""Where the end-to-end error of a simulation comes from.

An end-to-end time is the time to the first token plus one inter-token time for each further token,
so the difference between two of them is, without a rest, the sum of three parts:

    sim_e2e - real_e2e = (sim_n - real_n) * sim_itl          other output lengths: the workload
                       + sim_ttft - real_ttft                waiting and prefill: the queue
                       + (real_n - 1) * (sim_itl - real_itl) decoding: the step time
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import attrs

from blis_core.records import Record


class Pair(NamedTuple):
    """One request, measured and simulated; times in us as the client saw them."""

    real_ttft: float
    real_e2e: float
    real_tokens: int
    sim_ttft: float
    sim_e2e: float
    sim_tokens: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Explanation(Record):
    """Mean differences, simulated minus measured, in us; the parts add up to ``e2e``."""

    requests: int
    e2e: float
    workload: float
    """From other numbers of output tokens."""
    queue: float
    """From the time to the first token: waiting, prefill, and what lies between the two ends."""
    step_time: float
    """From the time between tokens."""

    def summary(self) -> str:
        """One line, in ms."""
        parts = ", ".join(
            f"{name} {value / 1000:+.3f}"
            for name, value in (
                ("workload (output lengths)", self.workload),
                ("queue (time to first token)", self.queue),
                ("step time (between tokens)", self.step_time),
            )
        )
        return f"e2e error in ms, simulated - measured: {self.e2e / 1000:+.3f} = {parts}"


def explain(pairs: Sequence[Pair]) -> Explanation:
    """The parts of the error, as means over ``pairs`` (at least one)."""
    parts = [_parts(pair) for pair in pairs]
    workload, queue, step_time = (_mean(values) for values in zip(*parts, strict=True))
    return Explanation(
        requests=len(pairs),
        e2e=_mean(pair.sim_e2e - pair.real_e2e for pair in pairs),
        workload=workload,
        queue=queue,
        step_time=step_time,
    )


def _parts(pair: Pair) -> tuple[float, float, float]:
    queue = pair.sim_ttft - pair.real_ttft
    decoding = pair.sim_e2e - pair.sim_ttft
    sim_itl = decoding / (pair.sim_tokens - 1) if pair.sim_tokens > 1 else 0.0
    workload = (pair.sim_tokens - pair.real_tokens) * sim_itl if pair.real_tokens > 0 else 0.0
    return workload, queue, pair.sim_e2e - pair.real_e2e - queue - workload


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
