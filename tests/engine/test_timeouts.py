"""Deadlines come out as from a heap of all of them, whatever order they came in."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import COMPLETED, Request
from blis_core.engine.plan import NEVER
from blis_core.engine.timeouts import Timeouts

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 40)),
        st.tuples(st.sampled_from(["pop", "complete", "skip"]), st.integers(0, 40)),
        st.tuples(st.just("leave out"), st.integers(0, 3)),
    ),
    max_size=60,
)


@given(ACTIONS)
def test_as_one_heap(actions):
    timeouts, heap, pending = Timeouts(), [], []
    for number, (action, value) in enumerate(actions):
        if action == "push":
            request = Request(str(number), 0, None, 1, 1)
            pending.append(request)
            timeouts.push(value, number, request)
            while heap and heap[0][2].state is COMPLETED:
                heapq.heappop(heap)
            heapq.heappush(heap, (value, number, request))
        elif action == "pop" and heap:
            expected = heapq.heappop(heap)[2]
            assert timeouts.pop() is expected
        elif action == "complete" and pending:
            pending.pop(value % len(pending)).state = COMPLETED
        elif action == "skip":
            timeouts.skip_completed()
            while heap and heap[0][2].state is COMPLETED:
                heapq.heappop(heap)
        elif action == "leave out":
            gone = {id(entry[2]) for entry in heap if entry[1] % 4 == value}
            timeouts.leave_out(gone)
            heap = [entry for entry in heap if id(entry[2]) not in gone]
            heapq.heapify(heap)
        # those that have completed may be forgotten sooner or later
        live = {entry[2].id for entry in heap if entry[2].state is not COMPLETED}
        known = {r.id for r in timeouts.requests() if r.state is not COMPLETED}
        assert known == live
        timeouts.skip_completed()
        while heap and heap[0][2].state is COMPLETED:
            heapq.heappop(heap)
        assert timeouts.due == (heap[0][0] if heap else NEVER)
