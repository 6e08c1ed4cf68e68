"""Splitting and joining CSV text by the rules of the reference (Go's ``encoding/csv``).

They are those of RFC 4180 with line ends LF or CRLF. Python's own reader differs in details that
decide whether a file is accepted: it tolerates a quote inside an unquoted field, and takes a lone
carriage return for a line end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from blis_core.errors import BlisError

_QUOTED = re.compile(r'"([^"]*(?:""[^"]*)*)"(,|\n|\Z)')
_UNQUOTED = re.compile(r"[^,\n]*")


def normalize(content: bytes | str) -> str:
    """The text of a CSV file: decoded, without byte order mark, with LF line ends.

    A byte sequence that is not UTF-8 becomes U+FFFD.
    """
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    return text.removeprefix("\ufeff")


def split_records(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of each record of normalised ``text``; empty lines are skipped.

    Raises BlisError, naming ``source`` and the line, for a misplaced or missing quote.
    """
    at, line, end = 0, 1, len(text)
    while at < end:
        if text[at] == "\n":
            at += 1
            line += 1
            continue
        start = line
        fields: list[str] = []
        while True:
            if text.startswith('"', at):
                found = _QUOTED.match(text, at)
                if found is None:
                    raise _quote_error(text, at, line, source)
                field, delimiter = found[1].replace('""', '"'), found[2]
                line += field.count("\n")
                at = found.end()
            else:
                found = _UNQUOTED.match(text, at)
                assert found is not None
                field = found[0]
                if '"' in field:
                    raise BlisError(
                        f"{source}, line {line}: a quote inside a field that is not quoted; "
                        "put the field in quotes and double the quote"
                    )
                at = found.end()
                delimiter = text[at : at + 1]
                at += 1
            fields.append(field)
            if delimiter != ",":
                break
        line += 1
        yield start, fields


def _quote_error(text: str, at: int, line: int, source: str) -> BlisError:
    closing = re.compile(r'"[^"]*(?:""[^"]*)*"').match(text, at)
    if closing is None:
        return BlisError(f"{source}, line {line}: a quoted field is not closed")
    line += closing[0].count("\n")
    return BlisError(f"{source}, line {line}: text after the closing quote of a field")


def quote(field: str) -> str:
    """``field`` as it is written: in quotes if it could be misread otherwise."""
    if field and (field[0].isspace() or field == r"\." or any(c in field for c in ',"\r\n')):
        return '"' + field.replace('"', '""') + '"'
    return field
