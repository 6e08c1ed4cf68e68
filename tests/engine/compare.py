"""Runs one workload through the product's engine and through the naive one."""

from __future__ import annotations

import numpy as np

from blis_core.contracts import MAX_INT64, KVSetup, Request
from blis_core.engine.instance import Instance
from blis_core.engine.schedulers import (
    PRIORITY_POLICIES,
    Fcfs,
    PriorityFcfs,
    ReversePriority,
    ShortestJobFirst,
)
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore
from blis_core.kv.tiered import TieredKVStore
from tests.engine.naive import Cache, Engine, Req
from tests.kv.literal_tiered import TieredCache

SCHEDULERS = {
    "fcfs": Fcfs,
    "priority-fcfs": PriorityFcfs,
    "reverse-priority": ReversePriority,
    "sjf": ShortestJobFirst,
}


def product(
    requests, latency, *, blocks, size, limits, scheduler="fcfs", priority="constant",
    horizon=MAX_INT64, fast_forward=True, cuts=(), tier=None, instance=Instance,
):  # fmt: skip
    """Run ``requests`` (id, arrival, prompt, output, deadline, max_output).

    ``tier`` is (CPU blocks, transfer bandwidth, base latency), if there is a second tier.
    """
    chains = ChainTable(size)
    cpu_blocks, bandwidth, latency_us = tier or (0, 1.0, 0)
    setup = KVSetup(
        total_blocks=blocks, block_size=size, cpu_blocks=cpu_blocks,
        transfer_bandwidth=bandwidth, transfer_base_latency=latency_us,
    )  # fmt: skip
    instance = instance(
        "instance_0",
        latency=latency,
        store=TieredKVStore(setup) if tier else PagedKVStore(setup),
        chains=chains,
        scheduler=SCHEDULERS[scheduler](PRIORITY_POLICIES[priority]),
        limits=limits,
        horizon=horizon,
        fast_forward=fast_forward,
    )
    made = []
    for name, arrival, prompt, output, deadline, budget in requests:
        request = Request(
            name, arrival, np.array([*prompt, *output], dtype=np.int32), len(prompt), len(output),
            deadline=deadline, max_output=budget,
        )  # fmt: skip
        made.append(request)
        if arrival <= horizon:
            instance.inject(request, arrival)
    for cut in cuts:
        instance.advance(cut)
    instance.advance()
    instance.finish()
    return instance, made


def naive(
    requests, latency, *, blocks, size, limits, scheduler="fcfs", priority="constant",
    horizon=MAX_INT64, tier=None,
):  # fmt: skip
    """The same through the naive engine."""
    made = [Req(n, a, list(p), list(o), d, m) for n, a, p, o, d, m in requests]
    engine = Engine(
        latency=latency, kv=TieredCache(blocks, size, *tier) if tier else Cache(blocks, size),
        limits=limits, scheduler=scheduler,
        sign=PRIORITY_POLICIES[priority].sign, horizon=horizon,
    )  # fmt: skip
    return engine.run(made), made


def flat(chain) -> tuple:
    """All tokens of a block hash of the naive engine, from the start on; () without one."""
    return flat(chain[0]) + chain[1] if chain else ()


def contents(table) -> dict[int, tuple]:
    """What all keys of a chain table stand for, in the same form."""
    names = {-1: ()}
    segments = list(table._roots.values())
    for segment in segments:
        segments += (segment.children or {}).values()
        tokens = segment.tokens.tolist()
        for i in range(segment.blocks):
            names[segment.base + i] = tuple(tokens[: (segment.start + i + 1) * table.block_size])
    return names


def cpu_state(store, names):
    """Counters and contents of the CPU tier, the oldest block first."""
    if not isinstance(store, TieredKVStore):
        return None
    return (
        store.cpu_misses, store.cpu.stores, store.cpu.evictions, store.pending_us,
        store.hit_rate(), store.thrashing_rate(),
        [names[key] for key in list(store.cpu.keys())],
    )  # fmt: skip


def naive_cpu_state(cache):
    """The same of a naive cache."""
    if not isinstance(cache, TieredCache):
        return None
    looked_up = cache.hits + cache.misses + cache.cpu_misses
    return (
        cache.cpu_misses, cache.stores, cache.evictions, cache.pending,
        cache.hits / looked_up if looked_up else 0.0,
        cache.evictions / cache.stores if cache.stores else 0.0,
        [flat(chain) for chain in cache.cpu],
    )  # fmt: skip


def outcome(instance: Instance, requests) -> dict:
    """Everything observable of a product run."""
    m = instance.metrics
    names = contents(instance._chains)
    values = np.repeat(m.itl_values, m.itl_weights.astype(np.int64))
    return {
        "counts": (
            m.completed, m.preemptions, m.dropped_unservable, m.timed_out, m.length_capped,
            m.kv_allocation_failures, m.input_tokens, m.output_tokens,
            m.still_queued, m.still_running,
        ),
        "ended": m.sim_ended,
        "itls": sorted(values.tolist()),
        "queue": (m.queue_sum, m.queue_samples),
        "peak": m.peak_used_blocks,
        "kv": (instance.store.hits, instance.store.misses, instance.store.used_blocks),
        "free": [names[key] for key in instance.store.free_keys()],
        "index": sorted(names[key] for key in instance.store.cached_keys()),
        "cpu": cpu_state(instance.store, names),
        "requests": [
            (r.id, r.state, r.ttft, r.e2e, r.scheduling_delay, r.itl_sum, r.length_capped)
            for r in requests
        ],
    }  # fmt: skip


def expected(engine: Engine, requests) -> dict:
    """The same of a naive run."""
    c = engine.count
    return {
        "counts": (
            c["completed"], c["preempted"], c["dropped"], c["timed_out"], c["capped"],
            c["failures"], c["inputs"], c["outputs"],
            len(engine.waiting), len(engine.running),
        ),
        "ended": min(engine.clock or 0, engine.horizon),
        "itls": sorted(engine.itls),
        "queue": (sum(engine.samples), len(engine.samples)),
        "peak": engine.peak,
        "kv": (engine.kv.hits, engine.kv.misses, engine.kv.total - len(engine.kv.free)),
        "free": [flat(engine.kv.hash[block]) for block in engine.kv.free],
        "index": sorted(map(flat, engine.kv.index)),
        "cpu": naive_cpu_state(engine.kv),
        "requests": [
            (r.id, r.state, r.ttft, r.e2e, r.delay, sum(r.itl), r.capped) for r in requests
        ],
    }  # fmt: skip
