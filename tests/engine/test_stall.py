"""What is said of requests that can never finish."""

from __future__ import annotations

import pytest

from blis_core.contracts import KVSetup, Request
from blis_core.engine import stall
from blis_core.engine.stall import StallGuard
from blis_core.errors import BlisError
from blis_core.kv.paged import PagedKVStore

STORE = PagedKVStore(KVSetup(total_blocks=10, block_size=4))
LONG = Request("long", 0, None, 8, 60)


def preempt(guard: StallGuard, target: int, hits: list[int], progress: int = 0) -> None:
    for hit in hits:
        guard.preempted_alone(LONG, hit, target, STORE, progress)


def test_a_request_that_is_too_large_is_named_soon() -> None:
    guard = StallGuard("instance_0")
    preempt(guard, 67, [2, 2])
    with pytest.raises(BlisError, match=r"long can never finish on instance_0.* need 17 KV blocks"):
        preempt(guard, 67, [2])


def test_it_is_named_too_if_its_hits_go_to_and_fro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "_MANY", 50)
    guard = StallGuard("instance_0")
    with pytest.raises(BlisError, match=r"long can never finish on instance_0.* need 17 KV blocks"):
        preempt(guard, 67, [1, 2] * 25)


def test_one_that_would_fit_is_kept_from_it_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall, "_MANY", 50)
    guard = StallGuard("instance_0")
    preempt(guard, 20, [2] * 49)
    preempt(guard, 20, [2] * 49, progress=1)
    with pytest.raises(BlisError, match="waiting ones hold some of its 10 KV blocks"):
        preempt(guard, 20, [2], progress=1)
