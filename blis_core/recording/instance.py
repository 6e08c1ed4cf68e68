"""An instance that takes notes: of its steps, and of what each request does there.

It overrides methods of the engine and does what they do, so that nothing changes but the time that
it takes. The engine itself knows nothing of notes and pays nothing for them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from blis_core.contracts import COMPLETED, TIMED_OUT, Request
from blis_core.engine.batch import DECODE, Member
from blis_core.engine.formation import BatchFormation
from blis_core.engine.instance import Instance
from blis_core.recording.phases import Outcome, Phase
from blis_core.recording.tables import STEP_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from blis_core.contracts import LatencyModel
    from blis_core.engine.formation import Limits
    from blis_core.engine.metrics import InstanceMetrics
    from blis_core.recording.notes import Note, Notes
    from blis_core.semantics import Semantics


class StepTable:
    """The steps of one instance, runs of decode steps in one row."""

    def __init__(self) -> None:
        self.columns = {name: array("q") for name in STEP_COLUMNS}
        self._firsts = array("q")  # number of the first step of each row
        self._appends = [self.columns[name].append for name in STEP_COLUMNS]

    def add(self, first: int, *values: int) -> None:
        """A row that begins with step number ``first``; ``values`` as STEP_COLUMNS."""
        self._firsts.append(first)
        for append, value in zip(self._appends, values, strict=True):
            append(value)

    def begin(self, step: int, otherwise: int) -> int:
        """When step number ``step``, the first of a row, began; ``otherwise`` if it has not."""
        row = bisect_left(self._firsts, step)
        begins = self.columns["begin"]
        return begins[row] if row < len(begins) else otherwise


class RecordedFormation(BatchFormation):
    """Batch formation that tells who was admitted and preempted."""

    def __init__(self, instance: RecordedInstance, *args: Any) -> None:
        super().__init__(*args)
        self._instance = instance
        self._newest = 0  # rank of the latest member
        self._now = 0
        self.prefill_tokens = 0
        """Of the step at hand; the instance sets it back."""
        self.decodes = -1
        """Members that decode in it; -1 = nothing was formed since the instance looked."""

    def form(self, now: int) -> tuple[list[tuple[Member, int]], list[tuple[Member, int]]]:
        self._now = now
        chunks, admitted = super().form(now)
        new = []
        for rank, member in reversed(self.batch.members.items()):
            if rank <= self._newest:
                break
            new.append(member)
        if new:
            self._newest = new[0].rank
            for member in reversed(new):
                self._instance.admitted(member, now)
        self.prefill_tokens = sum(tokens for _, tokens in chunks + admitted)
        self.decodes = self.batch.decodes
        return chunks, admitted

    def _preempt(self, member: Member, *, alone: bool) -> None:
        decoding = member.phase == DECODE
        self._instance.preempted(member, self._now, decoding=decoding)
        super()._preempt(member, alone=alone)


class RecordedInstance(Instance):
    """An instance that takes notes."""

    def __init__(self, name: str, *, notes: Notes, index: int, **parts: Any) -> None:
        super().__init__(name, **parts)
        self._watched = True
        self.notes = notes
        self.index = index
        self.steps = StepTable()
        self._logged = 0  # steps and us of the log that are in the table
        self._logged_us = 0
        self._closing = 0  # when the members that leave at present do so
        self._stepped = 0  # end of the latest step
        self._formation: RecordedFormation = RecordedFormation(
            self,
            self.batch,
            self.waiting,
            self.store,
            self._chains,
            self._limits,
            self.metrics,
            self._preempted_alone,
            self._semantics,
        )

    @property
    def kind(self) -> tuple[LatencyModel, Limits, Semantics]:
        """Instances of one kind take the same time for the same batch."""
        return self.latency, self._limits, self._semantics

    def target(self, request: Request) -> int:
        """Tokens of ``request`` that are processed when it is done."""
        return self._formation.target(request)

    # ------------------------------------------------------------------------------ arrivals

    def inject(self, request: Request, time: int) -> None:
        self.notes.of(request).mark(time, Phase.INTAKE, self.index)
        super().inject(request, time)

    def inject_all(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.inject(request, request.arrival)

    def inject_transferred(self, request: Request, time: int) -> None:
        self.notes.of(request).mark(time, Phase.QUEUE, self.index)
        super().inject_transferred(request, time)

    def _enqueue(self, request: Request, now: int) -> None:
        self.notes.of(request).mark(now, Phase.QUEUE, self.index)
        super()._enqueue(request, now)

    # ----------------------------------------------------------------------------- the batch

    def admitted(self, member: Member, now: int) -> None:
        """``member`` joins the batch at ``now``, before any of its tokens are computed."""
        note = self.notes.of(member.request)
        decoding = member.phase == DECODE
        if note.first_step < 0 and not decoding:
            note.cached = member.progress
        note.first_step = self.log.steps
        note.mark(now, Phase.DECODE if decoding else Phase.PREFILL, self.index)

    def preempted(self, member: Member, now: int, *, decoding: bool) -> None:
        """``member`` is about to lose its place and its blocks at ``now``."""
        note = self.notes.of(member.request)
        self._close_stay(note, member, now, decoding=decoding)
        note.preemptions += 1
        note.mark(now, Phase.PREEMPTED, self.index)

    def _close_stay(self, note: Note, member: Member, now: int, *, decoding: bool) -> None:
        """Note when a member decoded that leaves the batch at ``now``."""
        ranges = [r for r in member.ranges or () if r[0] >= note.first_step]
        if decoding:
            ranges.append((member.begun, self.log.steps))
        for start, stop in ranges:
            note.mark(min(self.steps.begin(start, now), now), Phase.DECODE, self.index)
            note.mark(min(self.steps.begin(stop, now), now), Phase.STALLED, self.index)

    def _complete(self, done: list[Member], now: int, duration: int) -> None:
        """After each step or run of steps, before its members leave."""
        log, formation, end = self.log, self._formation, now + duration
        count = log.steps - self._logged
        lasted = log.total - self._logged_us - count * self._output_time
        decodes = self.batch.decodes if formation.decodes < 0 else formation.decodes
        self.steps.add(
            self._logged,
            end - lasted,
            lasted,
            count,
            len(self.batch.members),
            self.waiting.count,
            self.store.used_blocks,
            formation.prefill_tokens,
            decodes * count,
        )
        formation.prefill_tokens, formation.decodes = 0, -1
        self._logged, self._logged_us = log.steps, log.total
        self._closing = self._stepped = end
        super()._complete(done, now, duration)

    def _time_out(self, request: Request, now: int) -> None:
        self._closing = now
        super()._time_out(request, now)

    def _leave(self, member: Member) -> None:
        note = self.notes.of(member.request)
        self._close_stay(note, member, self._closing, decoding=member.phase == DECODE)
        super()._leave(member)

    # ------------------------------------------------------------------------------ the end

    def _done(self, request: Request, now: int, tick: int) -> None:
        outcome = Outcome.UNSERVABLE
        if request.state is COMPLETED:
            outcome = Outcome.COMPLETED
        elif request.state is TIMED_OUT:
            outcome = Outcome.TIMED_OUT
        self.notes.of(request).ended(tick, outcome)
        super()._done(request, now, tick)

    def finish(self) -> InstanceMetrics:
        for member in self.batch.members.values():
            note = self.notes.of(member.request)
            self._close_stay(note, member, self._stepped, decoding=member.phase == DECODE)
        return super().finish()
