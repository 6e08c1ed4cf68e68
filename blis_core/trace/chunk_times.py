"""The file of chunk times (ITL file): when each piece of a streamed answer came.

CSV with a header line and three columns: the id of the request, the number of the chunk (0 is the
first) and its time in us since the epoch. Rows are in the order in which they were recorded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from blis_core.errors import BlisError
from blis_core.files import atomic_write, read_bytes
from blis_core.trace import csv_text
from blis_core.trace.rows import whole_number


class ChunkTime(NamedTuple):
    """One chunk of an answer; the fields are the columns. No value is below 0."""

    request_id: int
    chunk_index: int
    timestamp_us: int


COLUMNS = ChunkTime._fields


def read_chunk_times(path: str | os.PathLike[str]) -> list[ChunkTime]:
    """The rows of the file ``path``. BlisError, naming line and column, for what is malformed."""
    return parse_chunk_times(read_bytes(path), os.fspath(path))


def write_chunk_times(path: str | os.PathLike[str], rows: Iterable[ChunkTime]) -> None:
    """Write ``rows`` to ``path``, whole or not at all. BlisError if that is not possible."""
    atomic_write(path, format_chunk_times(rows))


def parse_chunk_times(content: bytes | str, source: str) -> list[ChunkTime]:
    """The rows of the CSV text ``content``; the first record is skipped, whatever it holds.

    All records must have as many fields as the first, of which three count.
    """
    records = csv_text.split_records(csv_text.normalize(content), source)
    header = next(records, None)
    if header is None:
        raise BlisError(f"{source}: the file is empty; expected a header line")
    width = len(header[1])
    rows = []
    for number, (line, fields) in enumerate(records, start=1):
        where = f"{source}, line {line} (row {number})"
        if len(fields) != width or width < len(COLUMNS):
            raise BlisError(
                f"{where}: {len(fields)} columns; as many as in the first line ({width}) and at"
                f" least {len(COLUMNS)} are needed"
            )
        rows.append(ChunkTime._make(map(_value, [where] * len(COLUMNS), COLUMNS, fields)))
    return rows


def _value(where: str, name: str, cell: str) -> int:
    try:
        value = whole_number(cell)
    except ValueError:
        value = -1
    if value < 0:
        raise BlisError(f"{where}: {name} must be a whole number of at least 0, not {cell!r}")
    return value


def format_chunk_times(rows: Iterable[ChunkTime]) -> str:
    """The CSV text of ``rows``, header line included."""
    lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"
