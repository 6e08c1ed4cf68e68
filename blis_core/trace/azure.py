"""Azure's public traces of LLM inference: CSV with a time and two lengths per request.

The published files have the columns ``TIMESTAMP``, ``ContextTokens`` and ``GeneratedTokens``, the
first of which is a date and a time. Copies with seconds from the start are read as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from blis_core.contracts import ImportedRequest, Importer
from blis_core.errors import BlisError
from blis_core.files import read_bytes
from blis_core.go_text import parse_float
from blis_core.trace import csv_text
from blis_core.trace.rows import whole_number

_TIME = ("timestamp", "arrival_s", "arrived_at")
_INPUT = ("contexttokens", "input_tokens", "num_prefill_tokens")
_OUTPUT = ("generatedtokens", "output_tokens", "num_decode_tokens")
"""Names of the columns, in any letter case."""


class AzureImporter(Importer):
    """Dates become times from the earliest request on; seconds stay as they are."""

    def read(self, path: str) -> Iterable[ImportedRequest]:
        """All rows; columns are found by name, further ones are ignored."""
        records = csv_text.split_records(csv_text.normalize(read_bytes(path)), path)
        header = next(records, None)
        if header is None:
            raise BlisError(f"{path}: the file is empty; expected a header line")
        places = [_place(header[1], names, path) for names in (_TIME, _INPUT, _OUTPUT)]
        rows: list[tuple[int, int, int]] = []
        dated: bool | None = None
        for line, fields in records:
            where = f"{path}, line {line}"
            if len(fields) <= max(places):
                raise BlisError(f"{where}: {len(fields)} columns, {len(header[1])} in the header")
            text, n_in, n_out = (fields[place].strip() for place in places)
            time, is_date = _time(text, where)
            if dated is not None and dated != is_date:
                raise BlisError(f"{where}: dates and seconds are mixed ({text!r})")
            dated = is_date
            rows.append((time, _tokens(n_in, where), _tokens(n_out, where)))
        start = min((time for time, _, _ in rows), default=0) if dated else 0
        return [ImportedRequest(time - start, n_in, n_out) for time, n_in, n_out in rows]


def _place(header: Sequence[str], names: Sequence[str], path: str) -> int:
    """Which column has one of ``names``."""
    found = [name.strip().lower() for name in header]
    for name in names:
        if name in found:
            return found.index(name)
    raise BlisError(f"{path}: no column is called {' or '.join(names)}; found {', '.join(header)}")


def _time(text: str, where: str) -> tuple[int, bool]:
    """us, and whether they count from 1970 (a date) instead of from the start (seconds)."""
    try:
        seconds = parse_float(text)
    except ValueError:
        return _date(text, where), True
    if not 0 <= seconds < 1e12:
        raise BlisError(f"{where}: the time must be at least 0 s, not {text}")
    return round(seconds * 1e6), False


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _date(text: str, where: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BlisError(f"{where}: {text!r} is neither seconds nor a date with a time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _tokens(text: str, where: str) -> int:
    try:
        value = whole_number(text)
    except ValueError:
        value = -1
    if value < 0:
        raise BlisError(f"{where}: tokens must be a whole number of at least 0, not {text!r}")
    return value
