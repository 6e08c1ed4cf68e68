"""Random streams: known answers of the reference, and bulk draws against single ones."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.rng import (
    VOCABULARY,
    GoRand,
    PartitionedRandom,
    fnv1a64,
    go_log,
    stream_seed,
)

ANSWERS = json.loads((Path(__file__).parent / "data" / "go_math_rand_answers.json").read_text())
SEEDS = [pytest.param(int(seed), known, id=seed) for seed, known in ANSWERS["seeds"].items()]

SINGLE: dict[str, Callable[[GoRand], float]] = {
    "uint64": GoRand.uint64,
    "int63": GoRand.int63,
    "uint32": GoRand.uint32,
    "int31": GoRand.int31,
    "float64": GoRand.float64,
    "norm": GoRand.norm,
    "exp": GoRand.exp,
    "intn_128000": lambda r: r.intn(128000),
    "intn_1024": lambda r: r.intn(1024),
    "intn_3000000000": lambda r: r.intn(3000000000),
    "int63n_6e18": lambda r: r.int63n(6 * 10**18),
    "int31n_1500000000": lambda r: r.int31n(1500000000),
}

BULK: dict[str, Callable[[GoRand, int], Any]] = {
    "uint64": GoRand.uint64s,
    "int63": GoRand.int63s,
    "float64": GoRand.float64s,
    "norm": GoRand.norms,
    "exp": GoRand.exps,
    "intn_128000": GoRand.tokens,
    "intn_1024": lambda r, n: r.intns(1024, n),
    "intn_3000000000": lambda r, n: r.intns(3000000000, n),
    "int63n_6e18": lambda r, n: r.intns(6 * 10**18, n),
    "int31n_1500000000": lambda r, n: r.intns(1500000000, n),
}


def digest(values: list[int]) -> int:
    """The running hash of the known answers."""
    h = 0
    for v in values:
        h = (h * 1099511628211 + v) & (2**64 - 1)
    return h


def pickled(r: GoRand) -> GoRand:
    clone: GoRand = pickle.loads(pickle.dumps(r))
    return clone


@pytest.mark.parametrize(("seed", "known"), SEEDS)
@pytest.mark.parametrize("draw", SINGLE)
def test_single_draws(seed: int, known: dict[str, Any], draw: str) -> None:
    r = GoRand(seed)
    assert [SINGLE[draw](r) for _ in range(10)] == known[draw]


@pytest.mark.parametrize(("seed", "known"), SEEDS)
@pytest.mark.parametrize("draw", BULK)
def test_bulk_draws(seed: int, known: dict[str, Any], draw: str) -> None:
    assert BULK[draw](GoRand(seed), 10).tolist() == known[draw]


@pytest.mark.parametrize(("seed", "known"), SEEDS)
def test_permutations(seed: int, known: dict[str, Any]) -> None:
    r = GoRand(seed)
    assert r.perm(10) == known["perm_10"]
    assert r.int63() == known["after_perm_10_int63"]
    items = list(range(10))
    GoRand(seed).shuffle(items)
    assert items == known["shuffle_10"]


@pytest.mark.parametrize(("seed", "known"), SEEDS)
def test_a_million_outputs(seed: int, known: dict[str, Any]) -> None:
    x = GoRand(seed).uint64s(10**6)
    odd = 2 * np.arange(10**6, dtype=np.uint64) + np.uint64(1)
    assert int(np.bitwise_xor.reduce(x * odd)) == known["xor_1e6"]


@pytest.mark.parametrize(("seed", "known"), SEEDS)
def test_a_million_tokens(seed: int, known: dict[str, Any]) -> None:
    r = GoRand(seed)
    assert digest(r.tokens(10**6).tolist()) == known["intn_hash_1e6"]
    assert r.int63() == known["after_intn_1e6_int63"]


@pytest.mark.parametrize(("seed", "known"), SEEDS)
@pytest.mark.parametrize("kind", ["norm", "exp"])
def test_ziggurats_at_length(seed: int, known: dict[str, Any], kind: str) -> None:
    r = GoRand(seed)
    values = (r.norms if kind == "norm" else r.exps)(300_000)
    assert digest(values.view(np.uint64).tolist()) == known[f"{kind}_hash_3e5"]
    assert float(np.cumsum(values)[-1]) == known[f"{kind}_sum_3e5"]
    assert r.int63() == known[f"after_{kind}_3e5_int63"]


def test_token_rejections() -> None:
    # 300,000 draws of this stream contain repeated ones.
    r = GoRand(1)
    chunks = [len(r.tokens(n)) for n in [1, 999, 12_000] * 23 + [1000]]
    assert sum(chunks) == 300_000
    assert r.int63() == 5410902420934414184
    assert GoRand(1).tokens(300_000).tolist() == GoRand(1).intns(VOCABULARY, 300_000).tolist()


def test_tokens_stop_before_and_after_each_rejection() -> None:
    outputs = GoRand(1).int63s(300_000) >> 32
    rejected = np.flatnonzero(outputs > 2147455999).tolist()
    assert rejected
    for at in rejected:
        for before in (0, 1, 2):
            bulk, single = GoRand(1), GoRand(1)
            bulk.uint64s(at - before)
            single.uint64s(at - before)
            for n in (before, 1, 1, 3):
                assert bulk.tokens(n).tolist() == [single.intn(VOCABULARY) for _ in range(n)]
            assert bulk.uint64() == single.uint64()


def test_token_arrays_are_independent() -> None:
    r = GoRand(5)
    arrays = [r.tokens(5000) for _ in range(20)]
    assert all(a.dtype == np.int32 for a in arrays)
    again = GoRand(5).tokens(100_000)
    assert np.concatenate(arrays).tolist() == again.tolist()
    arrays[0][:] = -1
    assert r.tokens(10).min() >= 0


@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(-1, 300)), max_size=30))
def test_tokens_behind_others(plan: list[tuple[int, int]]) -> None:
    """Joined or not, arrays hold what single draws give, and later draws leave them alone."""
    r, plain = GoRand(7), GoRand(7)
    made, expected = [], []
    for n, before in plan:
        behind = None if before < 0 else np.arange(before, dtype=np.int32)
        made.append(r.tokens(n, behind))
        expected.append([*range(before), *plain.intns(VOCABULARY, n).tolist()])
    assert [array.tolist() for array in made] == expected


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("used", [0, 1, 5000, 100_000])
def test_copies_go_on_alike_and_alone(duplicate: Callable[[GoRand], GoRand], used: int) -> None:
    r = GoRand(3)
    r.tokens(used)
    twin = duplicate(r)
    expected = r.tokens(50_000).tolist()
    assert twin.tokens(50_000).tolist() == expected
    assert twin.norm() == r.norm()


OPERATIONS = st.tuples(
    st.sampled_from(sorted(BULK)), st.sampled_from([0, 1, 2, 7, 272, 273, 274, 600, 2500, 20_000])
)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(-(2**63), 2**63 - 1), plan=st.lists(OPERATIONS, max_size=8))
def test_bulk_equals_single(seed: int, plan: list[tuple[str, int]]) -> None:
    bulk, single = GoRand(seed), GoRand(seed)
    for draw, n in plan:
        assert BULK[draw](bulk, n).tolist() == [SINGLE[draw](single) for _ in range(n)]
    assert bulk.uint64() == single.uint64()


def test_equal_seeds_modulo_the_mersenne_prime() -> None:
    assert GoRand(5).uint64() == GoRand(5 + 2**31 - 1).uint64() == GoRand(5 - (2**31 - 1)).uint64()
    assert GoRand(0).uint64() == GoRand(89482311).uint64()


@pytest.mark.parametrize("limit", [0, -1])
def test_limits_must_be_positive(limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        GoRand(1).intn(limit)
    with pytest.raises(ValueError, match="limit"):
        GoRand(1).intns(limit, 3)


@pytest.mark.parametrize("method", [GoRand.tokens, GoRand.norms, GoRand.uint64s])
def test_negative_counts_are_refused(method: Callable[[GoRand, int], Any]) -> None:
    r = GoRand(1)
    r.tokens(100)
    with pytest.raises(ValueError, match="cannot draw -1"):
        method(r, -1)


@pytest.mark.parametrize("name", ANSWERS["streams_of_seed_42"])
def test_named_streams(name: str) -> None:
    known = ANSWERS["streams_of_seed_42"][name]
    assert fnv1a64(name) == known["fnv_int64"]
    assert stream_seed(42, name) == known["derived_42"]
    streams = PartitionedRandom(42)
    # Each access continues the same stream.
    assert [streams.stream(name).int63() for _ in range(3)] == known["int63_42"]


def test_log() -> None:
    assert go_log(1.0) == 0.0
    assert go_log(0.0) == -math.inf
    assert go_log(math.inf) == math.inf
    assert math.isnan(go_log(-1.0))
    assert math.isnan(go_log(math.nan))


@given(st.floats(5e-324, 1.7e308))
def test_log_is_within_one_unit_of_the_c_library(x: float) -> None:
    expected = math.log(x)
    assert abs(go_log(x) - expected) <= math.ulp(expected)
