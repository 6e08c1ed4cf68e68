"""Runs one workload through the product's engine and through the naive one."""

from __future__ import annotations

import numpy as np

from blis_core.contracts import MAX_INT64, Request
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
from tests.engine.naive import Engine, Req

SCHEDULERS = {
    "fcfs": Fcfs,
    "priority-fcfs": PriorityFcfs,
    "reverse-priority": ReversePriority,
    "sjf": ShortestJobFirst,
}


def product(
    requests, latency, *, blocks, size, limits, scheduler="fcfs", priority="constant",
    horizon=MAX_INT64, fast_forward=True, store=PagedKVStore, cuts=(),
):  # fmt: skip
    """Run ``requests`` (id, arrival, prompt, output, deadline, max_output)."""
    chains = ChainTable(size)
    instance = Instance(
        "instance_0",
        latency=latency,
        store=store(blocks, size),
        chains=chains,
        scheduler=SCHEDULERS[scheduler](PRIORITY_POLICIES[priority]),
        limits=limits,
        horizon=horizon,
        fast_forward=fast_forward,
    )
    made = []
    for name, arrival, prompt, output, deadline, budget in requests:
        request = TextRequest(
            name, arrival, np.array([*prompt, *output], dtype=np.int32), len(prompt), len(output),
            deadline=deadline, max_output=budget,
        )  # fmt: skip
        request.texts = (list(prompt), list(output))
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
    horizon=MAX_INT64,
):  # fmt: skip
    """The same through the naive engine."""
    made = [Req(n, a, list(p), list(o), d, m) for n, a, p, o, d, m in requests]
    engine = Engine(
        latency=latency, blocks=blocks, size=size, limits=limits, scheduler=scheduler,
        sign=PRIORITY_POLICIES[priority].sign, horizon=horizon,
    )  # fmt: skip
    return engine.run(made), made


def flat(chain) -> tuple:
    """All tokens of a block hash of the naive engine, from the start on; () without one."""
    return flat(chain[0]) + chain[1] if chain else ()


def contents(requests, size) -> dict[int, tuple]:
    """What the keys of all these requests stand for, in the same form."""
    names = {-1: ()}
    for request in requests:
        prompt, output = request.texts
        for keys, tokens in ((request.keys, prompt + output), (request.output_keys, output)):
            for i, key in enumerate(keys or ()):
                names[key] = tuple(tokens[: (i + 1) * size])
    return names


class TextRequest(Request):
    """Remembers its tokens."""

    __slots__ = ("texts",)


def outcome(instance: Instance, requests) -> dict:
    """Everything observable of a product run."""
    m = instance.metrics
    names = contents(requests, instance.store.block_size)
    values = np.repeat(m.itl_values, m.itl_weights)
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
        "requests": [
            (r.id, r.state, r.ttft, r.e2e, r.delay, sum(r.itl), r.capped) for r in requests
        ],
    }  # fmt: skip
