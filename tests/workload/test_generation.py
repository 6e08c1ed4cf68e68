"""Pieces of the generation of one client's requests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import MAX_INT64, ArrivalSampler, LengthSampler, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.workload.activity import Activity
from blis_core.workload.conversations import Conversation, by_arrival, session_requests
from blis_core.workload.deadlines import SESSION_TIMEOUT_US, deadline, patience
from blis_core.workload.generation import (
    Parts,
    Source,
    Traits,
    arrival_times,
    multimodal_requests,
    numbered,
    plain_requests,
)
from blis_core.workload.prefixes import DEFAULT_PREFIX_LENGTH, draw_prefixes
from blis_core.workload.spec import Client, Window
from tests.workload.recorded import ids_of


class Gaps(ArrivalSampler):
    def __init__(self, *gaps: int) -> None:
        self._gaps = iter(gaps)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [next(self._gaps, 0) for _ in range(n)]


class Lengths(LengthSampler):
    def __init__(self, *lengths: int) -> None:
        self._lengths = itertools.cycle(lengths)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [next(self._lengths) for _ in range(n)]


def source(n_in: LengthSampler, n_out: LengthSampler, seed: int = 5) -> Source:
    return Source(GoRand(seed), n_in, n_out)


# ---------------------------------------------------------------------------------------- arrivals


def test_times_end_with_gaps_or_horizon() -> None:
    assert list(arrival_times(Gaps(3, 4, 5), GoRand(1), 100)) == [3, 7, 12]
    assert list(arrival_times(Gaps(3, 4, 5), GoRand(1), 12)) == [3, 7]


def test_process_runs_on_while_inactive() -> None:
    activity = Activity((Window(start_us=6, end_us=9), Window(start_us=20, end_us=21)))
    gaps = Gaps(*[1] * 100)
    assert list(arrival_times(gaps, GoRand(1), 1000, activity)) == [6, 7, 8, 20]
    # 21 was drawn and found to be past all windows; nothing after it
    assert gaps.sample(GoRand(1), 80) == [1] * 79 + [0]


# -------------------------------------------------------------------------------------------- plain


def test_lengths_then_ids_of_prompt_and_output() -> None:
    requests = list(plain_requests([10, 20], source(Lengths(2, 3), Lengths(4)), Traits()))
    rng = GoRand(5)
    for request, n_in in zip(requests, (2, 3), strict=True):
        assert ids_of(request) == (rng.tokens(n_in).tolist(), rng.tokens(4).tolist())
        assert request.max_output == 4


def test_prefix_comes_in_front() -> None:
    prefix = np.array([1, 2, 3], dtype=np.int32)
    traits = Traits(prefix=prefix, prefix_group="g")
    (request,) = plain_requests([10], source(Lengths(2), Lengths(1)), traits)
    assert (request.prompt_len, request.prefix_length, request.prefix_group) == (5, 3, "g")
    assert ids_of(request)[0] == [1, 2, 3, *GoRand(5).tokens(2).tolist()]


def test_limit_counts_requests() -> None:
    lengths = Lengths(1)
    assert len(list(plain_requests(range(9), source(lengths, lengths), Traits(), 4))) == 4
    assert len(list(plain_requests(range(9), source(lengths, lengths), Traits(), 0))) == 9


@pytest.mark.parametrize(("n_in", "n_out"), [(-1, 5), (5, -1)])
def test_negative_lengths_are_refused(n_in: int, n_out: int) -> None:
    bad = source(Lengths(n_in), Lengths(n_out))
    with pytest.raises(BlisError, match="gave -1 tokens; lengths cannot be negative"):
        next(plain_requests([1], bad, Traits()))
    with pytest.raises(BlisError, match="gave -1 tokens"):
        bad.content()


@given(st.integers(0, MAX_INT64), st.integers(0, MAX_INT64))
def test_deadlines_stay_in_range(arrival: int, wait: int) -> None:
    expected = min(arrival + wait, MAX_INT64) if wait else 0
    assert deadline(arrival, wait) == expected
    one = Lengths(1)
    (request,) = plain_requests([arrival], source(one, one), Traits(patience=wait))
    assert request.deadline == expected
    assert Traits(patience=wait).request(arrival, None, 1, 1).deadline == expected


def test_patience() -> None:
    assert patience(None, session=True) == SESSION_TIMEOUT_US
    assert patience(None, session=False) == 0
    assert patience(0, session=True) == 0
    assert patience(5, session=False) == 5


# --------------------------------------------------------------------------------------- multimodal


def test_parts_of_a_prompt() -> None:
    image, video = (Lengths(2), Lengths(10, 20)), (Lengths(0), Lengths(5))
    parts = Parts(Lengths(3), (image, None, video))
    made = source(Lengths(99), Lengths(4))
    (request,) = multimodal_requests([7], made, Traits(), lambda: parts)
    assert request.text_tokens == 3
    assert (request.image_tokens, request.audio_tokens, request.video_tokens) == (30, 0, 0)
    assert (request.prompt_len, request.output_len) == (33, 4)
    assert request.tokens is not None
    assert request.tokens.tolist() == GoRand(5).tokens(37).tolist()


def test_prompt_of_no_parts_has_one_token() -> None:
    none = Parts(None, (None, None, None))
    (request,) = multimodal_requests([7], source(Lengths(9), Lengths(1)), Traits(), lambda: none)
    assert (request.prompt_len, request.text_tokens) == (1, 0)


def test_parts_are_made_for_the_first_request_only() -> None:
    made = []

    def make() -> Parts:
        made.append(1)
        return Parts(Lengths(1), (None, None, None))

    one = Lengths(1)
    assert not list(multimodal_requests([], source(one, one), Traits(), make))
    assert not made
    assert len(list(multimodal_requests([1, 2], source(one, one), Traits(), make))) == 2
    assert len(made) == 1
    with pytest.raises(BlisError, match="gave -2 tokens"):
        list(multimodal_requests([1], source(one, Lengths(-2)), Traits(), make))


# --------------------------------------------------------------------------------------- multi-turn


def conversation(**fields: object) -> Conversation:
    return Conversation(
        **{  # type: ignore[arg-type]
            "rounds": 3,
            "think_time_us": 100,
            "accumulate": False,
            "make_ratios": lambda: None,
            "horizon": 10**6,
            "activity": None,
            **fields,
        }
    )


def test_rounds_of_a_session() -> None:
    made = source(Lengths(2), Lengths(5))
    rounds = list(session_requests([1000], made, Traits(), conversation()))
    rng = GoRand(5)
    assert {r.session for r in rounds} == {f"sess_{rng.int63()}"}
    assert [r.round_index for r in rounds] == [0, 1, 2]
    assert [r.arrival for r in rounds] == [1000, 1105, 1210]
    assert [r.prompt_len for r in rounds] == [2, 2, 2]


def test_context_accumulates_behind_one_prefix() -> None:
    prefix = np.array([1, 2, 3], dtype=np.int32)
    talk = conversation(accumulate=True)
    made = source(Lengths(2), Lengths(5))
    rounds = list(session_requests([1], made, Traits(prefix=prefix), talk))
    assert [r.prompt_len for r in rounds] == [5, 12, 19]
    for last, request in itertools.pairwise(rounds):
        prompt, output = ids_of(last)
        assert ids_of(request)[0][: len(prompt) + 5] == prompt + output


def test_shares_of_reasoning() -> None:
    talk = conversation(make_ratios=lambda: Lengths(40, 250, -3))
    rounds = list(session_requests([1], source(Lengths(1), Lengths(1)), Traits(), talk))
    assert [r.reason_ratio for r in rounds] == [0.4, 1.0, 0.0]


def test_rounds_that_are_not_kept_are_drawn_all_the_same() -> None:
    window = Activity((Window(start_us=0, end_us=1), Window(start_us=1, end_us=1101)))

    def rounds(**fields: object) -> list[Request]:
        made = source(Lengths(2), Lengths(5))
        return list(session_requests([1000, 1001], made, Traits(), conversation(**fields)))

    everything = rounds()
    assert [r.round_index for r in everything] == [0, 1, 2] * 2
    for cut in (rounds(activity=window), rounds(horizon=1100)):
        assert [r.round_index for r in cut] == [0, 0]
        assert [ids_of(r) for r in cut] == [ids_of(everything[0]), ids_of(everything[3])]
    light = rounds(first_only=True)
    assert [r.arrival for r in light] == [r.arrival for r in everything]
    assert [r.tokens is None for r in light] == [False, True, True] * 2


def test_limit_counts_rounds_and_keeps_sessions_whole() -> None:
    one = Lengths(1)
    talk = conversation(horizon=150)
    assert len(list(session_requests(range(9), source(one, one), Traits(), talk, 4))) == 4
    assert len(list(session_requests(range(9), source(one, one), Traits(), talk, 3))) == 2


@given(
    st.lists(st.integers(0, 30), max_size=12),
    st.integers(0, 40),
    st.lists(st.integers(0, 20), min_size=1, max_size=5),
)
def test_sessions_in_order_of_arrival(starts: list[int], think: int, outputs: list[int]) -> None:
    def drawn() -> list[Request]:
        made = source(Lengths(0), Lengths(*outputs))
        talk = conversation(think_time_us=think)
        return list(session_requests(sorted(starts), made, Traits(), talk))

    expected = sorted(drawn(), key=lambda r: r.arrival)
    ordered = list(by_arrival(drawn()))
    assert [(r.session, r.round_index) for r in ordered] == [
        (r.session, r.round_index) for r in expected
    ]


def test_sessions_hold_back_only_what_may_be_overtaken() -> None:
    one = Lengths(1)
    talk = conversation(rounds=2, think_time_us=10)
    endless = session_requests(itertools.count(1, 100), source(one, one), Traits(), talk)
    assert [r.arrival for r in itertools.islice(by_arrival(endless), 4)] == [1, 12, 101, 112]


# --------------------------------------------------------------------------------------- and so on


def test_ids_are_positions() -> None:
    one = Lengths(1)
    requests = plain_requests([5, 6], source(one, one), Traits())
    assert [r.id for r in numbered(requests)] == ["request_0", "request_1"]


def test_first_client_of_a_group_decides_its_prefix() -> None:
    clients = [
        Client(prefix_length=4),
        Client(prefix_group="a"),
        Client(prefix_group="b", prefix_length=3),
        Client(prefix_group="a", prefix_length=99),
    ]
    prefixes = draw_prefixes(clients, GoRand(9))
    rng = GoRand(9)
    assert {group: tokens.tolist() for group, tokens in prefixes.items()} == {
        "a": rng.tokens(DEFAULT_PREFIX_LENGTH).tolist(),
        "b": rng.tokens(3).tolist(),
    }
