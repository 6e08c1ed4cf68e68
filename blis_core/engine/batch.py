"""The running batch of an instance, by aggregates.

A member in decode phase is described by the step at which it joined: its progress before step j is
``j - offset``. So the batch keeps a count and one sum for all decodes, a heap of the steps at which
members finish, and for each phase of the block size the members that need a KV block in such steps.
Nothing here is touched per token. Members in prefill, and those that a spent token budget leaves
idle ("parked"), are few and explicit.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush
from itertools import islice
from operator import attrgetter

from blis_core.contracts import KVSequence, Request
from blis_core.engine.steplog import StepLog
from blis_core.kv.chains import Chain

by_rank = attrgetter("rank")
PREFILL, DECODE, PARKED = 0, 1, 2


class Member(KVSequence):
    """A request in the running batch."""

    __slots__ = (
        "begun",
        "finish",
        "gaps",
        "opened",
        "phase",
        "progress",
        "ranges",
        "request",
        "target",
    )

    def __init__(
        self, request: Request, keys: Chain, rank: int, target: int, prefill: int = 0
    ) -> None:
        """``prefill``: tokens to compute before decoding, if they are more than the prompt."""
        # KVSequence.__init__ in line: there is a member for each admission
        self.keys = keys
        self.rank = rank
        self.tokens = request.tokens
        self.prompt_len = prefill or request.prompt_len
        self.decoding = self.held = self.tracked = False
        self.offset = self.start = self.stored = self.prompt_stored = self.shift = 0
        self.blocks = []
        self.layout = None
        self.request = request
        self.target = target
        """Progress at which the request is done."""
        self.phase = PREFILL
        self.progress = 0
        """Tokens processed; kept up to date only while not decoding."""
        self.finish = -1
        """While decoding: number of the last step."""
        self.begun = 0
        """While decoding: number of the first step of the current range."""
        self.opened = 0
        """While decoding: StepLog.total when the current range began."""
        self.ranges: list[tuple[int, int]] | None = None
        """Finished ranges of decode steps, if it was ever parked or suspended."""
        self.gaps: list[int] | None = None
        """Token latencies (us) that belong to no decode step: those across preemptions, if any."""


class RunningBatch:
    """Members of the batch, in order of admission (rank)."""

    def __init__(self, block_size: int, log: StepLog) -> None:
        self.members: dict[int, Member] = {}
        self.prefilling: list[Member] = []
        """Those whose prompt is not complete after the step at hand."""
        self.parked: list[Member] = []
        self.groups: list[list[Member]] = [[] for _ in range(block_size)]
        """groups[k]: decodes that need a block in steps congruent to k, by rank."""
        self.decodes = 0
        self.context = 0
        """Sum of the progress of all decodes before the next step."""
        self.last_rank = 0
        """No decode has a larger rank."""
        self.version = 0
        """Changes whenever a decode joins or leaves."""
        self.log = log
        """``log.steps`` is the number of the next step."""
        self._block_size = block_size
        self.finishing: list[tuple[int, int, Member]] = []
        """A heap: number of a decode's last step, its rank, and itself; also of some who left."""

    def begin_decode(self, member: Member, progress: int) -> None:
        """From the next step on the member decodes."""
        log, rank = self.log, member.rank
        member.begun = step = log.steps
        member.opened = log.total
        member.offset = offset = step - progress
        member.finish = finish = member.target + offset - 1
        member.phase = DECODE
        member.decoding = True
        # a member that was parked may be in the heap twice, which is harmless: it equals itself
        heappush(self.finishing, (finish, rank, member))
        group = self.groups[(offset - member.shift) % self._block_size]
        if group and group[-1].rank > rank:
            insort(group, member, key=by_rank)
        else:
            group.append(member)
        self.version += 1
        self.decodes += 1
        self.context += progress
        if rank > self.last_rank:
            self.last_rank = rank

    def end_decode(self, member: Member) -> None:
        """Stop decoding before the next step; ``progress`` is set, the range of steps ends."""
        log, request, offset = self.log, member.request, member.offset
        step = log.steps
        member.progress = progress = step - offset
        member.finish = -1
        self.groups[(offset - member.shift) % self._block_size].remove(member)
        self.version += 1
        self.decodes -= 1
        self.context -= progress
        request.itl_sum += log.total - member.opened
        request.itl_count += step - member.begun
        if member.ranges is not None:
            member.ranges.append((member.begun, step))

    def park(self, member: Member) -> None:
        """Keep a decode in the batch without giving it tokens."""
        if member.ranges is None:
            member.ranges = []
        self.end_decode(member)
        member.phase = PARKED
        member.decoding = False
        member.stored = member.progress
        insort(self.parked, member, key=by_rank)

    def unpark_all(self) -> None:
        """Let all parked members decode again."""
        parked, self.parked = self.parked, []
        for member in parked:
            self.begin_decode(member, member.progress)

    def only_tail_parked(self, active: int) -> bool:
        """Whether exactly the first ``active`` members decode and all others are parked."""
        if self.decodes != active or len(self.members) <= active:
            return False
        return next(islice(self.members.values(), active, None)) is self.parked[0]

    def quiet_steps(self) -> int:
        """How many of the next steps neither take nor fill a KV block (less than a block size)."""
        size, step = self._block_size, self.log.steps
        quiet = 0
        while quiet < size - 1 and not (
            self.groups[(step + quiet) % size] or self.groups[(step + quiet + 1) % size]
        ):
            quiet += 1
        return quiet

    def next_finish(self) -> int:
        """Number of the step in which the next decode finishes (there must be a decode)."""
        heap = self.finishing
        while heap[0][2].finish != heap[0][0]:
            heappop(heap)
        return heap[0][0]

    def first_decode(self, member: Member) -> int:
        """Number of the first step in which a member that has left decoded (it must have)."""
        for start, stop in member.ranges or ():
            if stop > start:
                return start
        return member.begun

    def finished(self, step: int) -> list[Member]:
        """Decodes whose last step was ``step``, by rank; they are taken out of the heap only."""
        heap = self.finishing
        done: list[Member] = []
        while heap and heap[0][0] <= step:
            finish, _, member = heappop(heap)
            if member.finish == finish:
                member.finish = -1
                done.append(member)
        return done

    def remove(self, member: Member) -> None:
        """Take a member out of the batch, whatever its phase."""
        if member.phase == DECODE:
            self.end_decode(member)
        elif member.phase == PREFILL:
            if member in self.prefilling:
                self.prefilling.remove(member)
        else:
            self.parked.remove(member)
        del self.members[member.rank]
