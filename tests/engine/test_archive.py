"""An archive gives back what it was given, in the order in which it came."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.contracts import COMPLETED, QUEUED, RUNNING, TIMED_OUT, Request
from blis_core.engine.archive import Archive

KEPT = [
    name for name in Request.__slots__ if name not in {"tokens", "keys", "output_keys", "engine"}
]
numbers = st.integers(-1, 2**40) | st.integers(0, 3)
names = st.sampled_from(["", "a", "b", "é\udc80"])


@st.composite
def requests(draw):
    made = []
    for i in range(draw(st.integers(0, 30))):
        name = draw(st.sampled_from([f"request_{i}", f"session_{i}_round_1", f"request_0{i}"]))
        request = Request(name, 0, None, 0, 0)
        for attribute in KEPT:
            usual = getattr(request, attribute)
            if attribute == "id" or not draw(st.booleans()):
                continue
            if isinstance(usual, bool):
                value = draw(st.booleans())
            elif isinstance(usual, int):
                value = draw(numbers)
            elif isinstance(usual, float):
                value = draw(st.floats(0, 1))
            else:
                value = draw(names)
            setattr(request, attribute, value)
        request.state = draw(st.sampled_from([QUEUED, RUNNING, COMPLETED, TIMED_OUT]))
        made.append(request)
    return made


def shown(request):
    return [getattr(request, name) for name in KEPT]


@settings(deadline=None)
@given(requests(), st.lists(st.integers(0, 10), max_size=5), st.data())
def test_nothing_is_lost(made, portions, data):
    archive, pending, came = Archive(), [], 0
    for portion in portions:
        pending += made[came : came + portion]
        came = min(came + portion, len(made))
        left = archive.sweep(pending)
        assert left == [r for r in pending if r.state in (QUEUED, RUNNING)]
        pending = left
        for request in pending:  # some of them end before the next time
            request.state = data.draw(st.sampled_from([request.state, COMPLETED]))
    archive.close(pending + made[came:])
    assert list(map(shown, archive)) == list(map(shown, made))
    assert len(archive) == len(made)
    for name in ("arrival", "deadline", "max_output", "itl_count", "e2e"):
        assert archive.column(name).tolist() == [getattr(r, name) for r in made]
    for name in ("tenant", "state", "session"):
        texts, codes = archive.coded(name)
        assert [texts[code] for code in codes] == [getattr(r, name) for r in made]
    if made:
        at = data.draw(st.integers(-len(made), len(made) - 1))
        assert shown(archive[at]) == shown(made[at])
        assert list(map(shown, archive[at:])) == list(map(shown, made[at:]))


def test_those_without_a_record_are_left_out():
    made = [Request(f"request_{i}", i, None, 1, 1) for i in range(4)]
    archive = Archive()
    made[0].state = made[3].state = COMPLETED
    left = archive.sweep(made, without={"request_1"})
    archive.close(left, without={"request_1"})
    assert [request.id for request in archive] == ["request_0", "request_2", "request_3"]


def test_an_empty_one():
    archive = Archive()
    archive.close([])
    assert (len(archive), list(archive), archive[:5]) == (0, [], [])
    assert archive.column("e2e").tolist() == []
    with pytest.raises(IndexError):
        archive[0]


def test_usual_requests_take_a_few_dozen_bytes():
    made = []
    for i in range(10_000):
        request = Request(f"request_{i}", 333 * i, None, 300 + i % 77, 200 + i % 99)
        request.max_output, request.deadline = request.output_len, request.arrival + 300_000_000
        request.state, request.assigned = COMPLETED, "instance_0"
        request.ttft, request.scheduling_delay = 20_000 + i, 500 + i
        request.itl_sum, request.itl_count = 7_000_000 + i, request.output_len - 1
        request.e2e = request.ttft + request.itl_sum
        made.append(request)
    archive = Archive()
    archive.close(made)
    assert archive.nbytes <= 40 * len(made)
