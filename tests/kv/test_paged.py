"""The single-tier KV store: the worked example of the specification (02, section 12), and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import KVSequence, KVSetup
from blis_core.errors import BlisError
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore


class Bench:
    """A store and its chain table, with sequences by name."""

    def __init__(self, blocks, size):
        self.table = ChainTable(size)
        self.store = PagedKVStore(KVSetup(total_blocks=blocks, block_size=size))
        self.table.listeners.append(self.store.chain_shared)
        self.rank = 0

    def chain(self, prompt, output=()):
        return self.table.intern(np.array([*prompt, *output], dtype=np.int32), len(prompt))

    def sequence(self, prompt, output=()):
        self.rank += 1
        return KVSequence(self.chain(prompt, output), self.rank)

    def admit(self, prompt, output=()):
        store, seq = self.store, self.sequence(prompt, output)
        hit = store.match(seq.keys, len(prompt) // store.block_size)
        assert store.admit(seq, hit, len(prompt) - len(hit) * store.block_size)
        return seq

    def state(self):
        store = self.store
        return store.used_blocks, store.hits, store.misses, store.free_keys()


def test_worked_example():
    bench = Bench(6, 2)
    store = bench.store
    a = bench.admit([1, 2, 3, 4, 5], [6, 7, 8])
    one, two, three, four = bench.chain([1, 2, 3, 4, 5, 6, 7, 8])
    assert bench.state() == (3, 0, 3, [-1, -1, -1])
    assert store.append(a, 5)  # fills the block that the prompt left partial
    assert len(store.match(bench.chain([1, 2, 3, 4, 5, 6]), 3)) == 3
    assert store.append(a, 6)
    assert bench.state() == (4, 0, 4, [-1, -1])
    b = bench.admit([1, 2, 3, 4, 9])
    assert bench.state() == (5, 2, 5, [-1])
    store.release(a)
    assert bench.state()[3] == [-1, -1, three]  # the first two are still used by b
    store.release(b)
    assert bench.state()[3] == [-1, -1, three, -1, two, one]
    c = bench.admit([1, 2, 3, 4, 5, 6, 7, 7])  # hits the block that straddles a's answer
    assert bench.state() == (4, 5, 6, [-1, -1])
    bench.admit([1, 2, 3])
    assert bench.state() == (5, 6, 7, [-1])
    assert store.hit_rate() == 6 / 13
    assert len(c.blocks) == 3  # the fourth lies in its private tail
    assert four not in store.cached_keys()


def test_a_private_sequence_is_one_extent_whatever_its_length():
    bench = Bench(100_000, 16)
    seq = bench.admit(range(1_000_000))
    assert (seq.blocks, bench.store.used_blocks) == ([], 62_500)
    bench.store.release(seq)
    assert len(bench.store._queue) == 2  # behind what has never been used
    hit = bench.store.match(seq.keys, 62_500)
    assert len(hit) == 62_500


def test_a_tail_that_is_found_by_another_gets_ids_in_place():
    bench = Bench(10, 2)
    first = bench.admit([1, 2, 3, 4, 5])
    bench.store.release(bench.admit([7, 7, 8, 8]))
    before = bench.state()
    bench.chain([1, 2, 9, 9])  # shares the first block of a running sequence
    bench.chain([7, 7, 8, 8])  # and all of a released one
    assert bench.state() == before
    assert len(first.blocks) == 3
    assert len(bench.admit([7, 7, 8, 8, 8]).blocks) == 2  # the third is private
    assert bench.store.hits == 2


def test_a_refusal_changes_nothing():
    bench = Bench(3, 2)
    store = bench.store
    a = bench.admit([1, 2, 3, 4])
    b = bench.sequence([1, 2, 9, 9, 9, 9])
    hit = store.match(b.keys, 3)
    assert len(hit) == 1
    before = bench.state()
    assert not store.admit(b, hit, 4)
    assert not store.extend(a, 4, 10)
    assert bench.state() == before
    assert b.blocks == []


def test_a_block_left_in_the_queue_takes_the_index_entry_of_its_successor_along():
    bench = Bench(3, 2)
    store = bench.store
    store.release(bench.admit([1, 2]))
    output = bench.chain([5, 6])
    for rank in (2, 3):  # a request whose prompt is cached as a whole, preempted once
        seq = KVSequence(bench.chain([1, 2]), rank)
        assert store.admit(seq, store.match(seq.keys, 1), 0)
        store.restart(seq, output, 2)
        assert store.append(seq, 2)
        assert store.append(seq, 3)
        (answer,) = seq.keys
        assert answer in store.cached_keys()
        if rank == 2:
            store.release(seq)
    assert store.free_keys()[-1] == answer
    bench.admit([7, 7, 8, 8])
    assert answer not in store.cached_keys()  # although `seq` still has it


@pytest.mark.parametrize(("blocks", "size"), [(0, 16), (-1, 16), (4, 0)])
def test_nonsense_sizes_are_refused(blocks, size):
    with pytest.raises(BlisError, match="--total-kv-blocks"):
        PagedKVStore(KVSetup(total_blocks=blocks, block_size=size))


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=40), st.integers(1, 4))
def test_blocks_are_conserved(steps, size):
    """Whatever is admitted and released, free and used blocks add up."""
    bench = Bench(40, size)
    held = []
    for i, (length, shared) in enumerate(steps):
        prompt = [0 if shared else i + 1] * length
        seq = bench.sequence(prompt)
        hit = bench.store.match(seq.keys, length // size)
        if bench.store.admit(seq, hit, length - len(hit) * size):
            held.append(seq)
        elif held:
            bench.store.release(held.pop(0))
        assert len(bench.store.free_keys()) == bench.store.free_blocks
        assert 0 <= bench.store.used_blocks <= 40
    for seq in held:
        bench.store.release(seq)
    assert bench.store.used_blocks == 0
