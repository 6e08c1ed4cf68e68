"""Size and duration of KV transfers."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.cluster.transfer import TransferLink, kv_bytes_per_token
from blis_core.contracts import ModelDescription
from blis_core.errors import BlisError

QWEN3_14B = ModelDescription(layers=40, hidden=5120, heads=40, kv_heads=8, bytes_per_value=2.0)


def link(**options: object) -> TransferLink:
    return TransferLink(16.0 * kv_bytes_per_token(QWEN3_14B, 1), **options)  # type: ignore[arg-type]


def test_bytes_of_a_token() -> None:
    assert kv_bytes_per_token(QWEN3_14B, 1) == 163_840
    assert kv_bytes_per_token(QWEN3_14B, 4) == 40_960
    # without a number of KV heads each attention head has its own; more GPUs than heads are taken
    assert kv_bytes_per_token(attrs.evolve(QWEN3_14B, kv_heads=0), 1) == 5 * 163_840
    assert kv_bytes_per_token(QWEN3_14B, 16) == 10_240


@pytest.mark.parametrize(
    ("change", "tp", "says"),
    [
        ({"layers": 0}, 1, "layers"),
        ({"hidden": -1}, 1, "hidden"),
        ({"heads": 0}, 1, "heads"),
        ({"kv_heads": -8}, 1, "heads"),
        ({"bytes_per_value": 0.0}, 1, "data type"),
        ({"bytes_per_value": math.inf}, 1, "data type"),
        ({"hidden": 5121}, 1, "not a multiple"),
        ({}, 0, "--tp"),
        ({}, 3, "cannot share"),
    ],
)
def test_architectures_that_say_too_little(change: dict[str, object], tp: int, says: str) -> None:
    with pytest.raises(BlisError, match=says):
        kv_bytes_per_token(attrs.evolve(QWEN3_14B, **change), tp)


def test_the_worked_example() -> None:
    assert link().start(7) == 785


def test_those_who_come_later_get_a_smaller_share() -> None:
    busy = link(contention=True)
    assert [busy.start(7), busy.start(7)] == [785, 1519]
    busy.end()
    assert busy.start(7) == 1519
    busy.end()
    busy.end()
    assert busy.start(7) == 785
    assert (busy.peak, busy.mean_depth) == (2, 6 / 4)
    assert busy.active == 1


def test_without_contention_nobody_counts() -> None:
    free = link()
    assert [free.start(7) for _ in range(5)] == [785] * 5
    assert (free.peak, free.mean_depth) == (0, 0.0)


@given(
    st.integers(1, 10_000),
    st.floats(1e-3, 1e6),
    st.floats(0, 1e6),
    st.integers(0, 6),
    st.booleans(),
)
def test_no_transfer_is_too_fast(
    blocks: int, bandwidth: float, latency: float, others: int, contention: bool
) -> None:
    """At least 1 us and the base latency, and as long as the bytes need alone."""
    made = link(bandwidth=bandwidth, base_latency=latency, contention=contention)
    for _ in range(others):
        made.start(1)
    duration = made.start(blocks)
    alone = link(bandwidth=bandwidth, base_latency=latency).start(blocks)
    assert duration >= alone >= max(1, latency * 1000)
    assert duration == alone or (contention and others)
