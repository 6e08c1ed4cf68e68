"""One step of an instance by the general rules, and what becomes of those who are done."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from blis_core.contracts import COMPLETED, PrefillChunk, Request, TransferredRequest
from blis_core.engine.batch import DECODE, Member, by_rank
from blis_core.engine.plan import NEVER, batch_shape, prefill_chunk
from blis_core.engine.runs import DecodeRuns

if TYPE_CHECKING:
    from collections.abc import Callable

    from blis_core.engine.stall import StallGuard
    from blis_core.kv.chains import ChainTable
    from blis_core.semantics import Semantics

_Formed = tuple[list[tuple[Member, int]], list[tuple[Member, int]]]


class Steps(DecodeRuns):
    """State and methods are those of :class:`~blis_core.engine.instance.Instance`."""

    __slots__ = (
        "_cached_context",
        "_chains",
        "_completion_time",
        "_delays",
        "_first_token_delay",
        "_guard",
        "_horizon",
        "_lag",
        "_semantics",
        "_transfers",
    )

    _cached_context: bool
    _chains: ChainTable
    _completion_time: int
    _delays: bool
    _first_token_delay: Callable[[int], int]
    _guard: StallGuard
    _horizon: int
    _lag: bool
    _semantics: Semantics
    _transfers: bool

    @abstractmethod
    def _nothing_else_comes(self) -> bool: ...

    @abstractmethod
    def _done(self, request: Request, now: int, tick: int) -> None: ...

    # ---------------------------------------------------------------------------- one step

    def _step(self, now: int) -> None:
        """Form a batch, execute it, complete what finishes (any step, by the general rules)."""
        batch, waiting, store, formation = self.batch, self.waiting, self.store, self._formation
        if not batch.members and not waiting.count:
            self._next_step = NEVER  # everybody it was meant for has timed out
            return
        chunks, admitted = self._form(now) if self._lag else formation.form(now)
        if not batch.members and self._nothing_else_comes():
            self._guard.nobody_runs(self.log.steps, waiting.count, store)
        decodes = batch.decodes
        joining = self._joining(chunks, admitted) if chunks or admitted else ()
        duration = self._step_time(batch_shape((joining, decodes, batch.context)))
        if self._transfers:
            duration += store.consume_transfer_us()
        if duration < 1:
            duration = 1
        metrics = self.metrics
        metrics.queue_sum += waiting.count
        if store.used_blocks > metrics.peak_used_blocks:
            metrics.peak_used_blocks = store.used_blocks
        token_time = duration + self._output_time
        self.log.add(token_time)
        done: list[Member] = []
        if decodes:
            batch.context += decodes
            if batch.finishing[0][0] < self.log.steps:
                done = batch.finished(self.log.steps - 1)
        for member, tokens in chunks + admitted if chunks else admitted:
            member.progress += tokens
            if member.progress < member.prompt_len:
                continue
            if chunks and member in batch.prefilling:
                batch.prefilling.remove(member)
            request = member.request
            if request.ttft < 0:
                delay = self._first_token_delay(decodes + len(joining)) if self._delays else 0
                request.first_token_delay = delay
                request.ttft = now + token_time - request.arrival + delay
            elif member.prompt_len > request.prompt_len:  # back from a preemption
                self._bridge(member, now + token_time)
            if not tokens:
                # a whole prompt hit holds no blocks; its output starts a chain of its own
                store.restart(member, self._chains.output_keys(request), request.prompt_len)
            if member.target > member.prompt_len:
                batch.begin_decode(member, member.prompt_len)
            else:
                done.append(member)
        if self._mirrors:
            store.mirror(batch.members.values(), 1)
        if done or self._watched:
            self._complete(done, now, duration)
        else:
            self._next_step = now + duration if batch.members or waiting.count else NEVER

    def _joining(
        self, chunks: list[tuple[Member, int]], admitted: list[tuple[Member, int]]
    ) -> tuple[PrefillChunk, ...]:
        """Prefill chunks of a step as the latency model sees them."""
        prefills = []
        for member, tokens in chunks:
            prefills.append(prefill_chunk((member.progress, tokens, member.prompt_len)))
        for member, tokens in admitted:
            if tokens:
                # in its first step a request counts as having no context, cached prefix or not:
                # the reference sets its progress only when the step has been executed
                context = member.progress if self._cached_context else 0
                prefills.append(prefill_chunk((context, tokens, member.prompt_len)))
        return tuple(prefills)

    def _bridge(self, member: Member, now: int) -> None:
        """The next token after a preemption is there: note the time since the last one."""
        request = member.request
        last = request.arrival + request.ttft - request.first_token_delay + request.itl_sum
        gap = now - last
        request.itl_sum += gap
        request.itl_count += 1
        if member.gaps is None:
            member.gaps = []
        member.gaps.append(gap)

    def _form(self, now: int) -> _Formed:
        """The batch that was chosen when the step before began; that of now if the engine idled."""
        formation = self._formation
        if not self.batch.members:
            formation.catch_up()
            return formation.form(now)
        formed = formation.form(now)
        formation.catch_up()
        return formed

    # ------------------------------------------------------------------------- completions

    def _complete(self, done: list[Member], now: int, duration: int) -> None:
        """Take members that are done out of the batch and schedule the next step."""
        end = now + duration
        batch = self.batch
        if done:
            if len(done) > 1:
                done.sort(key=by_rank)
            for member in done:
                self._finish_request(member, now, end)
            if not batch.members:
                self._formation.let_go()
            if self._clock < end <= self._horizon:
                self._clock = end
        self._next_step = end if batch.members or self.waiting.count else NEVER

    def _finish_request(self, member: Member, now: int, end: int) -> None:
        request, metrics, store = member.request, self.metrics, self.store
        output = request.output_len
        position = member.target
        if position >= request.prompt_len + max(output, 1) - 1:
            # the last output token is stored before everything is given back, unless it has been
            missing = position < request.prompt_len + output
            if missing and not store.append(member, position):
                metrics.kv_allocation_failures += 1
        else:
            metrics.length_capped += 1
            request.length_capped = True
        decoded = member.phase == DECODE
        self._leave(member)
        if member.ranges is not None:
            for start, stop in member.ranges:
                self.log.count(start, stop)
            self.log.count_gaps(member.gaps or [])
        elif decoded:
            self.log.count(member.begun, self.log.steps)
        request.state = COMPLETED
        request.engine = None
        metrics.completed += 1
        generated = position - request.prompt_len
        metrics.output_tokens += generated + 1 if generated < output else generated
        # without a first token of its own the request was prefilled elsewhere
        e2e = request.itl_sum - request.first_token_delay
        if e2e < 0:
            e2e = 0
        if request.ttft > 0:
            e2e += request.ttft
        request.e2e = e2e + self._completion_time if output > 0 else e2e
        self._done(request, now, end)
        request.tokens = request.keys = request.output_keys = None

    def _leave(self, member: Member) -> None:
        """Take a member out of the batch and give its blocks back."""
        self.batch.remove(member)
        if self._lag:
            self._formation.keep(member)
        else:
            self.store.release(member)
        request = member.request
        if (
            type(request) is not Request
            and isinstance(request, TransferredRequest)
            and request.itl_count
        ):
            request.first_decode_us = self.log.value(self.batch.first_decode(member))
