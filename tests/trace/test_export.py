"""Exported traces, against those of the reference for the same outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from blis_core.contracts import COMPLETED, RUNNING, TIMED_OUT, Request
from blis_core.errors import BlisError
from blis_core.trace.export import export_generated, export_replayed, request_rows
from blis_core.trace.replay import load_replay
from blis_core.trace.rows import parse_rows
from blis_core.trace.tracev2 import read_trace

DATA = Path(__file__).parents[1] / "data" / "trace"
STATES = {"ok": COMPLETED, "timeout": TIMED_OUT, "incomplete": RUNNING}


def finished_as(requests: list[Request], exported: Path) -> list[Request]:
    """``requests`` with the outcomes that the file ``exported`` tells of."""
    rows = parse_rows(exported.read_bytes(), exported.name)
    for request, row in zip(requests, rows, strict=True):
        request.state = STATES[row.status]
        if row.first_chunk_time_us:
            request.ttft = row.first_chunk_time_us - row.arrival_time_us
            request.itl_sum = row.last_chunk_time_us - row.first_chunk_time_us
    return requests


@pytest.mark.parametrize(
    ("trace", "exported"),
    [
        ("mixed/trace", "mixed/fixed.reexport.csv"),
        ("multiturn/trace", "multiturn/fixed.reexport.csv"),
        ("status/trace", "status/default.reexport.csv"),
        ("status/trace_deadline1040000", "status/deadline1040000.reexport.csv"),
        ("status/trace_h1201000", "status/h1201000.reexport.csv"),
    ],
)
def test_replayed_traces_of_the_reference(trace: str, exported: str, tmp_path: Path) -> None:
    header = (DATA / trace).parent / "trace.yaml"
    requests = load_replay(header, DATA / f"{trace}.csv", seed=42)
    export_replayed(str(tmp_path / "again"), finished_as(requests, DATA / exported))
    assert (tmp_path / "again.csv").read_bytes() == (DATA / exported).read_bytes()
    assert (tmp_path / "again.yaml").read_text() == (
        "trace_version: 2\ntime_unit: microseconds\nmode: replayed\nwarm_up_requests: 0\n"
    )


def test_generated_trace(tmp_path: Path) -> None:
    requests = [
        Request("request_0", 50, None, 12, 3, prefix_group="g", prefix_length=4, deadline=90),
        Request("request_1", 70, None, 5, 2),
        Request("session_s_round_1_1", 50, None, 9, 1, session="s", round_index=1),
    ]
    requests[1].state = COMPLETED
    requests[1].ttft, requests[1].itl_sum = 30, 11
    export_generated(str(tmp_path / "t"), requests, -7)
    assert (tmp_path / "t.yaml").read_text() == (
        "trace_version: 2\ntime_unit: microseconds\nmode: generated\n"
        "warm_up_requests: 0\nworkload_seed: -7\n"
    )
    _, rows = read_trace(tmp_path / "t.yaml", tmp_path / "t.csv")
    assert list(
        rows.columns("request_id", "arrival_time_us", "session_id", "input_tokens", "status")
    ) == [(0, 50, "", 8, "incomplete"), (1, 50, "s", 9, "incomplete"), (2, 70, "", 5, "ok")]
    assert (rows[0].prefix_group, rows[0].prefix_length, rows[0].deadline_us) == ("g", 4, 90)
    assert (rows[2].first_chunk_time_us, rows[2].last_chunk_time_us) == (100, 111)
    assert (rows[0].first_chunk_time_us, rows[0].last_chunk_time_us) == (0, 0)


def test_a_first_token_at_time_zero_counts() -> None:
    r = Request("request_0", 5, None, 1, 1)
    r.ttft = 0
    assert request_rows([r])[0].first_chunk_time_us == 5


def test_a_prefix_longer_than_the_prompt_is_dropped() -> None:
    (row,) = request_rows([Request("r", 0, None, 45, 6, prefix_group="g1", prefix_length=99)])
    assert (row.input_tokens, row.prefix_length, row.prefix_group) == (45, 0, "g1")


def test_unwritable_place(tmp_path: Path) -> None:
    with pytest.raises(BlisError, match=r"cannot write .*: No such file or directory"):
        export_replayed(str(tmp_path / "missing" / "t"), [])
