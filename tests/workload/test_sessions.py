"""What the session manager sends when a request is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import (
    COMPLETED,
    MAX_INT64,
    QUEUED,
    TIMED_OUT,
    LengthSampler,
    LengthSetup,
    Request,
)
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.workload import sessions
from blis_core.workload.lengths import ConstantLengths, GaussianLengths
from blis_core.workload.sessions import Blueprint, SessionManager
from tests.workload.recorded import ids_of, serve


def length(value: float) -> LengthSampler:
    return ConstantLengths(LengthSetup(params={"value": value}))


def blueprint(**fields: Any) -> Blueprint:
    return Blueprint(
        **{
            "session": "s",
            "inputs": length(3),
            "outputs": length(2),
            "random": 11,
            "horizon": MAX_INT64,
            "max_rounds": 4,
            "think_time_us": 100,
            "client": "c",
            "tenant": "t",
            "slo_class": "batch",
            "model": "m",
            **fields,
        }
    )


def first(prompt: int = 5, output: int = 4, session: str = "s") -> Request:
    tokens = np.arange(1000, 1000 + prompt + output, dtype=np.int32)
    return done(Request("request_0", 0, tokens, prompt, output, session=session))


def done(request: Request, state: str = COMPLETED) -> Request:
    request.state = state
    request.itl_count = max(0, request.output_len - 1)
    return request


def status(manager: SessionManager) -> str:
    return next(name for name, count in manager.counts().items() if count)


def test_a_follow_up() -> None:
    manager = SessionManager([blueprint()])
    (request,) = manager.on_done(first(), 5000)
    assert (request.id, request.arrival) == ("session_s_round_1_1", 5100)
    assert (request.prompt_len, request.output_len, request.max_output) == (3, 2, 2)
    assert (request.client, request.tenant, request.slo_class, request.model) == (
        *("c", "t", "batch", "m"),
    )
    assert (request.session, request.round_index) == ("s", 1)
    assert request.deadline == 5100 + 300_000_000
    assert request.tokens is not None
    assert request.tokens.tolist() == GoRand(11).tokens(5).tolist()
    assert (request.prefix_group, request.prefix_length, request.streaming) == ("", 0, False)
    assert request.state == QUEUED


def test_rounds_end() -> None:
    manager = SessionManager([blueprint(max_rounds=3)])
    sent = serve([first()], manager)
    assert [r.id for r in sent] == ["session_s_round_1_1", "session_s_round_2_2"]
    assert status(manager) == sessions.COMPLETED
    assert manager.on_done(first(), 10**9) == []


def test_ids_are_counted_over_all_sessions() -> None:
    manager = SessionManager([blueprint(session=name, random=1) for name in "ab"])
    sent = serve([first(session="a"), first(session="b")], manager)
    assert [r.id for r in sent[:4]] == [
        "session_a_round_1_1",
        "session_b_round_1_2",
        "session_a_round_2_3",
        "session_b_round_2_4",
    ]
    assert manager.follow_ups == 6


@pytest.mark.parametrize("state", [TIMED_OUT, QUEUED])
def test_requests_without_an_answer_cancel_their_session(state: str) -> None:
    manager = SessionManager([blueprint()])
    assert manager.on_done(done(first(), state), 10) == []
    assert status(manager) == sessions.CANCELLED
    assert manager.on_done(first(), 20) == []


def test_a_session_may_time_out_on_the_way() -> None:
    manager = SessionManager([blueprint(timeout=2029)])  # a request takes 3 * 10 + 2 * 1000 us
    sent = serve([first()], manager)
    assert len(sent) == 1
    assert sent[0].state == TIMED_OUT
    assert status(manager) == sessions.CANCELLED


@pytest.mark.parametrize(("timeout", "wait"), [(None, 300_000_000), (7, 7), (0, None)])
def test_patience(timeout: int | None, wait: int | None) -> None:
    (request,) = SessionManager([blueprint(timeout=timeout)]).on_done(first(), 900)
    assert request.deadline == (0 if wait is None else 1000 + wait)


def test_budget_is_shared() -> None:
    manager = SessionManager([blueprint(session=name) for name in "ab"], budget=3)
    assert len(serve([first(session="a"), first(session="b")], manager)) == 3
    counts = manager.counts()
    assert counts[sessions.BUDGET_EXHAUSTED] == 2
    assert sum(counts.values()) == 2
    assert SessionManager([blueprint()], budget=0).on_done(first(), 1) == []


def test_last_round_completes_even_without_budget() -> None:
    manager = SessionManager([blueprint(max_rounds=1)], budget=0)
    manager.on_done(first(), 1)
    assert status(manager) == sessions.COMPLETED


def test_horizon_itself_is_not_too_late() -> None:
    manager = SessionManager([blueprint(horizon=5100)])
    assert [r.arrival for r in manager.on_done(first(), 5000)] == [5100]
    manager = SessionManager([blueprint(horizon=5100)])
    assert manager.on_done(first(), 5001) == []
    assert status(manager) == sessions.HORIZON_INTERRUPTED


def test_users_never_stop() -> None:
    manager = SessionManager([blueprint(max_rounds=None)])
    assert len(serve([first()], manager, most=50)) == 50
    assert manager.counts() == {name: int(name == sessions.ACTIVE) for name in sessions.STATUSES}


def test_rounds_below_one_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="max_rounds"):
        SessionManager([blueprint(max_rounds=0)])


def test_strangers_are_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    manager = SessionManager([blueprint()])
    assert manager.on_done(first(session=""), 1) == []
    assert manager.on_done(first(session="unknown"), 1) == []
    assert manager.counts()[sessions.ACTIVE] == 1
    assert capsys.readouterr().err == ""


def test_the_later_of_two_blueprints_counts() -> None:
    manager = SessionManager([blueprint(think_time_us=1), blueprint(think_time_us=2)])
    assert [r.arrival for r in manager.on_done(first(), 0)] == [2]
    assert sum(manager.counts().values()) == 1


def test_think_times_are_drawn_before_lengths() -> None:
    normal = GaussianLengths(
        LengthSetup(params={"mean": 5000.0, "std_dev": 900.0, "min": 1.0, "max": 9999.0})
    )
    manager = SessionManager([blueprint(think_times=normal, random=3)])
    (request,) = manager.on_done(first(), 0)
    rng = GoRand(3)
    assert request.arrival == normal.next(rng)
    assert request.tokens is not None
    assert request.tokens.tolist() == rng.tokens(5).tolist()


def test_a_running_stream_is_continued() -> None:
    rng = GoRand(3)
    rng.tokens(10)
    (request,) = SessionManager([blueprint(random=rng)]).on_done(first(), 0)
    assert request.tokens is not None
    assert request.tokens.tolist() == GoRand(3).tokens(15)[10:].tolist()


class _Negative(LengthSampler):
    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [-1] * n


def test_negative_lengths_are_refused() -> None:
    manager = SessionManager([blueprint(inputs=_Negative())])
    with pytest.raises(BlisError, match="-1 tokens"):
        manager.on_done(first(), 1)


# ----------------------------------------------------------------------------------------- context


def prompts(sent: list[Request]) -> list[list[int]]:
    return [ids_of(request)[0] for request in sent]


def test_prompts_repeat_the_conversation_but_the_last_token_of_answers() -> None:
    start = first(5, 4)
    sent = serve([start], SessionManager([blueprint(accumulate=True)]))
    conversation: list[int] = []
    for last, request in zip([start, *sent], sent, strict=False):
        prompt, output = ids_of(last)
        conversation = prompt + output[:-1]
        assert ids_of(request)[0][: len(conversation)] == conversation
        assert request.prompt_len == len(conversation) + 3
    assert [r.prompt_len for r in sent] == [11, 15, 19]


def test_capped_answers_add_what_was_generated() -> None:
    manager = SessionManager([blueprint(accumulate=True)])
    start = first(5, 4)
    start.itl_count = 1
    (request,) = manager.on_done(start, 0)
    assert ids_of(request)[0][:6] == [1000, 1001, 1002, 1003, 1004, 1005]
    assert request.prompt_len == 9


def test_answers_of_one_token_add_nothing() -> None:
    (request,) = SessionManager([blueprint(accumulate=True)]).on_done(first(5, 1), 0)
    assert request.prompt_len == 8


def test_prefix_without_context() -> None:
    prefix = np.array([7, 8], dtype=np.int32)
    sent = serve([first()], SessionManager([blueprint(prefix=prefix)]))
    assert all(ids[:2] == [7, 8] for ids in prompts(sent))
    assert [r.prompt_len for r in sent] == [5, 5, 5]


def test_prefix_is_added_again_every_round() -> None:
    """The example of the specification: prefix 6, prompts 19, 51, 78."""
    lengths = iter([(21, 8), (14, 3)])
    questions, answers = zip(*lengths, strict=True)
    plan = blueprint(
        accumulate=True,
        prefix=np.arange(6, dtype=np.int32),
        max_rounds=3,
        inputs=_Recorded(questions),
        outputs=_Recorded(answers),
    )
    start = first(19, 6)
    assert start.tokens is not None
    start.tokens[:6] = np.arange(6)
    sent = serve([start], SessionManager([plan]))
    assert [r.prompt_len for r in sent] == [51, 78]
    assert prompts(sent)[1][:12] == [*range(6), *range(6)]


class _Recorded(LengthSampler):
    def __init__(self, values: tuple[int, ...]) -> None:
        self._values = iter(values)

    def sample(self, rng: GoRand, n: int) -> list[int]:
        return [next(self._values) for _ in range(n)]


def _reference_context(context: list[int], last: Request) -> list[int]:
    """As the specification words it."""
    prompt, output = ids_of(last)
    grown = list(context)
    if len(prompt) > len(context):
        grown += prompt[len(context) :]
    if last.itl_count > 0:
        grown += output[: min(last.itl_count, len(output))]
    return grown


@given(
    st.lists(st.integers(0, 9), max_size=12),
    st.integers(0, 9),
    st.integers(0, 6),
    st.integers(0, 8),
)
def test_context_by_definition(context: list[int], n_in: int, n_out: int, generated: int) -> None:
    last = first(n_in, n_out)
    last.itl_count = generated
    grow: Callable[..., Any] = sessions._grown
    assert grow(np.array(context, dtype=np.int32), last).tolist() == _reference_context(
        context, last
    )
    assert grow(None, last).tolist() == _reference_context([], last)
