"""Runs of decode steps that nothing can interfere with, looked ahead at and executed at once.

The part of an instance that makes a simulation cost work per event rather than per step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from blis_core.engine.plan import FEW, Plan, batch_shape, make_plan

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from blis_core.contracts import BatchShape, KVStore, LatencyModel, Request
    from blis_core.engine.batch import Member, RunningBatch
    from blis_core.engine.formation import BatchFormation
    from blis_core.engine.metrics import InstanceMetrics
    from blis_core.engine.plan import Times
    from blis_core.engine.steplog import StepLog
    from blis_core.engine.timeouts import Timeouts
    from blis_core.engine.waiting import WaitQueue


class DecodeRuns(ABC):
    """State and methods are those of :class:`~blis_core.engine.instance.Instance`."""

    __slots__ = (
        "_clock",
        "_entering",
        "_fast_forward",
        "_formation",
        "_last_duration",
        "_mirrors",
        "_next_step",
        "_output_time",
        "_plan",
        "_step_time",
        "_timeouts",
        "_watched",
        "batch",
        "latency",
        "log",
        "metrics",
        "store",
        "waiting",
    )

    latency: LatencyModel
    store: KVStore
    batch: RunningBatch
    waiting: WaitQueue
    log: StepLog
    metrics: InstanceMetrics
    _formation: BatchFormation
    _entering: deque[tuple[int, int, Request]]
    _timeouts: Timeouts
    _clock: int
    _mirrors: bool
    _watched: bool
    _step_time: Callable[[BatchShape], int]
    _next_step: int
    _last_duration: int
    _output_time: int
    _fast_forward: bool
    _plan: Plan | None

    @property
    @abstractmethod
    def due(self) -> int:
        """No event is pending before this time."""

    @abstractmethod
    def _enqueue(self, request: Request, now: int) -> None: ...

    @abstractmethod
    def _complete(self, done: list[Member], now: int, duration: int) -> None: ...

    def next_change(self) -> int:
        """A time before which no request can end here, and nothing be admitted.

        Decode steps before it are silent: they may be executed at any time. NEVER if nothing is
        pending. Lets a closed-loop cluster find the next completion without single steps.
        """
        entering, timeouts, batch = self._entering, self._timeouts, self.batch
        timeouts.skip_completed()
        change = timeouts.due
        if entering and entering[0][0] < change:
            change = entering[0][0]
        now = self._next_step
        if now >= change:
            return change
        steps, _ = self._formation.silent_steps() if self._fast_forward else (0, False)
        if steps:
            steps = min(steps, batch.next_finish() - self.log.steps + 1)
            steps = self._reach(steps)
        if not steps:
            return now
        plan, k = self._planned(now, steps, least=steps)
        return min(change, plan.starts[k + steps - 1])

    def next_signal(self, *, blocks: bool) -> int:
        """A time before which no request can end, and queue and batch keep their lengths.

        With ``blocks`` the used KV blocks stay the same, too. NEVER if nothing is pending.
        """
        if not blocks:
            return self.next_change()
        groups, step = self.batch.groups, self.log.steps
        size = len(groups)
        quiet = 0  # coming steps in which no decode takes a block
        while quiet < size and not groups[(step + quiet) % size]:
            quiet += 1
        if not quiet:
            return self.due
        change = self.next_change()
        plan, start = self._plan, self._next_step
        if start >= change:
            return change
        if plan is None or plan.version != self.batch.version:
            return start
        k = step + quiet - plan.first
        return min(change, plan.starts[k]) if k < len(plan.starts) else change

    def _reach(self, steps: int) -> int:
        """How many of the next ``steps`` decode steps find the KV blocks that they need."""
        batch, store = self.batch, self.store
        room, size = store.total_blocks - store.used_blocks, store.block_size
        if batch.decodes * (steps // size + 1) <= room:
            return steps
        if steps == 1:
            return int(len(batch.groups[self.log.steps % size]) <= room)
        return store.reach(batch.groups, self.log.steps, steps)

    def _planned(self, now: int, steps: int, least: int = 1) -> tuple[Plan, int]:
        """A plan that covers the step due at ``now``, and that step's place in it.

        It covers at least ``least`` steps; a new one has ``steps``.
        """
        plan, batch, first = self._plan, self.batch, self.log.steps
        if plan is not None:
            k = plan.place(batch.version, first, now)
            if 0 <= k <= len(plan.token_times) - least:
                return plan, k
        self._plan = plan = make_plan(
            self.latency,
            self._output_time,
            version=batch.version,
            first=first,
            now=now,
            decodes=batch.decodes,
            context=batch.context,
            steps=steps,
        )
        return plan, 0

    def _run(self, now: int, end: int, times_out: int) -> bool:
        """Execute as many decode steps from ``now`` on as nothing can interfere with.

        Applies when all members decode and nobody can be admitted. False: use ``_step``.
        """
        formation = self._formation
        if formation.preempting:
            return False  # whoever lost its place is the next to be admitted
        batch, log, store = self.batch, self.log, self.store
        first = log.steps
        if len(batch.groups[first % store.block_size]) > store.total_blocks - store.used_blocks:
            return False  # somebody is about to lose its place
        steps, absorb = formation.silent_steps()
        if not steps:
            return False
        entering = self._entering
        to_finish = batch.next_finish() - first + 1
        # comparisons rather than min(): this runs more often than anything else
        last_start = end - 1
        if times_out < last_start:
            last_start = times_out
        if entering and not absorb and entering[0][0] <= last_start:
            last_start = entering[0][0] - 1
        if to_finish < steps:
            steps = to_finish
        # a guess of how many steps fit before something interferes keeps plans short
        fitting = (last_start - now) // self._last_duration + 2
        if fitting < steps:
            steps = fitting
        steps = self._reach(steps)
        if not steps:
            return False
        plan = self._plan
        if steps < FEW and (plan is None or plan.version != batch.version):
            if entering and entering[0][0] <= last_start:
                last_start = entering[0][0] - 1
            self._run_few(now, steps, last_start, to_finish)
            return True
        plan, k = self._planned(now, steps)
        starts = plan.starts
        known = len(plan.token_times) - k
        if known < steps:
            steps = known
        if starts[k + steps - 1] > last_start:
            steps = bisect_right(starts, last_start, k, k + steps) - k
        waited = self.waiting.count
        joined: list[int] = []
        if absorb and entering:
            steps, joined = self._absorb(starts, k, steps)
        start, after = starts[k + steps - 1], starts[k + steps]
        log.add_many(plan.token_times[k : k + steps], after - now + steps * self._output_time)
        batch.context += steps * batch.decodes
        metrics = self.metrics
        metrics.queue_sum += waited * steps
        for time in joined:
            metrics.queue_sum += k + steps - bisect_left(starts, time, k + 1, k + steps)
        self._ran(first, steps, start, after, finishes=steps == to_finish)
        return True

    def _run_few(self, now: int, steps: int, last_start: int, to_finish: int) -> None:
        """Execute decode steps for which a plan is not worth its while.

        At most ``steps``, and those that start by ``last_start``, as the first does.
        """
        batch, log = self.batch, self.log
        first, decodes, context = log.steps, batch.decodes, batch.context
        step_time, overhead = self._step_time, self._output_time
        times: list[int] = []
        start = after = now
        for _ in range(steps):
            duration = step_time(batch_shape(((), decodes, context)))
            if duration < 1:
                duration = 1
            times.append(duration + overhead)
            context += decodes
            start = after
            after += duration
            if after > last_start:
                break
        steps = len(times)
        log.add_many(times, after - now + steps * overhead)
        batch.context = context
        self.metrics.queue_sum += self.waiting.count * steps
        self._ran(first, steps, start, after, finishes=steps == to_finish)

    def _ran(self, first: int, steps: int, start: int, after: int, *, finishes: bool) -> None:
        """What becomes of ``steps`` decode steps from number ``first`` on, once they are logged.

        The last one lasts from ``start`` to ``after``; ``finishes``: somebody is done with it.
        """
        batch, store, metrics = self.batch, self.store, self.metrics
        self._last_duration = after - start
        store.advance(batch.groups, first, steps)
        if self._mirrors:
            store.mirror(batch.members.values(), steps)
        if store.used_blocks > metrics.peak_used_blocks:
            metrics.peak_used_blocks = store.used_blocks
        if start > self._clock:  # and not beyond the horizon
            self._clock = start
        if finishes or self._watched:
            self._complete(batch.finished(first + steps - 1), start, after - start)
        else:
            self._next_step = after

    def _absorb(self, starts: Times, k: int, steps: int) -> tuple[int, list[int]]:
        """Take in the requests that reach the queue during a run which they cannot influence.

        The run begins at place ``k`` of ``starts``. Returns its steps (fewer if one of the requests
        times out soon) and the times at which somebody joined the queue.
        """
        entering, waiting = self._entering, self.waiting
        joined: list[int] = []
        start = starts[k + steps - 1]
        while entering and entering[0][0] <= start:
            enters, _, request = entering.popleft()
            waited = waiting.count
            self._enqueue(request, enters)
            if waiting.count > waited:
                joined.append(enters)
                if 0 < request.deadline < start:
                    steps = bisect_right(starts, request.deadline, k + 1, k + steps) - k
                    start = starts[k + steps - 1]
        return steps, joined
