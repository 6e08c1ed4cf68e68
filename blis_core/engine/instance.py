"""One serving instance: arrivals, wait queue, timeouts, and the order of events.

The instance is advanced lazily: ``advance(limit)`` executes every event before ``limit``. Where
nothing can change the batch it executes a whole run of decode steps at once (see engine.runs); all
other steps go through engine.steps. Both commit the same state, and the tests compare them.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from blis_core.contracts import (
    COMPLETED,
    MAX_INT64,
    RUNNING,
    TIMED_OUT,
    KVStore,
    LatencyModel,
    Request,
    Scheduler,
)
from blis_core.engine.batch import DECODE, Member, RunningBatch
from blis_core.engine.formation import BatchFormation, Limits
from blis_core.engine.metrics import InstanceMetrics
from blis_core.engine.plan import NEVER as NEVER
from blis_core.engine.plan import Plan
from blis_core.engine.stall import StallGuard
from blis_core.engine.steplog import StepLog
from blis_core.engine.steps import Steps
from blis_core.engine.timeouts import Timeouts
from blis_core.engine.waiting import wait_queue
from blis_core.errors import BlisError
from blis_core.semantics import REFERENCE, Semantics

if TYPE_CHECKING:
    from blis_core.engine.archive import Archive
    from blis_core.kv.chains import ChainTable

_COMPACT = 256
"""Requests that are not worth the while of making them compact."""


class Instance(Steps):
    """A serving instance that runs requests to their end.

    ``on_done(request, tick)`` is called once for each request that completes, times out or is
    dropped; a dropped request is still in state QUEUED.
    """

    __slots__ = (
        "_archive",
        "_arrived",
        "_compact_at",
        "_dropped",
        "_limits",
        "_paused",
        "_queueing_time",
        "_sequence",
        "ended_at",
        "finished",
        "more_to_come",
        "name",
        "on_done",
    )

    def __init__(
        self,
        name: str,
        *,
        latency: LatencyModel,
        store: KVStore,
        chains: ChainTable,
        scheduler: Scheduler,
        limits: Limits,
        horizon: int = MAX_INT64,
        on_done: Callable[[Request, int], None] | None = None,
        fast_forward: bool = True,
        semantics: Semantics = REFERENCE,
    ) -> None:
        if limits.max_model_len > 0 and -(-limits.max_model_len // store.block_size) > (
            store.total_blocks
        ):
            raise BlisError(
                f"a maximum model length of {limits.max_model_len} tokens needs more than the"
                f" {store.total_blocks} KV blocks of {store.block_size} tokens: lower"
                " --max-model-len or raise --total-kv-blocks"
            )
        self.name = name
        self.metrics = InstanceMetrics(name)
        self.store = store
        self.waiting = wait_queue(scheduler, lagging=semantics.schedule_lag)
        self.log = StepLog()
        self.batch = RunningBatch(store.block_size, self.log)
        self.finished = 0
        """Requests that completed, timed out or were dropped."""
        self.ended_at = 0
        """Time of the event in which the latest of them ended (the start of its last step)."""
        self.more_to_come = False
        """Whether requests will be injected whatever happens here."""
        self.latency = latency
        self._step_time = latency.step_time
        self._queueing_time = latency.queueing_time
        self._output_time = latency.output_token_time()
        self._completion_time = latency.completion_time()
        self._first_token_delay = latency.first_token_delay
        self._delays = type(latency).first_token_delay is not LatencyModel.first_token_delay
        self._chains = chains
        chains.listeners.append(store.chain_shared)
        self._limits = limits
        self._horizon = horizon
        self.on_done = on_done
        self._fast_forward = fast_forward
        self._formation = BatchFormation(
            self.batch,
            self.waiting,
            store,
            chains,
            limits,
            self.metrics,
            self._preempted_alone,
            semantics,
        )
        self._semantics = semantics
        self._lag = semantics.schedule_lag
        self._cached_context = semantics.cached_context
        self._transfers = type(store).consume_transfer_us is not KVStore.consume_transfer_us
        self._mirrors = store.mirrors
        self._watched = False  # whether ``_complete`` is called even if nobody is done
        self._entering: deque[tuple[int, int, Request]] = deque()  # in order
        self._timeouts = Timeouts()
        self._sequence = 0
        self._next_step = NEVER
        self._last_duration = 1
        self._plan: Plan | None = None
        self._paused = False
        self._clock = -1  # before the first event
        self._arrived = -1  # time of the latest arrival
        self._guard = StallGuard(name)
        self._dropped: set[str] = set()
        self._archive: Archive | None = None
        self._compact_at = _COMPACT

    # ------------------------------------------------------------------------------- events

    @property
    def due(self) -> int:
        """No event is pending before this time; NEVER if none is pending at all."""
        due = self._next_step
        if self._entering and self._entering[0][0] < due:
            due = self._entering[0][0]
        return min(due, self._timeouts.due)

    @property
    def entering(self) -> int:
        """Requests that have been injected and have not reached the wait queue yet."""
        return len(self._entering)

    def inject(self, request: Request, time: int) -> None:
        """The request arrives here at ``time`` (not before its own arrival)."""
        request.assigned = self.name
        self._sequence += 1
        enters = time + self._queueing_time(request.prompt_len)
        entry = (enters, self._sequence, request)
        entering = self._entering
        if entering and enters < entering[-1][0]:
            insort(entering, entry)
        else:  # as they come, if all take the same time
            entering.append(entry)
        self.metrics.requests.append(request)
        self._arrived = time
        if self._clock < time <= self._horizon:
            self._clock = time

    def inject_all(self, requests: Iterable[Request]) -> None:
        """Each of ``requests``, which come in order of arrival, arrives here at its own arrival."""
        name, known, entering = self.name, self.metrics.requests, self._entering
        queueing_time, sequence, time = self._queueing_time, self._sequence, -1
        for request in requests:  # as in inject
            request.assigned = name
            time = request.arrival
            enters = time + queueing_time(request.prompt_len)
            sequence += 1
            entry = (enters, sequence, request)
            if entering and enters < entering[-1][0]:
                insort(entering, entry)
            else:
                entering.append(entry)
            known.append(request)
        self._sequence = sequence
        if time >= 0:
            self._arrived = time
            self._touch(time)

    def reserve(self, request: Request) -> bool:
        """Whether there was room for the prompt of ``request``, which was prefilled elsewhere.

        Its KV blocks are then held here, and ``inject_transferred`` must follow. The instance must
        have been advanced to the present.
        """
        return self._formation.reserve(request)

    def inject_transferred(self, request: Request, time: int) -> None:
        """A request for which ``reserve`` found room joins the wait queue at ``time``.

        Without delay and without the checks of an arrival: a deadline that has passed fires at its
        own time, that is in the past (reference quirk 07-Q6).
        """
        request.assigned = self.name
        self.metrics.requests.append(request)
        self._sequence += 1
        self.waiting.push(request)
        if self._next_step == NEVER:
            self._next_step = time
        deadline = request.deadline
        if 0 < deadline <= self._horizon:
            self._timeouts.push(deadline, self._sequence, request)
            if deadline < time and self._clock < time:
                self._clock = deadline  # the time-out is the very next event

    @property
    def completion_overhead(self) -> int:
        """us from the last token to the end of a request with output."""
        return self._completion_time

    def advance(self, limit: int = NEVER) -> None:
        """Execute all events before ``limit`` that are not beyond the horizon.

        Returns early, after the event at hand, if ``pause`` is called meanwhile (by ``on_done``).
        """
        end = self._horizon + 1
        if limit < end:
            end = limit
        entering, timeouts = self._entering, self._timeouts
        self._paused = False
        while not self._paused:
            step, times_out = self._next_step, timeouts.due
            # at one instant: arrivals in the queue, then the step, then timeouts
            if entering and (enters := entering[0][0]) <= step and enters <= times_out:
                if enters >= end:
                    return
                self._enqueue(entering.popleft()[2], enters)
            elif step <= times_out:
                if step >= end:
                    return
                if step > self._clock:  # and not beyond the horizon
                    self._clock = step
                if not (self._fast_forward and self._run(step, end, times_out)):
                    self._step(step)
            else:
                timeouts.skip_completed()
                if times_out == timeouts.due:
                    if times_out >= end:
                        return
                    self._time_out(timeouts.pop(), times_out)

    @property
    def clock(self) -> int:
        """Time of the latest event, not beyond the horizon; 0 before the first."""
        return min(max(self._clock, 0), self._horizon)

    @property
    def enters(self) -> int:
        """When the next of those that are on their way joins the wait queue; NEVER if nobody is."""
        return self._entering[0][0] if self._entering else NEVER

    def stirs(self, now: int) -> int:
        """First event at ``now`` or later that finds an idle instance still idle; NEVER if none.

        Idle = nobody waits or runs. It is an arrival at this instant, the end of the last step, a
        step that is due for those who have timed out, or the time limit of a request that has
        completed, which is an event although nothing happens. An arrival comes before all joins of
        the wait queue at the same instant, the others come after them.
        """
        if self._arrived >= now:
            return self._arrived
        stirs = self._next_step
        if self._clock >= now:
            stirs = min(stirs, self._clock)
        last = min(stirs, self._horizon + 1)
        for request in self.metrics.requests:
            if request.state is COMPLETED and now <= request.deadline < last:
                last = stirs = request.deadline
        return stirs if stirs < self.enters else NEVER

    def take_waiting(self, *, to_go_on: bool) -> list[Request]:
        """Remove all waiting requests, in the order of the queue.

        ``to_go_on``: they will be served elsewhere, and leave as if they had never come.
        """
        waiting, metrics = self.waiting, self.metrics
        taken = []
        while waiting.count:
            taken.append(waiting.head())
            waiting.pop()
        gone = {id(request) for request in taken}
        self._timeouts.leave_out(gone)
        for request in taken:
            if request.keys is not None:
                self.store.forget(request.keys)
        if to_go_on:
            metrics.requests = [r for r in metrics.requests if id(r) not in gone]
            for request in taken:
                metrics.input_tokens -= request.prompt_len
                request.engine = None
                request.ttft = request.scheduling_delay = -1
                request.itl_sum = request.itl_count = 0
        return taken

    def compact(self) -> None:
        """Keep requests that have ended as numbers only, if they are the most of those known."""
        metrics = self.metrics
        if len(metrics.requests) < self._compact_at:
            return
        if self._archive is None:
            from blis_core.engine.archive import Archive

            self._archive = Archive()
        metrics.requests = self._archive.sweep(metrics.requests, without=self._dropped)
        self._compact_at = 2 * len(metrics.requests) + _COMPACT

    def pause(self) -> None:
        """Make ``advance`` return after the event at hand."""
        self._paused = True

    def finish(self) -> InstanceMetrics:
        """Close the books after the last event."""
        metrics, batch = self.metrics, self.batch
        metrics.still_queued = self.waiting.count
        metrics.still_running = len(batch.members)
        metrics.queue_samples = self.log.steps
        metrics.sim_ended = self.clock
        metrics.cache_hit_rate = self.store.hit_rate()
        metrics.thrashing_rate = self.store.thrashing_rate()
        for member in list(batch.members.values()):
            if member.phase == DECODE:
                batch.end_decode(member)  # so that the latencies so far are known
        if self._archive is not None:
            self._archive.close(metrics.requests, without=self._dropped)
            metrics.archive, metrics.requests = self._archive, []
        elif self._dropped:  # they leave no record
            metrics.requests = [r for r in metrics.requests if r.id not in self._dropped]
        metrics.itl_values, metrics.itl_weights = self.log.weighted()
        return metrics

    def _touch(self, time: int) -> None:
        if self._clock < time <= self._horizon:
            self._clock = time

    def _enqueue(self, request: Request, now: int) -> None:
        if self._clock < now <= self._horizon:
            self._clock = now
        metrics = self.metrics
        prompt, budget, longest = request.prompt_len, request.max_output, self._limits.max_model_len
        if longest > 0:
            if budget == 0 and prompt < longest:
                request.max_output = budget = longest - prompt
            fits = prompt < longest and prompt + budget <= longest
        else:
            fits = True
        store = self.store
        if not fits or budget < 0 or prompt > store.total_blocks * store.block_size:
            metrics.dropped_unservable += 1
            self._dropped.add(request.id)
            self._done(request, now, now)
            return
        metrics.input_tokens += prompt
        deadline = request.deadline
        if 0 < deadline <= now:
            request.state = TIMED_OUT
            metrics.timed_out += 1
            self._done(request, now, now)
            return
        self.waiting.push(request)
        if 0 < deadline <= self._horizon:
            self._sequence += 1
            self._timeouts.push(deadline, self._sequence, request)
        if self._next_step == NEVER:
            self._next_step = now

    def _time_out(self, request: Request, now: int) -> None:
        self._touch(now)
        if request.state is TIMED_OUT:
            return
        was_running = request.state is RUNNING
        request.state = TIMED_OUT
        self.metrics.timed_out += 1
        if was_running:
            member: Member = request.engine
            self._leave(member)
            if not self.batch.members:
                self._formation.let_go()
            # a step that is due stays due, even if nobody is left: reference quirk 01-9
        else:
            self.waiting.discard(request)
            if isinstance(request.engine, Member):  # its prompt was transferred, not its turn yet
                self.store.release(request.engine)
            request.engine = None
            if request.keys is not None:
                self.store.forget(request.keys)
        if not self.batch.members and self._next_step == NEVER and self.waiting.count:
            self._next_step = now
        if self._semantics.abort_timeouts:
            request.ttft = request.scheduling_delay = -1
        self._done(request, now, now)
        request.keys = request.output_keys = None

    def _preempted_alone(self, request: Request, hit: int, target: int) -> None:
        """The last member of the batch had to preempt itself; see StallGuard."""
        if self._nothing_else_comes():
            progress = self.finished + self._sequence
            self._guard.preempted_alone(request, hit, target, self.store, progress)

    def _nothing_else_comes(self) -> bool:
        """Whether neither an event that is pending nor the horizon can end what goes on."""
        return (
            self._horizon == MAX_INT64
            and not self.more_to_come
            and not self._entering
            and all(request.state is COMPLETED for request in self._timeouts.requests())
        )

    def _done(self, request: Request, now: int, tick: int) -> None:
        """``request`` ended in the event at ``now``, as of ``tick``."""
        self.finished += 1
        self.ended_at = now
        if self.on_done is not None:
            self.on_done(request, tick)
