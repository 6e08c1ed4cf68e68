"""Reading and writing trace files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_core.trace.rows import COLUMNS, TraceRow, TraceRows, format_rows, parse_rows
from blis_core.trace.tracev2 import (
    NetworkInfo,
    ServerInfo,
    TraceHeader,
    format_header,
    parse_header,
    read_trace,
    write_trace,
)

DATA = Path(__file__).parents[1] / "data" / "trace"
CASES = json.loads((DATA / "load_cases.json").read_text())
HEADER_LINE = ",".join(COLUMNS)
BASE = CASES[0]
ROW = "0,c,t,standard,,0,,0,true,10,5,0,0,0,0,0,m,0,0,5,1000,2000,9000,5,ok,,"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_what_loads(case: dict[str, Any]) -> None:
    header = case.get("header", BASE["header"])
    body = case.get("csv", BASE["csv"]).replace("COLUMNS", HEADER_LINE)

    def load() -> None:
        parse_header(header, "trace.yaml")
        parse_rows(body.encode(), "trace.csv")

    if case["load_ok"]:
        load()
    else:
        with pytest.raises(BlisError, match=r"^trace\.(yaml|csv)"):
            load()


def test_values_of_a_row() -> None:
    (row,) = parse_rows(f"{HEADER_LINE}\n{ROW}\n", "t.csv")
    assert row == TraceRow(
        request_id=0,
        client_id="c",
        tenant_id="t",
        slo_class="standard",
        streaming=True,
        input_tokens=10,
        output_tokens=5,
        model="m",
        arrival_time_us=5,
        send_time_us=1000,
        first_chunk_time_us=2000,
        last_chunk_time_us=9000,
        num_chunks=5,
        status="ok",
    )


def with_cell(column: str, text: str) -> str:
    cells = ROW.split(",")
    cells[COLUMNS.index(column)] = text
    return ",".join(cells)


def test_errors_name_line_row_column_and_value() -> None:
    lines = [HEADER_LINE, ROW, "", ROW, with_cell("output_tokens", "five"), ROW]
    with pytest.raises(BlisError) as caught:
        parse_rows("\n".join(lines), "t.csv")
    assert str(caught.value) == (
        "t.csv, line 5 (row 3): column output_tokens must be a whole number of at least 0, "
        "not 'five'"
    )


def test_the_first_wrong_row_is_reported() -> None:
    late = with_cell("request_id", "x")
    early = with_cell("finish_reason", "fine").replace(",true,", ",maybe,")
    with pytest.raises(BlisError, match=r"line 2 \(row 1\): column streaming"):
        parse_rows(f"{HEADER_LINE}\n{early}\n{late}\n", "t.csv")
    deadline = with_cell("deadline_us", "4")
    with pytest.raises(BlisError, match=r"row 1\): deadline_us \(4\) must not be before"):
        parse_rows(f"{HEADER_LINE}\n{deadline}\n{late}\n", "t.csv")


@pytest.mark.parametrize(
    "text", ["0x1p99999", "1_", "_1", "1__0", "0x1", "1e400", "", " 0", "\u0660"]
)
def test_shares_that_are_no_numbers(text: str) -> None:
    with pytest.raises(BlisError, match="column reason_ratio must be a number between 0 and 1"):
        parse_rows(f"{HEADER_LINE}\n{with_cell('reason_ratio', text)}\n", "t.csv")


@pytest.mark.parametrize("text", ["\u0663", "9" * 5000, "-9223372036854775809", "1 ", "--1", "+"])
def test_whole_numbers_that_are_none(text: str) -> None:
    # Alone in its column, and among others.
    for lines in ([with_cell("request_id", text)], [ROW, with_cell("request_id", text)]):
        with pytest.raises(BlisError, match="column request_id must be a whole number"):
            parse_rows("\n".join([HEADER_LINE, *lines]), "t.csv")


def test_quoted_and_plain_files_read_the_same() -> None:
    plain = [with_cell("request_id", str(i)) for i in range(50)]
    quoted = [",".join(f'"{cell}"' for cell in line.split(",")) for line in plain]
    one = parse_rows("\n".join([HEADER_LINE, *plain]), "t.csv")
    other = parse_rows("\r\n".join([HEADER_LINE, *quoted]), "t.csv")
    assert list(one) == list(other)


def test_rows_are_a_sequence() -> None:
    items = [TraceRow(i, arrival_time_us=10 * i) for i in range(5)]
    rows = TraceRows(items)
    assert len(rows) == 5
    assert rows[1] == rows[-4] == items[1]
    assert list(rows[1:4:2]) == items[1:4:2]
    assert list(rows.column("arrival_time_us")) == [0, 10, 20, 30, 40]
    assert list(rows.columns("request_id", "arrival_time_us"))[3] == (3, 30)
    assert not TraceRows()
    assert list(TraceRows()) == []
    assert repr(rows) == "<TraceRows: 5 rows>"


TEXT = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=8)
COUNT = st.integers(0, 2**63 - 1)
WHOLE = st.integers(-(2**63), 2**63 - 1)


@st.composite
def trace_rows(draw: st.DrawFn) -> TraceRow:
    arrival = draw(WHOLE)
    values: dict[str, Any] = {}
    for name in COLUMNS:
        kind = TraceRow.__annotations__[name].__forward_arg__
        signed = name in ("request_id", "round_index") or name.endswith("_time_us")
        match kind:
            case "int":
                values[name] = draw(WHOLE if signed else COUNT)
            case "bool":
                values[name] = draw(st.booleans())
            case "float":
                values[name] = draw(st.floats(0, 1))
            case _:
                values[name] = draw(TEXT)
    values["arrival_time_us"] = arrival
    values["deadline_us"] = draw(st.just(0) | st.integers(max(arrival, 0), 2**63 - 1))
    for name in ("error_message", "finish_reason"):
        values[name] = values[name].strip()
    return TraceRow(**values)


@given(st.lists(trace_rows(), max_size=4))
def test_rows_round_trip(rows: list[TraceRow]) -> None:
    assert list(parse_rows(format_rows(rows).encode(), "t.csv")) == rows


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0"), (1.0, "1"), (0.4, "0.4"), (1e-7, "0.0000001"), (5e-324, None)]
)
def test_shares_are_written_without_exponent(share: float, text: str | None) -> None:
    written = format_rows([TraceRow(0, reason_ratio=share)])
    cell = written.splitlines()[1].split(",")[COLUMNS.index("reason_ratio")]
    assert "e" not in cell
    assert float(cell) == share
    assert text is None or cell == text


HEADERS = st.builds(
    TraceHeader,
    trace_version=WHOLE,
    time_unit=TEXT,
    created_at=TEXT,
    mode=TEXT,
    warm_up_requests=WHOLE,
    workload_seed=st.none() | WHOLE,
    workload_spec=TEXT,
    server=st.none()
    | st.builds(
        ServerInfo,
        type=TEXT,
        model=TEXT,
        tensor_parallel=WHOLE,
        max_num_seqs=WHOLE,
        block_size=WHOLE,
        gpu_memory_utilization=st.floats(allow_nan=False, allow_infinity=False),
        max_model_len=WHOLE,
    ),
    network=st.none()
    | st.builds(NetworkInfo, measured_rtt_ms=st.floats(allow_nan=False, allow_infinity=False)),
)


@given(HEADERS)
def test_headers_round_trip(header: TraceHeader) -> None:
    assert parse_header(format_header(header).encode(), "t.yaml") == header


def test_header_text() -> None:
    header = TraceHeader(
        trace_version=2,
        time_unit="us",
        created_at="2026-04-01T00:00:00Z",
        mode="real",
        warm_up_requests=1,
        workload_seed=0,
        workload_spec="preset:chatbot",
        server=ServerInfo(type="vllm", model="org/m-1.5", gpu_memory_utilization=0.9),
        network=NetworkInfo(),
    )
    assert format_header(header) == (
        "trace_version: 2\n"
        "time_unit: us\n"
        'created_at: "2026-04-01T00:00:00Z"\n'
        "mode: real\n"
        "warm_up_requests: 1\n"
        "workload_seed: 0\n"
        "workload_spec: preset:chatbot\n"
        "server:\n"
        "    type: vllm\n"
        "    model: org/m-1.5\n"
        "    gpu_memory_utilization: 0.9\n"
        "network: {}\n"
    )
    assert parse_header(format_header(header), "t.yaml") == header


@pytest.mark.parametrize("folder", ["basic", "mixed", "multiturn"])
def test_recorded_traces_read_and_write_the_same(folder: str, tmp_path: Path) -> None:
    header, rows = read_trace(DATA / folder / "trace.yaml", DATA / folder / "trace.csv")
    assert len(rows) > 0
    write_trace(str(tmp_path / "copy"), header, rows)
    for ending in (".yaml", ".csv"):
        assert (tmp_path / f"copy{ending}").read_bytes() == (
            DATA / folder / f"trace{ending}"
        ).read_bytes()


def test_nested_header_values() -> None:
    header, _ = read_trace(DATA / "mixed" / "trace.yaml", DATA / "mixed" / "trace.csv")
    assert header.workload_seed == 5
    assert header.server is not None
    assert attrs.astuple(header.server) == ("vllm", "m", 2, 64, 16, 0.9, 4096)
    assert header.network == NetworkInfo(measured_rtt_ms=0.75)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BlisError, match=r"cannot read .*gone\.yaml: No such file"):
        read_trace(tmp_path / "gone.yaml", tmp_path / "gone.csv")
    (tmp_path / "t.yaml").write_text(BASE["header"])
    with pytest.raises(BlisError, match=r"cannot read .*gone\.csv: No such file"):
        read_trace(tmp_path / "t.yaml", tmp_path / "gone.csv")
