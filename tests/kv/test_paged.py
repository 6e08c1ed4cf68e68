"""The single-tier KV store: the worked example of the specification (02, section 12), and laws."""

from __future__ import annotations

import numpy as np
import pytest

from blis_core.contracts import KVSequence
from blis_core.errors import BlisError
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore


def chain(table, prompt, output=()):
    tokens = np.array([*prompt, *output], dtype=np.int32)
    return table.intern(tokens, len(prompt))


def admit(store, table, prompt, rank, output=()):
    seq = KVSequence(chain(table, prompt, output), rank)
    hit = store.match(seq.keys, len(prompt) // store.block_size)
    assert store.admit(seq, hit, len(prompt) - len(hit) * store.block_size)
    return seq


def test_worked_example():
    table, store = ChainTable(2), PagedKVStore(6, 2)
    a = admit(store, table, [1, 2, 3, 4, 5], 1, [6, 7, 8])
    assert (a.blocks, store.free_list(), store.misses) == ([0, 1, 2], [3, 4, 5], 3)
    assert store.append(a, 5)
    assert store.match(chain(table, [1, 2, 3, 4, 5, 6]), 3) == [0, 1, 2]
    assert store.append(a, 6)
    assert (a.blocks, store.free_list(), store.misses) == ([0, 1, 2, 3], [4, 5], 4)
    b = admit(store, table, [1, 2, 3, 4, 9], 2)
    assert (b.blocks, store.hits, store.misses, store.free_list()) == ([0, 1, 4], 2, 5, [5])
    store.release(a)
    assert store.free_list() == [5, 3, 2]
    store.release(b)
    assert store.free_list() == [5, 3, 2, 4, 1, 0]
    c = admit(store, table, [1, 2, 3, 4, 5, 6, 7, 7], 3)
    assert (c.blocks, store.free_list(), store.hits, store.misses) == ([0, 1, 2, 5], [3, 4], 5, 6)
    d = admit(store, table, [1, 2, 3], 4)
    assert (d.blocks, store.free_list(), store.hits, store.misses) == ([0, 3], [4], 6, 7)
    assert store.hit_rate() == 6 / 13


def test_a_refusal_changes_nothing():
    table, store = ChainTable(2), PagedKVStore(3, 2)
    a = admit(store, table, [1, 2, 3, 4], 1)
    b = KVSequence(chain(table, [1, 2, 9, 9, 9, 9]), 2)
    hit = store.match(b.keys, 3)
    assert hit == [0]
    before = (store.free_list(), store.hits, store.misses, store.used_blocks)
    assert not store.admit(b, hit, 4)
    assert not store.extend(a, 4, 10)
    assert (store.free_list(), store.hits, store.misses, store.used_blocks) == before
    assert b.blocks == []


@pytest.mark.parametrize(("blocks", "size"), [(0, 16), (-1, 16), (4, 0)])
def test_nonsense_sizes_are_refused(blocks, size):
    with pytest.raises(BlisError, match="--total-kv-blocks"):
        PagedKVStore(blocks, size)


def test_the_queue_of_free_blocks_is_compacted():
    table, store = ChainTable(1), PagedKVStore(4, 1)
    for i in range(40_000):
        store.release(admit(store, table, [i, i + 1], i))
    assert len(store._queue) < 40_000
    assert sorted(store.free_list()) == [0, 1, 2, 3]
