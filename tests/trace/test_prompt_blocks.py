"""The column of prompt blocks: written, read, and turned into tokens that are really shared."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.contracts import Request
from blis_core.errors import BlisError
from blis_core.trace.export import export_replayed
from blis_core.trace.prompt_blocks import PromptBlocks
from blis_core.trace.replay import check_replayable, fixed_requests
from blis_core.trace.rows import COLUMNS, TraceRow, TraceRows, format_rows, parse_rows

BLOCKS = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@st.composite
def tables(draw: st.DrawFn) -> TraceRows:
    size = draw(st.integers(1, 4))
    rows, numbers = [], []
    for i in range(draw(st.integers(1, 8))):
        blocks = draw(BLOCKS)
        least = max(1, (len(blocks) - 1) * size + 1) if blocks else 1
        rows.append(
            TraceRow(
                i,
                input_tokens=draw(st.integers(least, least + 2 * size)),
                output_tokens=draw(st.integers(0, 3)),
                error_message=draw(st.sampled_from(["", "a,b", 'q"'])),
            )
        )
        numbers.append(blocks)
    return TraceRows(rows, PromptBlocks(size, numbers))


@settings(max_examples=60)
@given(tables())
def test_round_trip(table: TraceRows) -> None:
    again = parse_rows(format_rows(table), "t.csv")
    assert list(again) == list(table)
    assert again.blocks == table.blocks


@settings(max_examples=60)
@given(tables(), st.integers(-3, 3))
def test_equal_blocks_are_equal_tokens(table: TraceRows, seed: int) -> None:
    check_replayable(table, "t.csv")
    requests = list(fixed_requests(table, seed))
    assert table.blocks is not None
    size = table.blocks.size
    tokens: dict[int, list[int]] = {}
    for row, blocks, r in zip(table, table.blocks.numbers, requests, strict=True):
        assert (r.prompt_len, r.output_len) == (row.input_tokens, row.output_tokens)
        assert r.tokens is not None
        assert len(r.tokens) == r.prompt_len + r.output_len
        for place, number in enumerate(blocks):
            part = r.tokens[place * size : min((place + 1) * size, r.prompt_len)].tolist()
            known = tokens.setdefault(number, part)
            common = min(len(part), len(known))
            assert part[:common] == known[:common]
            if len(part) > len(known):
                tokens[number] = part


def test_a_trace_without_the_column_draws_as_before() -> None:
    rows = [TraceRow(i, input_tokens=5, prefix_group="g", prefix_length=3) for i in range(3)]
    plain = list(fixed_requests(TraceRows(rows), 1))
    empty = list(fixed_requests(TraceRows(rows, PromptBlocks(4, [()] * 3)), 1))
    assert [r.tokens.tolist() for r in plain if r.tokens is not None] == [
        r.tokens.tolist() for r in empty if r.tokens is not None
    ]


def text(cell: str, column: str = "prompt_blocks_of_4", tokens: int = 9) -> str:
    row = format_rows([TraceRow(0, input_tokens=tokens)]).splitlines()[1]
    return ",".join([*COLUMNS, column]) + f"\n{row},{cell}\n"


@pytest.mark.parametrize("column", ["prompt_blocks_of_0", "prompt_blocks_of_x", "other", ""])
def test_other_columns_are_ignored(column: str) -> None:
    assert parse_rows(text("what,ever", column), "t.csv").blocks is None


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1,2", None),
        ("1 2", None),
        ("", None),
        ("1 2 3", None),
        (
            "1 2 3 4",
            r"^t\.csv, line 2 \(row 1\): 4 blocks of 4 tokens do not fit",
        ),
        ("1  2", "column prompt_blocks_of_4 must be numbers of blocks"),
        ("-1", "must be numbers of blocks"),
        ("x", "must be numbers of blocks"),
        ("1" * 19, "must be numbers of blocks"),
    ],
)
def test_cells(cell: str, message: str | None) -> None:
    if message is None:
        blocks = parse_rows(text(cell), "t.csv").blocks
        assert blocks is not None
        assert blocks.numbers == [tuple(map(int, cell.split(",")[0].split()))]
    else:
        with pytest.raises(BlisError, match=message):
            parse_rows(text(cell), "t.csv")


def test_a_missing_cell_is_an_error() -> None:
    short = text("").replace(",\n", "\n")
    with pytest.raises(BlisError, match="27 columns instead of 28"):
        parse_rows(short, "t.csv")


def test_rows_can_be_taken_and_sliced() -> None:
    table = TraceRows([TraceRow(i) for i in range(4)], PromptBlocks(2, [(), (1,), (2,), (3,)]))
    for part in (table[1:3], table.take([1, 2])):
        assert [row.request_id for row in part] == [1, 2]
        assert part.blocks == PromptBlocks(2, [(1,), (2,)])


def test_an_exported_replay_keeps_the_blocks(tmp_path: Path) -> None:
    table = TraceRows(
        [TraceRow(0, input_tokens=5), TraceRow(1, input_tokens=3)], PromptBlocks(2, [(4, 5), ()])
    )
    export_replayed(str(tmp_path / "t"), fixed_requests(table, 1))
    again = parse_rows((tmp_path / "t.csv").read_bytes(), "t.csv")
    assert again.blocks == table.blocks
    export_replayed(str(tmp_path / "u"), [Request("r", 0, None, 1, 1)])
    assert (tmp_path / "u.csv").read_text().startswith(",".join(COLUMNS) + "\n")
