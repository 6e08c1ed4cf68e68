"""Laws of KV stores. Random small workloads run through the engine, with checks at every call."""

from __future__ import annotations

import random
from typing import Any, ClassVar, NamedTuple

import numpy as np

from blis_core.contracts import BatchShape, KVSequence, KVSetup, KVStore, LatencyModel, Request
from blis_core.engine.formation import Limits
from blis_core.engine.instance import Instance
from blis_core.engine.schedulers import PRIORITY_POLICIES, Fcfs, ShortestJobFirst
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore
from blis_core.testing.checks import UNPREDICTABLE, Cost, cost, fail, require
from blis_core.testing.kv_checks import checked
from blis_core.testing.latency import latency_setup

HORIZON = 300_000  # us; every workload ends long before


class _Linear(LatencyModel):
    """Long enough steps that a store which never admits anybody reaches the horizon soon."""

    analytical = False

    def step_time(self, shape: BatchShape) -> int:
        return 20 + shape.decodes + sum(chunk.new_tokens for chunk in shape.prefills)


class _Scenario(NamedTuple):
    """A workload and the instance that serves it."""

    requests: list[tuple[str, int, list[int], list[int], int]]
    """(id, arrival, prompt, output, deadline)."""
    setup: KVSetup
    limits: Limits
    shortest_first: bool


class KVStoreTests:
    """Subclass it and define ``make``.

    Blocks are conserved and taken exactly where a position needs one, refusals change nothing,
    nothing is found in the cache that was never stored, and runs of decode steps lead to what
    single steps lead to. With ``like_paged`` results equal those of the built-in store.
    """

    like_paged: ClassVar[bool] = False
    """Whether the store claims to give the results of the built-in store ``paged``."""
    workloads: ClassVar[int] = 24
    """Random workloads to try."""

    def make(self, setup: KVSetup) -> KVStore:
        """A new, empty store."""
        raise NotImplementedError("define make(self, setup), which returns a new KV store")

    def setup(self, total_blocks: int, block_size: int) -> KVSetup:
        """What stores are built from. Override it for a store that needs a second tier."""
        return KVSetup(total_blocks=total_blocks, block_size=block_size)

    # ---------------------------------------------------------------------------------- laws

    def test_every_call_keeps_the_contract(self) -> None:
        """Memory is short, prompts share prefixes and come back, requests time out."""
        for seed in range(self.workloads):
            scenario = self._scenario(seed)
            store = checked(self.make(scenario.setup))
            instance, requests = _run(store, scenario)
            waiting = [request for request in requests if request.e2e < 0 and not request.deadline]
            require(
                not waiting or not store.refusals_are_pure,
                f"{len(waiting)} of {len(requests)} requests never completed, although memory"
                " sufficed for each of them",
            )
            require(
                store.used_blocks == 0 or waiting,
                f"{store.used_blocks} blocks are used after the last request has ended",
            )
            instance.finish()

    def test_a_refused_call_changes_nothing(self) -> None:
        """Unless the store says ``refusals_are_pure = False``."""
        inner = self.make(self.setup(8, 4))
        if not inner.refusals_are_pure:
            return
        store, table = checked(inner), ChainTable(4)
        table.listeners.append(store.chain_shared)
        tokens = np.arange(64, dtype=np.int32)
        chain = table.intern(tokens[:20], 20)
        alike = table.intern(np.concatenate([tokens[:8], tokens[40:64]]), 32)
        unlike = table.intern(tokens[20:36], 16)
        store.release(_admit(store, chain, 0))  # so that there are hits to be counted
        holder = _admit(store, chain, 0)  # 5 blocks of 8
        before = len(store.match(alike, 8))
        for keys in (alike, unlike):
            seq = KVSequence(keys, 1, None, len(keys) * 4)
            hit = store.match(keys, len(keys))
            require(
                not store.admit(seq, hit, (len(keys) - len(hit)) * 4),
                f"admit() takes {len(keys) - len(hit)} blocks where 3 are free",
            )
        require(not store.extend(holder, 20, 36), "extend() takes 4 blocks where 3 are free")
        filler = _admit(store, table.intern(tokens[36:48], 12), 2)
        require(not store.append(holder, 20), "append() takes a block where none is free")
        require(
            len(store.match(alike, 8)) == before,
            "the cache holds less of a prompt after refused calls than before them; a call that is"
            " refused must change nothing",
        )
        store.release(filler)
        store.release(holder)

    def test_runs_of_decode_steps_equal_single_steps(self) -> None:
        """``reach`` and ``advance`` are a short cut and nothing else."""
        for seed in range(self.workloads):
            scenario = self._scenario(seed)
            fast, slow = (
                _outcome(*_run(self.make(scenario.setup), scenario, fast_forward=fast_forward))
                for fast_forward in (True, False)
            )
            _require_equal(fast, slow, "in runs of decode steps", "step by step")

    def test_same_workload_gives_same_results(self) -> None:
        """Two new stores do the same, and a store shares nothing with others."""
        for seed in range(0, self.workloads, 3):
            scenario = self._scenario(seed)
            first, second = (_outcome(*_run(self.make(scenario.setup), scenario)) for _ in "ab")
            _require_equal(first, second, "the first time", f"the second time ({UNPREDICTABLE})")

    def test_results_equal_those_of_the_paged_store(self) -> None:
        """If the class sets ``like_paged``."""
        if not self.like_paged:
            return
        for seed in range(self.workloads):
            scenario = self._scenario(seed)
            mine = _outcome(*_run(self.make(scenario.setup), scenario))
            paged = _outcome(*_run(PagedKVStore(scenario.setup), scenario))
            _require_equal(mine, paged, "with this store", "with the store 'paged'")

    def test_a_frozen_view_does_not_move(self) -> None:
        """``match_frozen`` answers as of the last ``freeze`` (or, by default, as of now)."""
        setup = self.setup(64, 4)
        table = ChainTable(4)
        store = self.make(setup)
        table.listeners.append(store.chain_shared)
        prompts = [np.arange(start, start + 40, dtype=np.int32) for start in (0, 100, 200)]
        chains = [table.intern(prompt, 40) for prompt in prompts]
        lookups = [table.intern(prompt, 40) for prompt in prompts]  # by other requests
        _admit(store, chains[0], 0)
        store.freeze()
        frozen = [store.match_frozen(again, 10) for again in lookups]
        live = [len(store.match(again, 10)) for again in lookups]
        require(
            frozen == live,
            f"match_frozen() returns {frozen} right after freeze(), where match() finds {live}",
        )
        _admit(store, chains[1], 1)
        later = [store.match_frozen(again, 10) for again in lookups]
        now = [len(store.match(again, 10)) for again in lookups]
        require(
            later in (frozen, now),
            f"match_frozen() returned {frozen} after freeze() and {later} after a further"
            f" admission, which is neither the past nor the present ({now})",
        )

    def test_cost_does_not_grow_with_the_tokens(self) -> None:
        """Work per block is fine, work per token is not."""
        small, large = self._cost(16), self._cost(1600)
        require(
            not large.exceeds(small),
            f"a request takes {large} if its 20 blocks hold 1600 tokens each, and {small} if they"
            " hold 16: the cost grows with the tokens",
        )

    # --------------------------------------------------------------------------------- pieces

    def _cost(self, size: int) -> Cost:
        store = self.make(self.setup(100, size))
        table = ChainTable(size)
        table.listeners.append(store.chain_shared)
        tokens = np.arange(20 * size, dtype=np.int32)
        chain = table.intern(tokens, len(tokens))

        def live() -> None:
            store.release(_admit(store, chain, 0))

        live()
        return cost(live)

    def _scenario(self, seed: int) -> _Scenario:
        draw = random.Random(seed)
        size = draw.choice([1, 2, 4, 4, 16])
        blocks = draw.choice([4, 8, 12, 20, 60])
        capacity = size * blocks
        shared = [draw.randrange(9) for _ in range(capacity)]
        made: list[tuple[str, int, list[int], list[int], int]] = []
        now = 0
        for i in range(16):
            now += draw.choice([0, 0, 10, 100, 1000])
            prompt = [draw.randrange(1000) for _ in range(draw.randrange(1, 24))]
            if draw.random() < 0.5:
                prompt = shared[: draw.randrange(capacity)] + prompt
            if made and draw.random() < 0.3:  # a further turn of a conversation, or a repetition
                earlier = draw.choice(made)
                prompt = (earlier[2] + earlier[3])[: draw.randrange(1, 60)]
            prompt = prompt[: capacity - 1]
            room = capacity - len(prompt)
            output = [draw.randrange(1000) for _ in range(draw.randrange(1, min(room, 60) + 1))]
            deadline = now + draw.randrange(1, 2000) if draw.random() < 0.2 else 0
            made.append((f"request_{i}", now, prompt, output, deadline))
        limits = Limits(
            max_running=draw.choice([1, 3, 8]),
            max_tokens=draw.choice([2, 16, 2048]),
            long_prefill=draw.choice([0, 0, 7]),
        )
        return _Scenario(made, self.setup(blocks, size), limits, draw.random() < 0.3)


def _admit(store: KVStore, chain: Any, rank: int) -> KVSequence:
    """Admit a whole prompt of full blocks, but for the last token if all of it is cached."""
    size = store.block_size
    seq = KVSequence(chain, rank, None, len(chain) * size)
    hit = store.match(chain, len(chain) - 1)
    if not store.admit(seq, hit, (len(chain) - len(hit)) * size):
        fail(f"admit() refuses {len(chain)} blocks of {store.free_blocks} free ones")
    return seq


def _run(
    store: KVStore, scenario: _Scenario, *, fast_forward: bool = True
) -> tuple[Instance, list[Request]]:
    scheduler = ShortestJobFirst if scenario.shortest_first else Fcfs
    instance = Instance(
        "instance_0",
        latency=_Linear(latency_setup()),
        store=store,
        chains=ChainTable(scenario.setup.block_size),
        scheduler=scheduler(PRIORITY_POLICIES["constant"]),
        limits=scenario.limits,
        horizon=HORIZON,
        fast_forward=fast_forward,
    )
    requests = []
    for name, arrival, prompt, output, deadline in scenario.requests:
        tokens = np.array([*prompt, *output], dtype=np.int32)
        request = Request(name, arrival, tokens, len(prompt), len(output), deadline=deadline)
        requests.append(request)
        instance.inject(request, arrival)
    instance.advance()
    return instance, requests


def _outcome(instance: Instance, requests: list[Request]) -> dict[str, object]:
    """What a run shows of the store's doing."""
    metrics = instance.finish()
    return {
        "preemptions": metrics.preemptions,
        "peak of used blocks": metrics.peak_used_blocks,
        "failed allocations": metrics.kv_allocation_failures,
        "hit rate": instance.store.hit_rate(),
        "thrashing rate": instance.store.thrashing_rate(),
        "used blocks at the end": instance.store.used_blocks,
        "times of the requests": [
            (r.id, r.state, r.scheduling_delay, r.ttft, r.e2e) for r in requests
        ],
    }


def _require_equal(
    first: dict[str, object], second: dict[str, object], one: str, other: str
) -> None:
    __tracebackhide__ = True
    for name, value in first.items():
        mine, theirs = value, second[name]
        if mine == theirs:
            continue
        if isinstance(mine, list) and isinstance(theirs, list):
            mine, theirs = next(
                pair for pair in zip(mine, theirs, strict=True) if len(set(pair)) > 1
            )
        fail(f"{name}: {mine} {one}, {theirs} {other}")
