"""One simulated instance under a clock from outside: requests come when they come.

A simulation knows all arrivals and runs to its end. A :class:`LiveInstance` is told the time, does
what is due by then, and says which requests got tokens. Times are us since whatever the caller
counts from, and never run backwards.

The engine executes a step when it begins: only then is its batch known, and with it the time at
which the step will end. So what happens to a request is known at the beginning of a step and takes
effect at its end; in between it waits in a heap. That costs a heap entry for each token of a
request that streams, which is little beside sending it, and one entry for any other request.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from blis_core.assembly import build_cluster
from blis_core.contracts import COMPLETED, MAX_INT64, TIMED_OUT, Request
from blis_core.deployment import resolve
from blis_core.engine.batch import DECODE, PREFILL
from blis_core.engine.instance import NEVER, Instance
from blis_core.errors import BlisError
from blis_core.policies.choice import resolve_policies

if TYPE_CHECKING:
    from blis_core.config import SimulationConfig

_DONE = -1
_FORGET_CACHES = 2
"""Tokens, in sizes of the KV cache, after which prompts that are no longer cached are forgotten."""
_FORGET_EVERY = 1024
"""Requests after which what only the results of a finished run need is thrown away."""


class LiveRequest:
    """A request that a live instance works on, or has finished."""

    __slots__ = ("finished", "known", "on_progress", "request", "streaming", "tokens", "withdrawn")

    def __init__(
        self, request: Request, on_progress: Callable[[], None] | None, *, streaming: bool
    ) -> None:
        self.request = request
        """With ``ttft`` and ``e2e`` (us after its arrival) as soon as they are known."""
        self.on_progress = on_progress
        self.streaming = streaming
        """Whether every token is told, or only the end."""
        self.tokens = 0
        """Output tokens so far; of a request that does not stream, 0 until it is finished."""
        self.finished = False
        """Whether there will be no more of them."""
        self.withdrawn = False
        """Whether it ended before its time."""
        self.known = 0  # tokens of which the engine has told so far


class LiveInstance:
    """One instance of the simulator, as ``config`` describes it.

    ``config`` as for ``run``; what concerns several instances, and the workload, has no effect.
    Raises BlisError as a simulation would.
    """

    def __init__(self, config: SimulationConfig) -> None:
        config.check()
        deployment = resolve(config)
        cluster = build_cluster(
            config, deployment, resolve_policies(config), MAX_INT64, config.seed or 0
        )
        engine: Instance = cluster.instances[0]
        engine.on_done = self._ended
        self._engine = engine
        self._overhead = engine._output_time
        self._requests: dict[str, LiveRequest] = {}
        self._streams: dict[str, LiveRequest] = {}
        self._effects: list[tuple[int, int, LiveRequest, int]] = []
        self._pushed = 0
        self._touched: dict[str, LiveRequest] = {}
        self.model = deployment.model
        """Name of the served model, lower-case."""
        self.resolution = deployment.resolution
        """(name, value, origin) of everything that was derived."""
        store = engine.store
        capacity = store.total_blocks * store.block_size
        self._capacity = capacity
        self._interned = 0  # tokens submitted since the last clearing
        longest = deployment.limits.max_model_len
        self.max_model_len = min(longest, capacity) if longest > 0 else capacity
        """Tokens of prompt and output together that a request may have."""

    # -------------------------------------------------------------------------------- requests

    def submit(
        self,
        request: Request,
        now: int,
        *,
        streaming: bool = True,
        on_progress: Callable[[], None] | None = None,
    ) -> LiveRequest:
        """``request`` arrives at ``now``. Its id must be new, and its ``tokens`` be there.

        ``on_progress`` is called by :meth:`advance` whenever tokens or the end are told. BlisError
        for a request that could never be served.
        """
        total = request.prompt_len + max(1, request.output_len)
        if request.prompt_len < 1 or total > self.max_model_len:
            raise BlisError(
                f"a request of {request.prompt_len} prompt and {request.output_len} output tokens"
                f" does not fit: there must be a prompt, and at most {self.max_model_len} tokens"
            )
        request.arrival = now
        request.max_output = request.output_len
        live = LiveRequest(request, on_progress, streaming=streaming)
        self._requests[request.id] = live
        if streaming:
            self._streams[request.id] = live
        engine = self._engine
        engine.inject(request, now)
        self._interned += total
        if len(engine.metrics.requests) >= _FORGET_EVERY:
            _forget_history(engine)
        if self._interned > _FORGET_CACHES * self._capacity:
            self._forget_prompts()
        return live

    def _forget_prompts(self) -> None:
        """Drop prompts and outputs of which nothing is cached any more."""
        self._interned = 0
        cached = getattr(self._engine.store, "cached_keys", None)
        if cached is None or self._engine.store.mirrors:
            return  # the store does not tell, or has a second tier that it does not tell of
        chains = self._engine._chains
        held = chains.marks()
        held.add(cached())
        for live in self._requests.values():
            held.add_chains(live.request)
        chains.forget(held)

    def withdraw(self, live: LiveRequest, now: int) -> None:
        """The client of a request has gone: it frees its place and its KV blocks at ``now``."""
        if live.request.id in self._requests:
            live.withdrawn = True
            self._streams.pop(live.request.id, None)
            _withdraw(self._engine, live.request, now)

    # ------------------------------------------------------------------------------------ time

    @property
    def next_change(self) -> int | None:
        """When something may happen next; None if nothing will unless a request comes."""
        due = self._engine.due
        if self._effects and self._effects[0][0] < due:
            due = self._effects[0][0]
        return due if due < NEVER else None

    def advance(self, now: int) -> list[LiveRequest]:
        """Do everything that is due by ``now``. Returns the requests that it changed, once each."""
        engine, effects = self._engine, self._effects
        while engine.due <= now:
            if self._streams:
                self._event()
            else:
                engine.advance(now + 1)
        while effects and effects[0][0] <= now:
            _, _, live, tokens = heapq.heappop(effects)
            if live.finished:
                continue
            if tokens == _DONE:
                live.finished = True
                if not live.withdrawn:
                    live.tokens = live.request.output_len
            elif tokens > live.tokens:
                live.tokens = tokens
            self._touched[live.request.id] = live
        touched, self._touched = list(self._touched.values()), {}
        for live in touched:
            if live.on_progress is not None:
                live.on_progress()
        return touched

    def _event(self) -> None:
        """Execute the events of one instant, and note the tokens of the step among them."""
        engine = self._engine
        log, due = engine.log, engine.due
        steps, total = log.steps, log.total
        engine.advance(due + 1)
        if log.steps == steps:
            return
        end = due + log.total - total  # what was logged is the step's time for a token
        for live in self._streams.values():
            tokens = _generated(live.request, log.steps)
            if tokens > live.known:
                live.known = tokens
                # each token adds the overhead once more to the request's own time
                self._effect(end + (tokens - 1) * self._overhead, live, tokens)

    def _ended(self, request: Request, tick: int) -> None:
        """The engine is done with a request, as of ``tick``."""
        live = self._requests.pop(request.id)
        streamed = self._streams.pop(request.id, None)
        if request.state is not COMPLETED:  # withdrawn
            self._effect(tick, live, _DONE)
            return
        if streamed is not None:
            end = request.arrival + request.ttft + request.itl_sum
            self._effect(end, live, request.output_len)
        self._effect(request.arrival + request.e2e, live, _DONE)

    def _effect(self, time: int, live: LiveRequest, tokens: int) -> None:
        self._pushed += 1
        heapq.heappush(self._effects, (time, self._pushed, live, tokens))

    # ------------------------------------------------------------------------------------ state

    @property
    def running(self) -> int:
        """Requests in the running batch."""
        return len(self._engine.batch.members)

    @property
    def waiting(self) -> int:
        """Requests that wait for a place in it."""
        return len(self._requests) - self.running

    @property
    def kv_utilization(self) -> float:
        """Used share of the KV blocks, in [0, 1]."""
        store = self._engine.store
        return store.used_blocks / store.total_blocks

    @property
    def cache_hit_rate(self) -> float:
        """Share of prompt blocks that were found in the prefix cache, in [0, 1]."""
        return self._engine.store.hit_rate()

    @property
    def preemptions(self) -> int:
        """Requests that lost their KV blocks, so far."""
        return self._engine.metrics.preemptions

    @property
    def steps(self) -> int:
        """Steps that have begun so far."""
        return self._engine.log.steps


def _generated(request: Request, steps: int) -> int:
    """Output tokens of a running request at the end of the latest of ``steps`` steps.

    After a preemption a request makes its tokens anew; it counts again from the start.
    """
    member = request.engine
    if member is None or member.phase == PREFILL:
        return 0
    progress: int = steps - member.offset if member.phase == DECODE else member.progress
    return progress - request.prompt_len + 1


def _withdraw(engine: Instance, request: Request, now: int) -> None:
    """End a request by means of the engine's time limits, which it knows how to deal with."""
    if request.state in (COMPLETED, TIMED_OUT):
        return
    if any(entry[2] is request for entry in engine._entering):
        request.deadline = max(1, now)  # has passed when it enters the queue
        return
    engine._sequence += 1
    engine._timeouts.push(now, engine._sequence, request)


def _forget_history(engine: Instance) -> None:
    """Drop what the results of a run are made of; a live instance has no end and no results."""
    engine.metrics.requests.clear()
    log = engine.log
    for values in (log._values, log._starts, log._ends):
        del values[:]
