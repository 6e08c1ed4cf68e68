"""What a preempted request keeps, if its generated tokens are to be recomputed (see semantics)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blis_core.contracts import Request

if TYPE_CHECKING:
    from blis_core.engine.batch import Member


class Suspended:
    """State of a request between a preemption and its return."""

    __slots__ = ("gaps", "length", "ranges")

    def __init__(self, length: int, ranges: list[tuple[int, int]], gaps: list[int] | None) -> None:
        self.length = length
        """Tokens to compute when it returns: the prompt and all output so far."""
        self.ranges = ranges
        """Ranges of its decode steps."""
        self.gaps = gaps
        """Token latencies outside of these, in us."""

    @classmethod
    def of(cls, member: Member, *, decoded: bool) -> Suspended:
        """The state of a member that has just left the batch.

        A decode has one token more than it has processed: the latest, which is still to be fed in.
        """
        length = member.progress + 1 if decoded else member.prompt_len
        return cls(length, member.ranges or [], member.gaps)

    def restore(self, member: Member) -> None:
        """Let a new member go on from here."""
        member.prompt_len = self.length
        member.ranges = self.ranges
        member.gaps = self.gaps


def prefill_length(request: Request) -> int:
    """Tokens that a waiting request needs before it decodes (on)."""
    state = request.engine
    return state.length if isinstance(state, Suspended) else request.prompt_len
