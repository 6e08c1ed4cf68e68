"""Batch formation: who gets tokens and KV blocks in a step.

Running members come first, in order of admission; then the queue, as far as sequences, tokens and
blocks go. When blocks run out in the first part, members are preempted from the tail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from blis_core.contracts import MAX_INT64, QUEUED, RUNNING, KVStore, Request, TransferredRequest
from blis_core.engine.batch import DECODE, PREFILL, Member, RunningBatch
from blis_core.engine.metrics import InstanceMetrics
from blis_core.engine.suspended import Suspended, prefill_length
from blis_core.engine.waiting import WaitQueue
from blis_core.kv.chains import Chain, ChainTable
from blis_core.records import Record
from blis_core.semantics import REFERENCE, Semantics

LONGEST_RUN = 8192  # steps planned at once; bounds the memory of a run


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Limits(Record):
    """Bounds of one instance."""

    max_running: int
    """Requests in the running batch (vLLM: max_num_seqs)."""
    max_tokens: int
    """New tokens per step (vLLM: max_num_batched_tokens)."""
    long_prefill: int = 0
    """Prompt tokens per request and step; 0 = off."""
    max_model_len: int = 0
    """Prompt plus output tokens of a request; 0 = unlimited."""


class BatchFormation:
    """Forms the batches of one instance.

    ``preempted_alone(request, hit, target)`` is told when the only member preempts itself.
    """

    def __init__(
        self,
        batch: RunningBatch,
        waiting: WaitQueue,
        store: KVStore,
        chains: ChainTable,
        limits: Limits,
        metrics: InstanceMetrics,
        preempted_alone: Callable[[Request, int, int], None],
        semantics: Semantics = REFERENCE,
    ) -> None:
        self.batch = batch
        self.waiting = waiting
        self.store = store
        self._chains = chains
        self._limits = limits
        self._metrics = metrics
        self._preempted_alone = preempted_alone
        self._semantics = semantics
        self.leaving: list[Member] = []
        """Members that are done, but keep slot and blocks for the next choice (schedule lag)."""
        self._rank = 0
        self._refused: Request | None = None  # the last request that found no blocks
        self._refused_need = 0  # free blocks that it takes, if they can be counted
        self.preempting = False
        """Whether the latest step preempted somebody, and admitted nobody."""
        self._charged = False  # whether an attempt from outside may lengthen the next step
        # as attributes of their own, which are found faster than a store's class variables
        self._pure = store.refusals_are_pure
        self._countable = (
            store.refusals_are_pure and store.room_suffices and not limits.long_prefill
        )
        self._size = store.block_size

    def form(self, now: int) -> tuple[list[tuple[Member, int]], list[tuple[Member, int]]]:
        """Prefill chunks (member, tokens) of running members, and of those admitted now.

        Decodes take part by themselves; those left without budget are parked.
        """
        batch, waiting = self.batch, self.waiting
        self._charged = False
        if batch.parked:
            batch.unpark_all()
        budget = self._limits.max_tokens - batch.decodes
        chunks: list[tuple[Member, int]] = []
        if batch.prefilling or budget < 0:
            chunks, budget = self._plan()
        admitted: list[tuple[Member, int]] = []
        step = batch.log.steps
        preempted = self._allocate(chunks, step)
        self.store.clock = step + 1
        self.preempting = preempted
        if preempted:
            members = batch.members
            return [chunk for chunk in chunks if chunk[0].rank in members], admitted
        if budget > 0 and waiting.count > waiting.hidden:
            self._admit_waiting(now, budget, admitted)
        return chunks, admitted

    def _admit_waiting(self, now: int, budget: int, admitted: list[tuple[Member, int]]) -> None:
        """Admit from the queue as far as sequences, tokens and blocks go."""
        batch, waiting, store = self.batch, self.waiting, self.store
        members = batch.members
        most = self._limits.max_running - len(self.leaving)
        longest = self._limits.max_model_len
        pure = self._pure
        while len(members) < most and budget > 0 and waiting.count > waiting.hidden:
            request = waiting.head()
            state = request.engine
            if (
                type(request) is not Request
                and isinstance(request, TransferredRequest)
                and not isinstance(state, Suspended)
            ):
                if not self._admit_transferred(request, now, admitted):
                    self._refuse(request)
                    return
                budget -= 1
                continue
            room = store.total_blocks - store.used_blocks
            need, keys, hit, cached, tokens = self.next_chunk(request, budget, room)
            if need > room:
                self._refuse(request, need)
                return
            if pure and not need and not store.can_admit(hit, tokens):
                self._refuse(request)
                return
            self._rank = rank = self._rank + 1
            target = request.prompt_len + (request.output_len or 1) - 1
            if 0 < longest <= target:
                target = longest - 1
            member = Member(request, keys, rank, target)
            if state is not None:  # suspended
                state.restore(member)
            if pure:
                store.claim(member, hit, tokens)
            elif not store.admit(member, hit, tokens):
                self._refuse(request)
                return
            member.progress = cached
            budget -= tokens
            waiting.pop()  # as in _join
            members[rank] = member
            request.state = RUNNING
            request.engine = member
            request.scheduling_delay = now - request.arrival
            if cached + tokens < member.prompt_len:
                batch.prefilling.append(member)
            admitted.append((member, tokens))

    def _refuse(self, request: Request, need: int = 0) -> None:
        """Note that ``request``, at the head of the queue, finds no blocks."""
        self._refused = request
        self._refused_need = need

    def _join(self, member: Member, now: int) -> None:
        """The head of the queue becomes a member of the batch."""
        request = member.request
        self.waiting.pop()
        self.batch.members[member.rank] = member
        request.state = RUNNING
        request.engine = member
        request.scheduling_delay = now - request.arrival

    def _admit_transferred(
        self, request: Request, now: int, admitted: list[tuple[Member, int]]
    ) -> bool:
        """Admit a request whose prompt was prefilled elsewhere; it takes one token of the budget.

        It decodes at once. Preempted, it has lost its prompt and starts with a single prompt token,
        without looking for a cached prefix (reference quirk 07-Q5); the rest follows as usual.
        """
        batch, store = self.batch, self.store
        member: Member | None = request.engine
        if member is not None:
            if not store.append(member, member.progress):
                return False
            self._rank += 1
            member.rank = self._rank
            self._join(member, now)
            batch.begin_decode(member, member.progress)
            return True
        keys = self._chains.keys(request)
        member = Member(request, keys, self._rank + 1, self.target(request))
        if not store.admit(member, store.match(keys, 0), 1):
            return False
        self._rank += 1
        self._join(member, now)
        if member.prompt_len > 1:
            batch.prefilling.append(member)
        admitted.append((member, 1))
        return True

    def reserve(self, request: Request) -> bool:
        """Store the whole prompt of a request that was prefilled elsewhere, all of it or nothing.

        Nothing that is cached is used for it. Its progress is then that of a finished prefill, and
        it will decode one token whatever the length limit says.
        """
        keys = self._chains.keys(request)
        prompt = request.prompt_len
        target = max(self.target(request), prompt + 1)
        member = Member(request, keys, 0, target)
        self._charged = not self.store.refusals_are_pure
        if not self.store.admit(member, self.store.match(keys, 0), prompt):
            return False
        member.progress = prompt
        request.engine = member
        return True

    def silent_steps(self) -> tuple[int, bool]:
        """How many pure decode steps may follow as far as admission is concerned (0: none).

        Also whether requests that reach the queue meanwhile make no difference.
        """
        batch, waiting, limits, store = self.batch, self.waiting, self._limits, self.store
        if not 0 < batch.decodes <= limits.max_tokens or batch.prefilling or self._charged:
            return 0, False
        if self.leaving:
            return 0, False
        if batch.parked and not batch.only_tail_parked(limits.max_tokens):
            return 0, False
        if len(batch.members) >= limits.max_running or batch.decodes >= limits.max_tokens:
            return LONGEST_RUN, True  # nobody can be admitted, whoever is next
        if not waiting.count:
            return LONGEST_RUN, False
        if waiting.hidden or not self._pure:
            return 0, False
        request = waiting.head()
        if request is not self._refused:
            return 0, False  # nobody has tried to admit it yet
        room = store.total_blocks - store.used_blocks
        need = self._refused_need
        if need and request.keys is not None and request.keys.is_private():
            # the budget has not become smaller, and during a run blocks only become fewer
            return (LONGEST_RUN, waiting.fixed_head) if need > room else (0, False)
        if isinstance(request, TransferredRequest) and not isinstance(request.engine, Suspended):
            # it needs one block, and there was none
            return (0, False) if room else (LONGEST_RUN, waiting.fixed_head)
        budget = limits.max_tokens - batch.decodes
        _, _, hit, cached, tokens = self.next_chunk(request, budget)
        if store.can_admit(hit, tokens):
            return 0, False
        clipped = cached + tokens < prefill_length(request)
        if self._chains.output_shared or (hit and clipped):
            # what the head needs may change with any block taken or filled
            return batch.quiet_steps(), waiting.fixed_head
        return LONGEST_RUN, waiting.fixed_head

    def _plan(self) -> tuple[list[tuple[Member, int]], int]:
        """Tokens of the members in prefill and the budget that is left; parks starved decodes."""
        batch, limits = self.batch, self._limits
        budget = limits.max_tokens
        prefilling = batch.prefilling
        most = limits.long_prefill or budget
        chunks: list[tuple[Member, int]] = []
        demand = batch.decodes
        for member in prefilling:
            tokens = min(member.prompt_len - member.progress, most)
            chunks.append((member, tokens))
            demand += tokens
        if demand <= budget:
            return chunks, budget - demand
        if batch.decodes < budget and prefilling and prefilling[0].rank > batch.last_rank:
            # decodes first: none of them can starve
            members: list[Member] = prefilling
            budget -= batch.decodes
        else:
            members = list(batch.members.values())
        chunks = []
        for member in members:
            if member.phase == DECODE:
                if budget > 0:
                    budget -= 1
                else:
                    self.store.settle(member)
                    batch.park(member)
            elif budget > 0:
                tokens = min(member.prompt_len - member.progress, most, budget)
                chunks.append((member, tokens))
                budget -= tokens
        return chunks, budget

    def next_chunk(
        self, request: Request, budget: int, room: int = MAX_INT64
    ) -> tuple[int, Chain, Any, int, int]:
        """What it takes to admit a request: free blocks, whatever is cached (0 = unknown), block
        keys, prefix hit, its tokens, and number of prompt tokens.

        The number of blocks is known for a private prompt: those of its blocks that are cached are
        free ones, so that it takes as many free blocks with them as without. If they are more than
        ``room``, no hit is looked for.
        """
        size = self._size
        keys = request.keys
        if keys is None:
            keys = self._chains.keys(request)
        length = reusable = request.prompt_len
        if request.engine is not None:  # suspended
            length = request.engine.length
            reusable = length - (length > request.prompt_len)
        need = 0
        if self._countable and length <= budget and not keys.head:
            own = keys.own
            if own is None or not own.shared:
                need = -(-length // size)
                if need > room:
                    return need, keys, None, 0, 0
        if reusable == length > 0 and self._semantics.compute_last_token:
            reusable -= 1
        hit = self.store.match(keys, reusable // size)
        cached = len(hit) * size
        tokens = length - cached
        if need:
            return need, keys, hit, cached, tokens
        long_prefill = self._limits.long_prefill
        if 0 < long_prefill < tokens:
            tokens = long_prefill
        return 0, keys, hit, cached, min(tokens, budget)

    def target(self, request: Request) -> int:
        """Progress at which a request is done: all output but its last token, or the cap."""
        target = request.prompt_len + (request.output_len or 1) - 1
        longest = self._limits.max_model_len
        return longest - 1 if 0 < longest <= target else target

    # ------------------------------------------------------------------- memory of a step

    def _allocate(self, chunks: list[tuple[Member, int]], step: int) -> bool:
        """KV blocks for the running members, in batch order; True if somebody was preempted."""
        batch, store = self.batch, self.store
        size = self._size
        need = len(batch.groups[step % size])
        room = store.total_blocks - store.used_blocks
        if not chunks:
            if need <= room:
                if batch.decodes:
                    store.advance(batch.groups, step, 1)
                return False
        elif chunks[0][0].rank > batch.last_rank and self._pure:
            fresh = need + sum(
                -(-(m.progress + n) // size) + (-m.progress // size) for m, n in chunks
            )
            if fresh <= room:
                if batch.decodes:
                    store.advance(batch.groups, step, 1)
                for member, tokens in chunks:
                    store.extend(member, member.progress, member.progress + tokens)
                return False
        return self._allocate_in_order(chunks, step)

    def _allocate_in_order(self, chunks: list[tuple[Member, int]], step: int) -> bool:
        """One member after the other, preempting from the tail of the batch when blocks run out."""
        batch, store = self.batch, self.store
        size = self._size
        members = batch.members
        taking = batch.groups[step % size]
        if not chunks and store.counts_only:
            return self._allocate_counted(taking.copy())
        tokens_of = {member.rank: tokens for member, tokens in chunks}
        # decodes that neither need a block nor fill one do not touch the store
        affected = taking + (batch.groups[(step + 1) % size] if size > 1 else [])
        order = sorted([*affected, *(member for member, _ in chunks)], key=lambda m: m.rank)
        preempted = False
        for member in order:
            if member.rank not in members:
                break  # it and all behind it were preempted
            while not (
                store.append(member, step - member.offset)
                if member.phase == DECODE
                else store.extend(member, member.progress, member.progress + tokens_of[member.rank])
            ):
                preempted = True
                if self._preempt_last() is member:
                    break
        return preempted

    def _allocate_counted(self, taking: list[Member]) -> bool:
        """The same, if only decodes need blocks and no more than their number counts."""
        store = self.store
        preempted = False
        while taking:
            room = store.total_blocks - store.used_blocks
            if room:
                if room > len(taking):
                    room = len(taking)
                store.take_counted(room)
                del taking[:room]
                continue
            preempted = True
            last = self._preempt_last()
            if taking[-1] is last:
                taking.pop()
        return preempted

    def _preempt_last(self) -> Member:
        """Preempt the last member of the batch; returns it."""
        members = self.batch.members
        victim = next(reversed(members.values()))
        self._preempt(victim, alone=len(members) == 1)
        return victim

    def _preempt(self, member: Member, *, alone: bool) -> None:
        request = member.request
        decoded = member.phase != PREFILL
        if self._semantics.recompute and member.ranges is None:
            member.ranges = []
        self.batch.remove(member)
        self.store.release(member)
        request.state = QUEUED
        request.engine = None
        if self._semantics.recompute:
            request.engine = Suspended.of(member, decoded=decoded)
        else:
            request.itl_sum = request.itl_count = 0
            if self._semantics.late_first_token:
                request.ttft = -1
        self.waiting.push_front(request)
        self._metrics.preemptions += 1
        if alone:
            store = self.store
            hit = store.match(self._chains.keys(request), request.prompt_len // store.block_size)
            self._preempted_alone(request, len(hit), self.target(request))

    # ------------------------------------------------------------------------- schedule lag

    def keep(self, member: Member) -> None:
        """``member`` has left the batch, but stays in the way for one choice more."""
        if member.decoding:
            self.store.settle(member)
            member.decoding = False
            member.stored = max(member.stored, member.progress)
        self.leaving.append(member)

    def let_go(self) -> None:
        """Give the blocks of the members back that were to keep them for one choice more."""
        for member in self.leaving:
            self.store.release(member)
        self.leaving.clear()

    def catch_up(self) -> None:
        """The next choice is of the present, whoever has come or gone."""
        self.let_go()
        if self.waiting.hidden:
            self.waiting.reveal()
