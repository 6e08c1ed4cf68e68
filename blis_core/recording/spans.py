"""From notes to spans: what a request did from its arrival to its end, without gaps.

The spans of a request that ran in one piece are counted or not, as the engine counts: without the
rule ``recompute`` (see semantics) the first token that was generated counts as the first one even
if a preemption threw it away, and neither the wait after it nor the repeated work is part of any
latency. What a spent token budget makes a request wait is not, either, unless a preemption follows
after which the engine looks at the clock again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from blis_core.recording.phases import Outcome, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blis_core.recording.notes import Mark
    from blis_core.semantics import Semantics


class Span(NamedTuple):
    """One phase of a request."""

    begin: int
    """us."""
    end: int
    """us; more than ``begin``."""
    phase: Phase
    instance: int
    """Index; -1 = on none."""
    counted: bool = True
    """Whether it is part of the end-to-end latency that is reported."""


def divide(marks: Sequence[Mark], arrival: int, end: int) -> list[Span]:
    """The time from ``arrival`` to ``end``, divided by ``marks``; all of it counted.

    A mark cuts off what comes before it, so that some spans may be empty.
    """
    found: list[Span] = []
    limit = end
    for time, phase, instance in reversed(marks):
        begin = min(max(time, arrival), limit)
        found.append(Span(begin, limit, phase, instance))
        limit = begin
    found.reverse()
    if found:  # whatever the first mark says
        found[0] = found[0]._replace(begin=arrival)
    return found


def settle(whole: list[Span], outcome: Outcome, rules: Semantics) -> list[Span]:
    """Say of the spans of a request that ran in one piece what was repeated, and what counts."""
    settled: list[Span] = []
    first = False  # whether there is a first token that counts
    stay = 0  # place of the first span since the latest preemption
    for place, span in enumerate(whole):
        phase = span.phase
        if phase is Phase.PREEMPTED:
            first = first and (rules.recompute or not rules.late_first_token)
            for earlier in range(stay, len(settled)):
                was = settled[earlier]
                if was.phase is Phase.PREFILL and not first:
                    settled[earlier] = was._replace(phase=Phase.DISCARDED)
                elif was.phase in _DECODING and not rules.recompute:
                    settled[earlier] = was._replace(phase=Phase.DISCARDED, counted=False)
            settled.append(span._replace(counted=not first))
            stay = len(settled)
        elif phase is Phase.PREFILL:
            again = first
            settled.append(
                span._replace(phase=Phase.RECOMPUTE if again else phase, counted=not again)
            )
            last = place + 1 == len(whole)
            done = outcome is Outcome.COMPLETED if last else whole[place + 1].phase in _DECODING
            if done and (not again or rules.recompute):
                # the next latency reaches back to the arrival, or to the last token before
                settled = [each._replace(counted=True) for each in settled]
                first = True
        else:
            settled.append(span._replace(counted=phase is not Phase.STALLED))
    return settled


_DECODING = (Phase.DECODE, Phase.STALLED)


def settle_halves(whole: list[Span], rules: Semantics) -> list[Span]:
    """The same for a request that was prefilled in one place and decoded in another.

    Its latency is the time on the clock, so everything counts.
    """
    settled: list[Span] = []
    transferred = False
    stay = 0
    for span in whole:
        phase = span.phase
        if phase is Phase.PREEMPTED:
            for earlier in range(stay, len(settled)):
                was = settled[earlier].phase
                if was is Phase.PREFILL or (was in _DECODING and not rules.recompute):
                    settled[earlier] = settled[earlier]._replace(phase=Phase.DISCARDED)
        elif phase is Phase.PREFILL and transferred:
            span = span._replace(phase=Phase.RECOMPUTE)
        settled.append(span)
        if phase in (Phase.TRANSFER, Phase.PREEMPTED):
            transferred = transferred or phase is Phase.TRANSFER
            stay = len(settled)
    return settled
