#!/usr/bin/env python3
"""Micro benchmarks: what a token, a request, a step and a KV block cost inside the simulator.

    benchmarks/engine.py [--repeat N] [GROUP ...]

Groups are random, workload, engine, kv and latency. Each line is the best of several repetitions.
For whole command lines see run.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from blis_core import log
from blis_core.config import RunConfig
from blis_core.contracts import (
    MAX_INT64,
    BatchShape,
    KVSequence,
    KVSetup,
    LatencyModel,
    LatencySetup,
    Request,
)
from blis_core.deployment import resolve
from blis_core.engine.formation import Limits
from blis_core.engine.instance import Instance
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore
from blis_core.plugins import get_registry
from blis_core.policies.choice import Policies
from blis_core.rng import GoRand
from blis_core.workload.flags import FlagWorkload, LengthBounds, generate

BLOCK = 16
MODEL = "qwen/qwen3-14b"


class Constant(LatencyModel):
    """Every step takes 10 ms, so that the engine's own cost is what is measured."""

    def step_time(self, shape: BatchShape) -> int:
        """10 ms."""
        return 10_000

    def decode_times(self, decodes: int, context_sum: int, steps: int) -> np.ndarray:
        """10 ms, as an array."""
        return np.full(steps, 10_000, dtype=np.int64)


_repeat = 5


def show(
    what: str,
    count: int,
    call: Callable[[], object] | Callable[[Any], object],
    *,
    before: Callable[[], Any] | None = None,
) -> None:
    """Print the time of one of the ``count`` operations that ``call`` does.

    What ``before`` makes is not timed, and is given to ``call``.
    """
    best = float("inf")
    for _ in range(_repeat):
        arguments = [before()] if before else []
        start = time.perf_counter()
        call(*arguments)
        best = min(best, time.perf_counter() - start)
    each = best / count
    scaled = f"{each * 1e9:8.1f} ns" if each < 1e-6 else f"{each * 1e6:8.2f} us"
    print(f"{what:<56}{scaled}", flush=True)


# --------------------------------------------------------------------------------------- groups


def random() -> None:
    """The random streams."""
    rng = GoRand(1)
    show("token id, a million at once", 1_000_000, lambda: rng.tokens(1_000_000))
    show("token id, 500 at once", 100_000, lambda: [rng.tokens(500) for _ in range(200)])
    show("uniform float, 10,000 at once", 10_000, lambda: rng.float64s(10_000))
    show("normal float, one at a time", 10_000, lambda: [rng.norm() for _ in range(10_000)])


def workload() -> None:
    """From figures to requests."""
    lengths = LengthBounds(512, 256, 2, 7000)

    def requests(prefix: int) -> list[Request]:
        made = FlagWorkload(
            rate=10.0,
            num_requests=2000,
            seed=42,
            horizon=MAX_INT64,
            prefix_tokens=prefix,
            prompt=lengths,
            output=lengths,
            timeout_us=0,
        )
        return list(generate(made))

    show("request with 512 + 512 tokens", 2000, lambda: requests(0))
    show("the same with a shared prefix of 1024", 2000, lambda: requests(1024))
    some = requests(0)

    def keys() -> None:
        chains = ChainTable(BLOCK)
        for request in some:
            request.keys = None
            chains.keys(request)

    show("block keys of such a request", 2000, keys)


def _instance(blocks: int, running: int, fast_forward: bool) -> Instance:
    return Instance(
        "instance_0",
        latency=Constant(_setup()),
        store=PagedKVStore(KVSetup(total_blocks=blocks, block_size=BLOCK)),
        chains=ChainTable(BLOCK),
        scheduler=Policies().make_scheduler(),
        limits=Limits(max_running=running, max_tokens=1 << 20),
        fast_forward=fast_forward,
    )


def _setup() -> LatencySetup:
    return resolve(RunConfig(model=MODEL)).setup


def _simulated(
    requests: int, prompt: int, output: int, running: int, *, fast_forward: bool = True
) -> Callable[[], None]:
    """A simulation of equal requests that are all there at the start."""
    tokens = [GoRand(i).tokens(prompt + output) for i in range(requests)]

    def simulate() -> None:
        blocks = running * (prompt + output + BLOCK) // BLOCK
        instance = _instance(blocks, running, fast_forward)
        for i, ids in enumerate(tokens):
            instance.inject(Request(f"r{i}", 0, ids, prompt, output), 0)
        instance.advance()
        assert instance.metrics.completed == requests

    return simulate


def engine() -> None:
    """The step loop of one instance."""
    steps = 4000
    show("decode step of 64 requests, run ahead", steps, _simulated(64, 64, steps, 64))
    alone = _simulated(64, 64, steps, 64, fast_forward=False)
    show("decode step of 64 requests, one by one", steps, alone)
    show("decode step of 256 requests, run ahead", steps, _simulated(256, 64, steps, 256))
    show("request of 64 + 1 tokens, from arrival to end", 4000, _simulated(4000, 64, 1, 64))
    show("request of 512 + 128 tokens", 1000, _simulated(1000, 512, 128, 64))


BLOCKS, SEQUENCES = 64, 400
Store = tuple[PagedKVStore, list[KVSequence]]


def _store(*, shared: bool, answer: int = 0) -> Store:
    """An empty store, and sequences of 64 blocks of prompt and ``answer`` blocks behind it."""
    chains = ChainTable(BLOCK)
    store = PagedKVStore(KVSetup(total_blocks=(BLOCKS + answer) * SEQUENCES, block_size=BLOCK))
    chains.listeners.append(store.chain_shared)
    sequences = []
    for rank in range(SEQUENCES):
        tokens = GoRand(rank).tokens((BLOCKS + answer) * BLOCK)
        sequences.append(KVSequence(chains.intern(tokens, BLOCKS * BLOCK), rank))
        if shared:
            chains.intern(tokens, BLOCKS * BLOCK)  # somebody else has the same ones
    return store, sequences


def _cached() -> Store:
    """A store in which all prompts are cached."""
    store, sequences = _store(shared=True)
    _hold_and_release((store, sequences))
    return store, sequences


def _hold_and_release(state: Store) -> None:
    store, sequences = state
    for seq in sequences:
        store.admit(seq, store.match(seq.keys, 0), BLOCKS * BLOCK)
    for seq in sequences:
        store.release(seq)


def _match(state: Store) -> None:
    store, sequences = state
    for seq in sequences:
        assert len(store.match(seq.keys, BLOCKS)) == BLOCKS


def _claim_and_release(state: Store) -> None:
    store, sequences = state
    for seq in sequences:
        store.admit(seq, store.match(seq.keys, BLOCKS - 1), BLOCK)
    for seq in sequences:
        store.release(seq)


def _decoding(*, shared: bool) -> tuple[PagedKVStore, list[list[KVSequence]]]:
    store, sequences = _store(shared=shared, answer=32)
    groups: list[list[KVSequence]] = [[] for _ in range(BLOCK)]
    for rank, seq in enumerate(sequences):
        store.admit(seq, store.match(seq.keys, 0), BLOCKS * BLOCK - rank % BLOCK)
        seq.decoding = True
        seq.offset = rank % BLOCK - BLOCKS * BLOCK
        groups[rank % BLOCK].append(seq)
    return store, groups


def _decode(state: tuple[PagedKVStore, list[list[KVSequence]]]) -> None:
    store, groups = state
    store.advance(groups, 0, 16 * BLOCK)


def kv() -> None:
    """The KV store, per sequence of 64 blocks (of 1024 tokens)."""
    for what, shared in (("private", False), ("shared", True)):
        empty, running = partial(_store, shared=shared), partial(_decoding, shared=shared)
        show(f"{what}: admit and release", SEQUENCES, _hold_and_release, before=empty)
        show(f"{what}: decode 16 more blocks", SEQUENCES, _decode, before=running)
    show("shared: find all of it in the cache", SEQUENCES, _match, before=_cached)
    show("shared: claim from the cache, release", SEQUENCES, _claim_and_release, before=_cached)


def latency() -> None:
    """Every installed latency model, for a batch of 64 decodes."""
    registry = get_registry()
    for name in registry.names("latency-model"):
        model = resolve(RunConfig(model=MODEL, latency_model=name)).latency_model()
        shape = BatchShape((), 64, 64_000)

        def single(model: LatencyModel = model, shape: BatchShape = shape) -> None:
            for _ in range(1000):
                model.step_time(shape)

        def bulk(steps: int, model: LatencyModel = model) -> None:
            for _ in range(100):
                model.decode_times(64, 64_000, steps)

        show(f"{name}: step_time", 1000, single)
        for steps in (10, 1000):
            show(
                f"{name}: a step of decode_times, {steps} at once",
                100 * steps,
                lambda bulk=bulk, steps=steps: bulk(steps),
            )


GROUPS = {group.__name__: group for group in (random, workload, engine, kv, latency)}


def main() -> None:
    """Run the groups that are named, or all."""
    global _repeat
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--repeat", type=int, default=_repeat, metavar="N", help="repetitions")
    options = parser.parse_args()
    for name in options.groups:
        if name not in GROUPS:
            parser.error(f"unknown group {name} (groups: {', '.join(GROUPS)})")
    _repeat = options.repeat
    log.set_level("error")
    for name in options.groups or GROUPS:
        print(f"--- {GROUPS[name].__doc__}")
        GROUPS[name]()


if __name__ == "__main__":
    main()
