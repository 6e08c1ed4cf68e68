"""The rows of a trace: reading them strictly, yet column by column, and writing them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import repeat
from typing import Any, NamedTuple, overload

from blis_core.errors import BlisError
from blis_core.trace import csv_text
from blis_core.trace.prompt_blocks import (
    PromptBlocks,
    block_size,
    format_cell,
    misfit,
    parse_cell,
)


class TraceRow(NamedTuple):
    """One request of a trace; the fields are the 27 columns in file order."""

    request_id: int
    client_id: str = ""
    tenant_id: str = ""
    slo_class: str = ""
    session_id: str = ""
    round_index: int = 0
    prefix_group: str = ""
    prefix_length: int = 0
    """Tokens of the prompt that the group shares."""
    streaming: bool = False
    input_tokens: int = 0
    """Prompt length without the prefix."""
    output_tokens: int = 0
    text_tokens: int = 0
    image_tokens: int = 0
    audio_tokens: int = 0
    video_tokens: int = 0
    reason_ratio: float = 0.0
    """Share of the output spent on reasoning, in [0, 1]."""
    model: str = ""
    deadline_us: int = 0
    """Absolute, in the time base of the arrivals; 0 = none."""
    server_input_tokens: int = 0
    arrival_time_us: int = 0
    send_time_us: int = 0
    first_chunk_time_us: int = 0
    last_chunk_time_us: int = 0
    num_chunks: int = 0
    status: str = ""
    error_message: str = ""
    finish_reason: str = ""


class TraceRows(Sequence[TraceRow]):
    """The rows of a trace, kept by column; a row is made when it is looked at."""

    __slots__ = ("_columns", "blocks")

    def __init__(self, rows: Iterable[TraceRow] = (), blocks: PromptBlocks | None = None) -> None:
        self._columns: tuple[Sequence[Any], ...] = tuple(zip(*rows, strict=True))
        if not self._columns:
            self._columns = ((),) * _WIDTH
        self.blocks = blocks
        """What prompts begin with, one entry per row; None = not known."""

    @classmethod
    def from_columns(
        cls, columns: Iterable[Sequence[Any]], blocks: PromptBlocks | None = None
    ) -> TraceRows:
        """Rows from the values of each column, in file order and of equal length."""
        made = cls(blocks=blocks)
        made._columns = tuple(columns)
        return made

    def column(self, name: str) -> Sequence[Any]:
        """All values of the column ``name``."""
        return self._columns[COLUMNS.index(name)]

    def fields(self, *names: str) -> Sequence[Sequence[Any]]:
        """The columns ``names`` (default: all)."""
        return [self.column(name) for name in names] if names else self._columns

    def columns(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """The values of the columns ``names`` (default: all), row by row."""
        return zip(*self.fields(*names), strict=True)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[TraceRow]:
        return map(TraceRow._make, self.columns())

    @overload
    def __getitem__(self, index: int) -> TraceRow: ...
    @overload
    def __getitem__(self, index: slice) -> TraceRows: ...
    def __getitem__(self, index: int | slice) -> TraceRow | TraceRows:
        if isinstance(index, slice):
            blocks = self.blocks
            if blocks is not None:
                blocks = PromptBlocks(blocks.size, blocks.numbers[index])
            return TraceRows.from_columns((column[index] for column in self._columns), blocks)
        return TraceRow._make(column[index] for column in self._columns)

    def take(self, places: Sequence[int]) -> TraceRows:
        """The rows at ``places``, in that order."""
        blocks = self.blocks
        if blocks is not None:
            blocks = PromptBlocks(blocks.size, [blocks.numbers[place] for place in places])
        return TraceRows.from_columns(
            ([column[place] for place in places] for column in self._columns), blocks
        )

    def __repr__(self) -> str:
        return f"<TraceRows: {len(self)} rows>"


COLUMNS = TraceRow._fields
_WIDTH = len(COLUMNS)
_DEADLINE, _ARRIVAL = COLUMNS.index("deadline_us"), COLUMNS.index("arrival_time_us")
_INPUT, _PREFIX = COLUMNS.index("input_tokens"), COLUMNS.index("prefix_length")

_INT64 = range(-(2**63), 2**63)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_D = r"[0-9](?:_?[0-9])*"
_X = r"[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_DECIMAL = re.compile(rf"[+-]?(?:{_D}\.?(?:{_D})?|\.{_D})(?:[eE][+-]?{_D})?")
_HEXADECIMAL = re.compile(rf"[+-]?0[xX]_?(?:{_X}\.?(?:{_X})?|\.{_X})[pP][+-]?{_D}")
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


# ------------------------------------------------------------------------------ kinds of columns
# A kind converts one cell, raising ValueError that says what is allowed, or a whole column.


def whole_number(cell: str) -> int:
    """A 64-bit whole number; ValueError, saying so, for any other text."""
    if _WHOLE.fullmatch(cell):
        value = int(cell) if len(cell) < 4000 else 2**63  # int() refuses absurd lengths
        if value in _INT64:
            return value
    raise ValueError("a whole number of at most 64 bits")


def _count(cell: str) -> int:
    if _WHOLE.fullmatch(cell):
        value = int(cell) if len(cell) < 4000 else 2**63
        if 0 <= value < 2**63:
            return value
    raise ValueError("a whole number of at least 0")


def _boolean(cell: str) -> bool:
    try:
        return _BOOLEANS[cell]
    except KeyError:
        raise ValueError("true or false") from None


def _share(cell: str) -> float:
    value = math.nan
    if _DECIMAL.fullmatch(cell):
        value = float(cell)
    elif _HEXADECIMAL.fullmatch(cell):
        with contextlib.suppress(OverflowError):
            value = float.fromhex(cell.replace("_", ""))
    if 0 <= value <= 1:
        return value
    raise ValueError("a number between 0 and 1")


def _text(cell: str) -> str:
    return cell


def _trimmed(cell: str) -> str:
    return cell.strip()


def _integers(convert: Callable[[str], int], cells: Sequence[str]) -> Sequence[int]:
    if cells.count(cells[0]) == len(cells):
        return [convert(cells[0])] * len(cells)
    joined = "".join(cells)
    if joined.isdecimal() and joined.isascii() and all(cells):
        values = list(map(int, cells))
        if max(values) < 2**63:
            return values
    return list(map(convert, cells))


def _few_values(convert: Callable[[Any], Any], cells: Sequence[Any]) -> list[Any]:
    """Converts each distinct cell once."""
    values = {cell: convert(cell) for cell in set(cells)}
    return list(map(values.__getitem__, cells))


_Bulk = Callable[[Callable[[str], Any], Sequence[str]], Sequence[Any]]
_Kind = tuple[Callable[[str], Any], _Bulk]


def _kind(name: str, annotation: Any) -> _Kind:
    if name in ("error_message", "finish_reason"):
        return _trimmed, _few_values
    if annotation == "int":
        signed = name in ("request_id", "round_index") or (name.endswith("_time_us"))
        return (whole_number if signed else _count), _integers
    if annotation == "bool":
        return _boolean, _few_values
    if annotation == "float":
        return _share, _few_values
    return _text, lambda _, cells: cells


_KINDS: tuple[_Kind, ...] = tuple(
    _kind(name, TraceRow.__annotations__[name].__forward_arg__) for name in COLUMNS
)


# --------------------------------------------------------------------------------------- reading


def parse_rows(content: bytes | str, source: str) -> TraceRows:
    """The rows of the CSV text ``content``; the first record is skipped, whatever it holds, unless
    it names a column of blocks behind the others.

    Raises BlisError for the first wrong row: with ``source``, line, column, what stands there and
    what is allowed.
    """
    text = csv_text.normalize(content)
    columns, size = _split_columns(text, source)
    if not columns:
        return TraceRows()
    try:
        values = [
            bulk(convert, cells)
            for (convert, bulk), cells in zip(_KINDS, columns[:_WIDTH], strict=True)
        ]
        blocks = None
        if size:
            blocks = PromptBlocks(size, _few_values(parse_cell, columns[_WIDTH]))
    except ValueError:
        raise _first_error(text, source) from None
    if any(
        0 < deadline < arrival
        for deadline, arrival in zip(values[_DEADLINE], values[_ARRIVAL], strict=True)
    ) or (
        blocks
        and any(
            misfit(numbers, size, n_in + n_prefix)
            for numbers, n_in, n_prefix in zip(
                blocks.numbers, values[_INPUT], values[_PREFIX], strict=True
            )
        )
    ):
        raise _first_error(text, source)
    return TraceRows.from_columns(values, blocks)


def _split_columns(text: str, source: str) -> tuple[list[Sequence[str]], int]:
    """The cells of each column, no columns at all if there are no rows; and the tokens per block if
    there is a column of blocks (the 28th), else 0."""
    if '"' not in text:
        lines = text.removesuffix("\n").split("\n")
        size = block_size(lines[0].split(","), _WIDTH)
        width = _WIDTH + (size > 0)
        del lines[0]
        # Without quotes, blank lines and surplus fields, cells of a column are equally spaced.
        if lines and set(map(str.count, lines, repeat(","))) == {width - 1}:
            cells = ",".join(lines).split(",")
            return [cells[i::width] for i in range(width)], size
    records = csv_text.split_records(text, source)
    header = next(records, None)
    if header is None:
        raise BlisError(f"{source}: the file is empty; expected a header line")
    size = block_size(header[1], _WIDTH)
    width = _WIDTH + (size > 0)
    rows: list[list[str]] = []
    for line, fields in records:
        if len(fields) < width:
            raise _short_row(source, line, len(rows) + 1, len(fields), width)
        rows.append(fields[:width])
    return list(zip(*rows, strict=True)), size


def _short_row(source: str, line: int, row: int, found: int, width: int) -> BlisError:
    return BlisError(f"{source}, line {line} (row {row}): {found} columns instead of {width}")


def _first_error(text: str, source: str) -> BlisError:
    """The error of the first row that is wrong; there must be one."""
    records = csv_text.split_records(text, source)
    _, header = next(records)
    size = block_size(header, _WIDTH)
    for row, (line, fields) in enumerate(records, start=1):
        where = f"{source}, line {line} (row {row})"
        values: list[Any] = []
        kinds = [(name, convert) for name, (convert, _) in zip(COLUMNS, _KINDS, strict=True)]
        if size:
            kinds.append((header[_WIDTH], parse_cell))
        for (name, convert), cell in zip(kinds, fields, strict=False):
            try:
                values.append(convert(cell))
            except ValueError as allowed:
                return BlisError(f"{where}: column {name} must be {allowed}, not {cell!r}")
        if 0 < values[_DEADLINE] < values[_ARRIVAL]:
            return BlisError(
                f"{where}: deadline_us ({values[_DEADLINE]}) must not be before "
                f"arrival_time_us ({values[_ARRIVAL]})"
            )
        prompt_len = values[_INPUT] + values[_PREFIX]
        if size and misfit(values[_WIDTH], size, prompt_len):
            return BlisError(
                f"{where}: {len(values[_WIDTH])} blocks of {size} tokens do not fit into a prompt"
                f" of {prompt_len} (prefix_length + input_tokens)"
            )
    raise AssertionError("bulk and single conversion disagree")


# --------------------------------------------------------------------------------------- writing


def format_rows(rows: Iterable[TraceRow]) -> str:
    """The CSV text of ``rows``, header line included."""
    table = rows if isinstance(rows, TraceRows) else TraceRows(rows)
    blocks = table.blocks
    header = ",".join((*COLUMNS, blocks.column) if blocks else COLUMNS) + "\n"
    if not table:
        return header
    texts: list[Iterable[str]] = []
    for name in COLUMNS:
        cells = table.column(name)
        match TraceRow.__annotations__[name].__forward_arg__:
            case "int":
                texts.append(map(str, cells))
            case "bool":
                texts.append("true" if cell else "false" for cell in cells)
            case "float":
                texts.append(_few_values(_format_share, cells))
            case _:
                texts.append(_few_values(csv_text.quote, cells))
    if blocks:
        texts.append(map(format_cell, blocks.numbers))
    lines = map(",".join, zip(*texts, strict=True))
    return header + "\n".join(lines) + "\n"


def _format_share(x: float) -> str:
    """The shortest decimal that reads back as ``x``, without exponent."""
    return format(Decimal(repr(x)), "f").removesuffix(".0")
