"""The files that a calibration reads besides the trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_core.trace.chunk_times import (
    ChunkTime,
    format_chunk_times,
    parse_chunk_times,
    read_chunk_times,
    write_chunk_times,
)
from blis_core.trace.simulated import SimulatedRequest, parse_simulated, read_simulated

COUNT = st.integers(0, 2**63 - 1)


@given(st.lists(st.builds(ChunkTime, COUNT, COUNT, COUNT)))
def test_chunk_times_round_trip(rows: list[ChunkTime]) -> None:
    assert parse_chunk_times(format_chunk_times(rows), "itl.csv") == rows


def test_files_of_chunk_times(tmp_path: Path) -> None:
    rows = [ChunkTime(1, 0, 5), ChunkTime(0, 0, 3)]
    write_chunk_times(tmp_path / "itl.csv", rows)
    assert (tmp_path / "itl.csv").read_text() == (
        "request_id,chunk_index,timestamp_us\n1,0,5\n0,0,3\n"
    )
    assert read_chunk_times(tmp_path / "itl.csv") == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("whatever,b,c\n", []),
        ("a,b,c,d\r\n1,2,3,x\r\n\r\n4,5,6,\r\n", [(1, 2, 3), (4, 5, 6)]),
        ('a,b,c\n"1",+2,003', [(1, 2, 3)]),
        ("only\n", []),
    ],
)
def test_chunk_times_that_are_read(text: str, rows: list[tuple[int, int, int]]) -> None:
    assert parse_chunk_times(text, "i") == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"^i: the file is empty"),
        ("a,b,c\n1,2\n", r"^i, line 2 \(row 1\): 2 columns"),
        ("a,b,c\n1,2,3\n1,2,3,4\n", r"^i, line 3 \(row 2\): 4 columns"),
        ("a,b\n1,2\n", "2 columns; .* at least 3"),
        ("a,b,c\n1,-2,3\n", "chunk_index must be a whole number of at least 0, not '-2'"),
        ("a,b,c\n1,2,x\n", "timestamp_us must be"),
        ("a,b,c\n99999999999999999999,2,3\n", "request_id must be"),
        ('a,b,c\n1,"2,3\n', "a quoted field is not closed"),
    ],
)
def test_chunk_times_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(BlisError, match=message):
        parse_chunk_times(text, "i")


@pytest.mark.parametrize(
    ("text", "results"),
    [
        (
            b'[{"request_id": 3, "ttft_us": 1.5, "e2e_us": 7, "input_tokens": -2, "x": [1]}]',
            [SimulatedRequest(3, 1.5, 7.0, -2, 0)],
        ),
        (b'[{"REQUEST_ID": 3, "Ttft_Us": 2, "ttft_us": null}, null]', [(3, 2, 0, 0, 0), (0,) * 5]),
        (b'\n[{"request_id": 1, "request_id": 2}]\n', [(2, 0, 0, 0, 0)]),
        (b'[{"x\xff": 1, "e2e_us": 1e3}]', [(0, 0, 1000, 0, 0)]),
    ],
)
def test_results_that_are_read(text: bytes, results: list[tuple[float, ...]]) -> None:
    assert parse_simulated(text, "r") == results


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON"),
        (b"[1", "not valid JSON"),
        (b"[{}] x", "not valid JSON"),
        (b'[{"e2e_us": NaN}]', "NaN is not a number in JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"null", "holds no results"),
        (b"[]", "holds no results"),
        (b"{}", "must be a list of results"),
        (b'"text"', "must be a list of results"),
        (b"[1]", r"^r: \[0\]: must be an object"),
        (b"[{}, []]", r"^r: \[1\]: must be an object"),
        (b'[{"request_id": 1.0}]', r"^r: \[0\]\.request_id: must be a whole number"),
        (b'[{"request_id": true}]', "must be a whole number of at most 64 bits, not True"),
        (b'[{"request_id": 9223372036854775808}]', "must be a whole number of at most 64 bits"),
        (b'[{"output_tokens": "5"}]', "output_tokens: must be a whole number"),
        (b'[{"ttft_us": [5]}]', "ttft_us: must be a number, not list"),
        (b'[{"ttft_us": {"a": 5}}]', "ttft_us: must be a number"),
        (b'[{"ttft_us": 1e400}]', "ttft_us: too large"),
        (b'[{"ttft_us": 1' + b"0" * 400 + b"}]", "ttft_us: too large"),
    ],
)
def test_results_that_are_refused(text: bytes, message: str) -> None:
    with pytest.raises(BlisError, match=message):
        parse_simulated(text, "r")


def test_a_missing_file() -> None:
    with pytest.raises(BlisError, match="cannot read nowhere"):
        read_simulated("nowhere")
