"""Rows as a CSV or Parquet file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from blis_core.api import BlisError, atomic_write

FORMATS: Final = (".csv", ".parquet")


def check_target(option: str, path: str) -> None:
    """Raise BlisError if rows cannot be written to ``path``.

    Finding out before the sweep is kinder than after it.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise BlisError(f"{option}: {path} must end in {' or '.join(FORMATS)}")
    if target.is_dir():
        raise BlisError(f"{option}: {path} is a folder; name a file")
    if not target.absolute().parent.is_dir():
        raise BlisError(f"{option}: folder {target.parent} does not exist; create it first")
    if target.suffix.lower() == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401 - only to see whether it is there
        except ImportError:
            raise BlisError(
                f"{option}: Parquet needs a library; pip install 'blis-sweep[parquet]', or write"
                " a .csv file"
            ) from None


def write_rows(path: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write ``rows``, which all have the same keys, to ``path``; its ending decides the form."""
    listed = list(rows)
    as_file = _parquet if Path(path).suffix.lower() == ".parquet" else _csv
    atomic_write(path, as_file(listed))


def _csv(rows: list[Mapping[str, Any]]) -> bytes:
    """Numbers with all their digits; nothing for a value that is not there."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _plain(value) for key, value in row.items()})
    return text.getvalue().encode("utf-8", "surrogateescape")


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(rows: list[Mapping[str, Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    names = list(rows[0]) if rows else []
    table = pa.table({name: _column([row[name] for row in rows]) for name in names})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def _column(values: list[Any]) -> list[Any]:
    """Values of one type: a column of whole and other numbers is one of floats."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    return values
