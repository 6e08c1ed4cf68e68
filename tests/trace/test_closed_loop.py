"""Replay in a closed loop, against the requests and results of the reference."""

from __future__ import annotations

import heapq
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.cli.main import main
from blis_core.contracts import COMPLETED, MAX_INT64, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.trace.closed_loop import (
    RecordedValues,
    closed_loop_workload,
    load_closed_loop,
    recorded_gaps,
    think_times,
)
from blis_core.trace.prompt_blocks import PromptBlocks
from blis_core.trace.replay import fixed_requests
from blis_core.trace.rows import TraceRow, TraceRows
from blis_core.workload.generated import GeneratedWorkload
from blis_core.workload.sessions import SessionManager
from tests.trace.test_replay import described

DATA = Path(__file__).parents[1] / "data" / "trace"
LOGNORMAL = "lognormal:mu=-1.5,sigma=0.5,min=50ms,max=900ms"


def answered_after(workload: GeneratedWorkload, service_us: int) -> list[Request]:
    """All requests, follow-ups last, if each is done ``service_us`` after its arrival."""
    manager = SessionManager(workload.sessions, workload.follow_up_budget)
    requests = list(workload.requests)
    waiting = [(r.arrival, number, r) for number, r in enumerate(requests)]
    heapq.heapify(waiting)
    while waiting:
        arrival, _, request = heapq.heappop(waiting)
        request.state = COMPLETED
        for follow_up in manager.on_done(request, arrival + service_us):
            requests.append(follow_up)
            heapq.heappush(waiting, (follow_up.arrival, len(requests), follow_up))
    return requests


@pytest.mark.parametrize(
    ("name", "service_us", "distribution"),
    [
        ("mixed/gap", 20_000, None),
        ("multiturn/gap", 50_000, None),
        ("multiturn/lognormal", 50_000, LOGNORMAL),
    ],
)
def test_requests_of_the_reference(name: str, service_us: int, distribution: str | None) -> None:
    folder = DATA / name.split("/")[0]
    known = json.loads((DATA / f"{name}.requests.svc{service_us}.json").read_text())
    workload, horizon = load_closed_loop(
        str(folder / "trace.yaml"),
        str(folder / "trace.csv"),
        42,
        think_times(None, distribution),
        9_000_000,
    )
    assert horizon == 9_000_000
    assert [described(r) for r in answered_after(workload, service_us)] == known


ENGINE = (
    "--model qwen/qwen3-14b --latency-model blackbox --hardware H100 --tp 1 "
    "--beta-coeffs 5000,15,10 --alpha-coeffs 200,1,5 --total-kv-blocks 2000"
).split()
CLOSED = ["--session-mode", "closed-loop"]
RUNS = {
    "basic/fixed": [],
    "mixed/fixed": [],
    "mixed/gap": CLOSED,
    "mixed/gap_h9s": [*CLOSED, "--horizon", "9000000"],
    "multiturn/fixed": [],
    "multiturn/gap": CLOSED,
    "multiturn/gap_h9s": [*CLOSED, "--horizon", "9000000"],
    "multiturn/gap_seed1": [*CLOSED, "--seed", "1"],
    "multiturn/think150ms": [*CLOSED, "--think-time-ms", "150"],
    "multiturn/lognormal": [*CLOSED, "--think-time-dist", LOGNORMAL],
    "multiturn/const0": [*CLOSED, "--think-time-dist", "constant:value=0ms"],
    "status/default": [],
    "status/deadline1040000": ["--trace-data", str(DATA / "status/trace_deadline1040000.csv")],
    "status/h1201000": [
        *("--trace-data", str(DATA / "status/trace_h1201000.csv")),
        *("--horizon", "1201000"),
    ],
}


@pytest.mark.parametrize("name", RUNS)
def test_results_of_the_reference(name: str, tmp_path: Path, capsys: Any) -> None:
    folder = (DATA / name).parent
    argv = ["replay", *ENGINE, "--trace-header", str(folder / "trace.yaml")]
    argv += ["--trace-data", str(folder / "trace.csv"), *RUNS[name]]
    argv += ["--results-path", str(tmp_path / "r.json"), "--trace-output", str(tmp_path / "t")]
    assert main(argv) == 0
    block = capsys.readouterr().out.partition("{")[2]
    known = json.loads((DATA / f"{name}.metrics.json").read_text())
    assert json.JSONDecoder().raw_decode("{" + block)[0] == known
    results = json.loads((DATA / f"{name}.results.json").read_text())
    assert json.loads((tmp_path / "r.json").read_text()) == results
    exported = DATA / ("basic/trace.csv" if name == "basic/fixed" else f"{name}.reexport.csv")
    assert (tmp_path / "t.csv").read_bytes() == exported.read_bytes()


# ------------------------------------------------------------------------------------- think times


def rounds(*arrivals: int) -> list[TraceRow]:
    return [
        TraceRow(i, session_id="s", round_index=i, input_tokens=1 + i, arrival_time_us=arrival)
        for i, arrival in enumerate(arrivals)
    ]


def test_recorded_gaps_include_the_service_and_are_never_negative() -> None:
    assert recorded_gaps(rounds(5, 105, 95, 95)).sample(GoRand(1), 3) == [100, 0, 0]


def test_values_start_over_and_an_empty_list_gives_ones() -> None:
    rng = GoRand(7)
    assert RecordedValues([3, 0]).sample(rng, 5) == [3, 0, 3, 0, 3]
    assert RecordedValues([]).sample(rng, 2) == [1, 1]
    assert rng.int63() == GoRand(7).int63()


@pytest.mark.parametrize(
    ("options", "gaps"),
    [
        ((None, None), [100]),
        ((0, None), [100]),
        ((2, None), [2000]),
        ((None, "constant:value=0"), [1]),
    ],
)
def test_precedence(options: tuple[int | None, str | None], gaps: list[int]) -> None:
    assert think_times(*options)(rounds(0, 100)).sample(GoRand(1), 1) == gaps


# ------------------------------------------------------------------------------------------ errors


def replayed(rows: list[TraceRow], blocks: PromptBlocks | None = None) -> GeneratedWorkload:
    return closed_loop_workload(TraceRows(rows, blocks), 42, "t.csv")[0]


S = {"session_id": "s", "input_tokens": 2}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"^t\.csv: the trace has no rows"),
        (
            [TraceRow(0, **S), TraceRow(1, round_index=2, **S)],
            r"^t\.csv, row 2: session 's' goes on with round 2 where round 1 is due",
        ),
        ([TraceRow(0, **S), TraceRow(1, **S)], "row 2: session 's' goes on with round 0"),
        (
            [TraceRow(0, round_index=1, **S)],
            "row 1: session 's' goes on with round 1",
        ),
        ([TraceRow(0, round_index=-1, **S)], "round -1 where round 0 is due"),
        ([TraceRow(0, session_id="s")], "row 1: the prompt is empty"),
        ([TraceRow(0, **S), TraceRow(1)], "row 2: the prompt is empty"),
        (
            # the prefix of a later round is not used, so it cannot fill the prompt
            [
                TraceRow(0, **S),
                TraceRow(1, session_id="s", round_index=1, prefix_group="g", prefix_length=4),
            ],
            "row 2: the prompt is empty",
        ),
        ([TraceRow(0, **S), TraceRow(0, input_tokens=1)], "rows 1 and 2: request_id 0 is given"),
    ],
)
def test_traces_that_cannot_be_replayed(rows: list[TraceRow], message: str) -> None:
    with pytest.raises(BlisError, match=message):
        replayed(rows)


def test_ids_of_later_rounds_do_not_matter() -> None:
    rows = [TraceRow(0, **S), TraceRow(0, round_index=1, **S)]
    assert [r.id for r in answered_after(replayed(rows), 5)] == ["request_0", "session_s_round_1_1"]


def test_a_prefix_of_the_first_round_fills_later_prompts() -> None:
    first = TraceRow(0, session_id="s", prefix_group="g", prefix_length=4, arrival_time_us=1)
    later = TraceRow(1, session_id="s", round_index=1, arrival_time_us=2)
    assert [r.prompt_len for r in answered_after(replayed([first, later]), 0)] == [4, 4]


def test_blocks_of_later_rounds_are_refused() -> None:
    rows = [TraceRow(0, **S), TraceRow(1, round_index=1, **S)]
    replayed(rows, PromptBlocks(2, [(7,), ()]))
    with pytest.raises(BlisError, match="row 2: prompt_blocks_of_2 cannot be kept"):
        replayed(rows, PromptBlocks(2, [(7,), (7,)]))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--think-time-ms", "5"], "--think-time-ms: needs --session-mode closed-loop"),
        (["--think-time-dist", "constant:value=1"], "--think-time-dist: needs --session-mode"),
        (["--think-time-dist", ""], "--think-time-dist: needs --session-mode"),
        ([*CLOSED, "--think-time-ms", "-1"], "--think-time-ms: must be at least 0"),
        (
            [*CLOSED, "--think-time-ms", "0", "--think-time-dist", "constant:value=1"],
            "--think-time-dist: excludes --think-time-ms",
        ),
        ([*CLOSED, "--think-time-dist", ""], "think time distribution ''"),
        (["--session-mode", "open"], "--session-mode: must be one of fixed, closed-loop"),
    ],
)
def test_wrong_options(flags: list[str], message: str, capsys: Any) -> None:
    argv = ["replay", *ENGINE, "--trace-header", str(DATA / "mixed/trace.yaml")]
    assert main([*argv, "--trace-data", str(DATA / "mixed/trace.csv"), *flags]) != 0
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


# ---------------------------------------------------------------------------------------- property

NO_SESSION = st.builds(
    TraceRow,
    request_id=st.just(0),
    session_id=st.just(""),
    prefix_group=st.sampled_from(["", "a", "b"]),
    prefix_length=st.integers(0, 5),
    input_tokens=st.integers(1, 9),
    output_tokens=st.integers(0, 9),
    arrival_time_us=st.integers(-5, 10**6),
)


@settings(max_examples=40)
@given(st.lists(NO_SESSION, min_size=1), st.integers(-9, 9))
def test_without_sessions_it_is_fixed_replay(rows: list[TraceRow], seed: int) -> None:
    table = TraceRows(row._replace(request_id=i) for i, row in enumerate(rows))
    workload, _ = closed_loop_workload(table, seed, "t.csv")
    assert not workload.sessions
    assert [described(r) for r in workload.requests] == [
        described(r) for r in fixed_requests(table, seed)
    ]


SESSION = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 10**6)), min_size=1, max_size=5
)


@settings(max_examples=40)
@given(st.lists(SESSION, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_every_round_is_sent_once_with_its_lengths(sessions: list[Any], random: Any) -> None:
    numbers = itertools.count()
    rows = [
        TraceRow(
            next(numbers),
            session_id=f"s{s}",
            round_index=i,
            input_tokens=n_in,
            output_tokens=n_out,
            arrival_time_us=arrival,
        )
        for s, members in enumerate(sessions)
        for i, (n_in, n_out, arrival) in enumerate(members)
    ]
    random.shuffle(rows)
    workload, _ = closed_loop_workload(TraceRows(rows), 3, "t.csv", horizon=MAX_INT64)
    sent = [
        (r.session, r.round_index, r.prompt_len, r.output_len) for r in answered_after(workload, 7)
    ]
    assert sorted(sent) == sorted(
        (row.session_id, row.round_index, row.input_tokens, row.output_tokens) for row in rows
    )
