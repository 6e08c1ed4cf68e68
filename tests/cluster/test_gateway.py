"""The gateway's queue: order, limit, victims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.cluster.gateway import GatewayQueue
from blis_core.cluster.slo import SloPriorities
from blis_core.contracts import Request
from tests.cluster.fleets import request

PRIORITIES = SloPriorities()
CLASSES = ["critical", "standard", "", "batch", "sheddable", "background"]


def queue(order: str = "fifo", limit: int = 0) -> GatewayQueue:
    return GatewayQueue(PRIORITIES, order=order, limit=limit)


def held(made: GatewayQueue) -> list[str]:
    """Ids in the order in which they leave."""
    return [r.id for r in iter(lambda: made.dequeue(9), None)]


@pytest.mark.parametrize("order", ["fifo", "priority"])
def test_as_in_the_reference(order: str) -> None:
    """Who is routed when, and how many are shed, in a recorded run with at most 3 held."""
    case = json.loads((Path(__file__).parent / "data" / f"gateway_{order}.json").read_text())
    made = queue(order, case["limit"])
    shed = 0
    left: list[Request] = []
    for event, clock, *rest in case["events"]:
        if event == "admit":
            arrived = request(rest[0], rest[1])
            victim = made.enqueue(arrived, clock)
            shed += victim is not None
        elif event == "dispatch":
            saturation, depth = rest
            assert len(made) == depth
            if saturation < 1:
                gone = made.dequeue(clock)
                assert gone is not None
                left.append(gone)
        else:
            expected = left.pop(0)
            assert (expected.id, expected.gateway_dispatch) == (rest[0], clock)
    assert shed == case["shed"]
    assert not left


def test_orders() -> None:
    for order, expected in (("fifo", "abcde"), ("priority", "cadeb")):
        made = queue(order)
        for name, slo_class in zip(
            "abcde", ["", "batch", "critical", "gold", "standard"], strict=True
        ):
            assert made.enqueue(request(name, slo_class), 5) is None
        assert len(made) == 5
        assert "".join(held(made)) == expected
        assert len(made) == 0


@pytest.mark.parametrize("order", ["fifo", "priority"])
def test_the_newest_of_the_least_important_goes(order: str) -> None:
    made = queue(order, limit=3)
    entries = [
        request(name, c) for name, c in zip("abc", ["batch", "batch", "standard"], strict=True)
    ]
    for entry in entries:
        made.enqueue(entry, 7)
    victim = made.enqueue(request("d", "standard"), 8)
    assert victim is entries[1]
    assert sorted(held(made)) == ["a", "c", "d"]


def test_an_equal_newcomer_goes_itself() -> None:
    made = queue(limit=1)
    made.enqueue(request("a", "standard"), 7)
    late = request("b", "")
    assert made.enqueue(late, 8) is late
    assert late.gateway_enqueue == 0
    assert held(made) == ["a"]


def test_stamps() -> None:
    made = queue()
    entry = request()
    made.enqueue(entry, 70)
    assert (entry.gateway_enqueue, entry.gateway_dispatch) == (70, 0)
    assert made.dequeue(90) is entry
    assert entry.gateway_dispatch == 90
    assert made.dequeue(95) is None


class NaiveQueue:
    """A list that is searched for every operation."""

    def __init__(self, order: str, limit: int) -> None:
        self.order, self.limit, self.next = order, limit, 0
        self.entries: list[tuple[int, int, Request]] = []

    def enqueue(self, r: Request) -> Request | None:
        entry = (PRIORITIES.of(r.slo_class), self.next, r)
        self.next += 1
        victim = None
        if self.limit and len(self.entries) >= self.limit:
            worst = min(self.entries, key=lambda e: (e[0], -e[1]))
            if entry[0] <= worst[0]:
                return r
            self.entries.remove(worst)
            victim = worst[2]
        self.entries.append(entry)
        return victim

    def dequeue(self) -> Request | None:
        if not self.entries:
            return None
        by_priority = self.order == "priority"
        entry = min(self.entries, key=lambda e: (-e[0] if by_priority else 0, e[1]))
        self.entries.remove(entry)
        return entry[2]


@given(
    st.sampled_from(["fifo", "priority"]),
    st.integers(0, 4),
    st.lists(st.sampled_from([*CLASSES, None]), max_size=60),
)
def test_nobody_is_lost(order: str, limit: int, actions: list[str | None]) -> None:
    """Everybody leaves once, is shed once, or is held; and the order is the naive one."""
    made, naive = queue(order, limit), NaiveQueue(order, limit)
    entered: list[Any] = []
    out: list[Any] = []
    for number, slo_class in enumerate(actions):
        if slo_class is None:
            gone, expected = made.dequeue(number), naive.dequeue()
        else:
            new = request(f"request_{number}", slo_class)
            entered.append(new)
            gone, expected = made.enqueue(new, number + 1), naive.enqueue(new)
        assert gone is expected
        out += [gone] if gone is not None else []
        assert len(made) == len(naive.entries)
        assert not limit or len(made) <= limit
    while (gone := made.dequeue(99)) is not None:
        assert gone is naive.dequeue()
        out.append(gone)
    assert sorted(r.id for r in out) == sorted(r.id for r in entered)
