"""Block keys: equal exactly when the token chains are equal."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blis_core.kv.chains import ChainTable
from blis_core.rng import GoRand

sequences = st.lists(
    st.lists(st.integers(0, 2), max_size=24).map(lambda x: np.array(x, dtype=np.int32)),
    min_size=1,
    max_size=12,
)


@given(sequences, st.integers(1, 5))
def test_keys_name_chains(tokens, size):
    table = ChainTable(size)
    names: dict[int, bytes] = {}
    for sequence in tokens:
        keys = table.intern(sequence, len(sequence))
        assert len(keys) == len(sequence) // size
        for i, key in enumerate(keys):
            # the same key stands for the same tokens from the start on
            assert names.setdefault(key, sequence[: (i + 1) * size].tobytes()) == (
                sequence[: (i + 1) * size].tobytes()
            )
    assert len(set(names.values())) == len(names)  # and the same tokens for one key


def test_an_unshared_sequence_owns_a_range():
    table = ChainTable(4)
    assert list(table.intern(np.arange(11, dtype=np.int32), 11)) == [0, 1]
    chain = table.intern(np.arange(100, 120, dtype=np.int32), 20)
    assert list(chain) == [chain[i] for i in range(len(chain))] == [2, 3, 4, 5, 6]
    assert (chain[-1], chain[1:3], chain.is_private()) == (6, [3, 4], True)
    assert not table.output_shared


def test_growing_into_generated_blocks_is_noticed():
    table = ChainTable(2)
    table.intern(np.array([1, 2, 3, 4, 5, 6], dtype=np.int32), 2)
    assert not table.output_shared
    table.intern(np.array([1, 2, 3, 4, 9, 9], dtype=np.int32), 6)
    assert table.output_shared


def test_stores_are_told_when_a_tail_stops_being_private():
    table = ChainTable(2)
    told = []
    table.listeners.append(lambda segment: told.append((segment.base, segment.blocks)))
    first = table.intern(np.array([1, 2, 3, 4], dtype=np.int32), 4)
    second = table.intern(np.array([1, 2, 5, 6], dtype=np.int32), 4)
    assert (told, first.is_private(), second.is_private()) == ([(0, 2)], False, True)
    table.intern(np.array([1, 2, 7, 7], dtype=np.int32), 4)
    assert (told, second.is_private()) == ([(0, 2)], True)
    table.intern(np.array([1, 2, 5, 6, 8, 8], dtype=np.int32), 6)
    assert (told, second.is_private()) == ([(0, 2), (2, 1)], False)


def test_what_is_kept_when_others_are_forgotten_keeps_no_memory_of_theirs():
    table, rng = ChainTable(16), GoRand(1)
    held = table.intern(rng.tokens(160), 160)
    for _ in range(20):
        table.intern(rng.tokens(1600), 1600)
    assert held.own.tokens.base is not None  # a piece of something bigger
    before = held.own.tokens.tolist()
    marks = table.marks()
    marks.add([held[3]])
    table.forget(marks)
    assert held.own.tokens.base is None
    assert held.own.tokens.tolist() == before
    again = table.intern(held.own.tokens, 160)
    assert list(again) == list(held)
