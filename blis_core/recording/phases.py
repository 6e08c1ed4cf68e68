"""What a request may be doing at a time, and how these phases add up to the parts of its life."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Phase(IntEnum):
    """What a request is doing. The numbers are those of the files."""

    ROUTING = 0
    """On its way to an instance: latencies of admission and routing."""
    GATEWAY = 1
    """Held by the gateway while the fleet is saturated."""
    INTAKE = 2
    """At its instance, before it reaches the wait queue (the latency model's queueing time)."""
    QUEUE = 3
    """In the wait queue, for the first time there."""
    PREFILL = 4
    """In the batch; its prompt is being computed."""
    DECODE = 5
    """In the batch, a token per step."""
    STALLED = 6
    """In the batch without a token: the token budget of the steps was spent on others."""
    PREEMPTED = 7
    """Back in the wait queue, without its KV blocks."""
    RECOMPUTE = 8
    """In the batch; what a preemption has thrown away is being prefilled once more."""
    DISCARDED = 9
    """In the batch; work that a later preemption threw away."""
    TRANSFER = 10
    """Its KV cache moves from a prefill to a decode instance."""


PARTS: Final = (
    "routing",
    "gateway",
    "intake",
    "queue",
    "prefill",
    "decode",
    "stalled",
    "preemption",
    "transfer",
    "output",
)
"""The parts of an end-to-end latency, in order of time. ``output`` (the processing of output
tokens) lies on no clock: the engine does it while its next step runs."""

PART_OF: Final = {
    Phase.ROUTING: "routing",
    Phase.GATEWAY: "gateway",
    Phase.INTAKE: "intake",
    Phase.QUEUE: "queue",
    Phase.PREFILL: "prefill",
    Phase.DECODE: "decode",
    Phase.STALLED: "stalled",
    Phase.PREEMPTED: "preemption",
    Phase.RECOMPUTE: "preemption",
    Phase.DISCARDED: "preemption",
    Phase.TRANSFER: "transfer",
}


class Outcome(IntEnum):
    """What became of a request. The numbers are those of the files."""

    UNFINISHED = 0
    """Under way when the simulation ended."""
    COMPLETED = 1
    TIMED_OUT = 2
    REJECTED = 3
    """Turned away by the admission, or over its tenant's budget."""
    SHED = 4
    """Discarded by a full gateway queue."""
    UNROUTABLE = 5
    """No instance serves its model."""
    UNSERVABLE = 6
    """Too long for its instance."""
    NO_ROOM = 7
    """No decode instance had room for its KV cache."""
    DRAINED = 8
    """Went with an instance that was drained at once."""
