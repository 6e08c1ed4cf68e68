"""The tiered KV store: the worked example of the specification (02, section 12), and its parts."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import KVSequence, KVSetup
from blis_core.errors import BlisError
from blis_core.kv.chains import ChainTable
from blis_core.kv.reuse import shared_misses, sum_monotone, walk
from blis_core.kv.tiered import TieredKVStore


class Bench:
    """A store and its chain table."""

    def __init__(self, **setup):
        self.table = ChainTable(setup["block_size"])
        self.store = TieredKVStore(KVSetup(**setup))
        self.table.listeners.append(self.store.chain_shared)
        self.rank = 0

    def sequence(self, prompt, output=()):
        self.rank += 1
        tokens = np.array([*prompt, *output], dtype=np.int32)
        chain = self.table.intern(tokens, len(prompt))
        return KVSequence(chain, self.rank, tokens, len(prompt))

    def admit(self, seq, new_tokens=None):
        hit = self.store.match(seq.keys, seq.keys.prompt_blocks)
        rest = seq.prompt_len - len(hit) * self.store.block_size
        return self.store.admit(seq, hit, rest if new_tokens is None else new_tokens)


def test_worked_example():
    bench = Bench(
        total_blocks=4, block_size=2, cpu_blocks=3, transfer_bandwidth=1.5, transfer_base_latency=5
    )
    store = bench.store
    a, c, e, f, h = map(
        bench.sequence,
        ([1, 2, 3, 4, 5, 6], [21, 22, 23, 24], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4], [1, 2, 3, 4, 99]),
    )
    one, two, three = e.keys
    assert bench.admit(a)
    store.mirror([a], 1)
    assert (store.cpu.stores, store.cpu.evictions, store.cpu.keys()) == (3, 0, [one, two, three])
    store.release(a)
    assert bench.admit(c)
    assert (store.misses, store.free_keys()) == (5, [two, one])
    # the reload takes the block of the chain that it extends
    assert not bench.admit(e)
    assert (store.cpu_misses, store.free_keys(), store.pending_us) == (0, [one, three], 7)
    assert store.cpu.keys() == [one, two, three]
    assert store.consume_transfer_us() == 7
    assert store.consume_transfer_us() == 0
    assert bench.admit(f)
    assert (store.hits, store.misses, store.hit_rate()) == (1, 6, 1 / 7)
    assert not bench.admit(h)
    assert (store.cpu_misses, store.hit_rate()) == (1, 1 / 8)


def test_a_refusal_may_leave_blocks_claimed():
    bench = Bench(total_blocks=4, block_size=2, cpu_blocks=8)
    store = bench.store
    early, late = bench.sequence([1, 2, 3, 4]), bench.sequence([1, 2, 3, 4, 5, 6, 7, 8])
    assert bench.admit(early)
    store.mirror([early], 1)
    store.release(early)
    other = bench.sequence([11, 12, 13, 14, 15, 16])
    assert bench.admit(other)  # recycles what `early` had, but for its first block
    store.release(other)
    held = bench.sequence([21, 22])
    assert bench.admit(held)
    assert not bench.admit(late)
    assert store.used_blocks == 3  # two of them belong to a request that waits
    assert store.hits == 2
    store.forget(late.keys)
    assert (store.used_blocks, len(store.free_keys())) == (1, 3)


def test_a_claim_may_leave_a_gap_behind_a_partial_block():
    bench = Bench(total_blocks=7, block_size=4, cpu_blocks=20)
    store = bench.store
    prompt = [*range(1, 21)]
    first = bench.sequence(prompt)
    assert bench.admit(first)
    store.mirror([first], 1)
    store.release(first)
    others = [bench.sequence([100 + i]) for i in range(7)]
    for other in others:
        assert bench.admit(other)
    for other in others[:4]:
        store.release(other)
    second = bench.sequence(prompt)
    assert bench.admit(second, 6)  # one block and a half
    assert not store.extend(second, 6, 20)  # claims what it has reloaded, then needs more
    keys = list(second.keys)
    assert second.layout.keys == [keys[0], -1, keys[2]]
    assert (store.hits, store.used_blocks) == (1, 6)
    store.release(second)
    assert (second.blocks, store.used_blocks) == ([], 3)


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"cpu_blocks": 0}, "--kv-cpu-blocks"),
        ({"cpu_blocks": -3}, "--kv-cpu-blocks"),
        ({"transfer_bandwidth": 0.0}, "--kv-transfer-bandwidth"),
        ({"transfer_bandwidth": float("inf")}, "--kv-transfer-bandwidth"),
        ({"transfer_bandwidth": float("nan")}, "--kv-transfer-bandwidth"),
        ({"transfer_base_latency": -1}, "--kv-transfer-base-latency"),
        ({"total_blocks": 0}, "--total-kv-blocks"),
    ],
)
def test_nonsense_is_refused(change, flag):
    setup = {"total_blocks": 4, "block_size": 2, "cpu_blocks": 3} | change
    with pytest.raises(BlisError, match=flag):
        TieredKVStore(KVSetup(**setup))


def in_passes(passes, capacity):
    """Misses of each pass over lists of keys, one key after the other."""
    tier, counts = OrderedDict(), []
    for keys in passes:
        counts.append(0)
        for key in keys:
            if key not in tier:
                counts[-1] += 1
                if len(tier) == capacity:
                    tier.popitem(last=False)
            tier[key] = None
            tier.move_to_end(key)
    return counts


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 9)), min_size=1),
    st.integers(1, 40),
)
def test_reuse_distances_equal_a_literal_tier(members, capacity):
    """Members with the beginning of one of four common segments and blocks of their own."""
    spans, keys, holders = [], [], {}
    for i, (segment, shared, own) in enumerate(members):
        ranges = [(100 * segment, shared), (1000 + 100 * i, own)]
        spans.append(([span for span in ranges if span[1]], shared + own))
        mine = [*range(100 * segment, 100 * segment + shared)]
        mine += range(1000 + 100 * i, 1000 + 100 * i + own)
        keys += mine
        for key in mine:
            holders[key] = holders.get(key, 0) + 1
    if len(holders) <= capacity:
        return
    now = walk(spans, holders)
    _, misses, again = in_passes([keys] * 3, capacity)
    assert misses == again == now.private + shared_misses(now, now, capacity)
    assert now.shared + now.private == len(keys)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_sums_of_rising_values(rises):
    values = np.cumsum(rises).tolist()
    assert sum_monotone(values.__getitem__, 0, len(values) - 1) == sum(values)
