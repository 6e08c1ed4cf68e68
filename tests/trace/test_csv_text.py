"""CSV text: the reference's rules, where Python's reader would differ."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_core.trace.csv_text import normalize, quote, split_records


def split(text: str | bytes) -> list[tuple[int, list[str]]]:
    return list(split_records(normalize(text), "t.csv"))


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("", []),
        ("\n\n", []),
        ("a,b\n", [(1, ["a", "b"])]),
        ("a,b", [(1, ["a", "b"])]),
        ("a,\n", [(1, ["a", ""])]),
        ("a,", [(1, ["a", ""])]),
        (",\n", [(1, ["", ""])]),
        (" \n", [(1, [" "])]),
        ("a\r\n\r\nb\r\n", [(1, ["a"]), (3, ["b"])]),
        ("a\rb\nc\r", [(1, ["a\rb"]), (2, ["c"])]),
        ("\ufeffa\n", [(1, ["a"])]),
        ('\ufeff"a"\n', [(1, ["a"])]),
        ('"a ""b"", c",d\n', [(1, ['a "b", c', "d"])]),
        ('"a\r\nb",c\nd\n', [(1, ["a\nb", "c"]), (3, ["d"])]),
        ('"",""', [(1, ["", ""])]),
        ("\n\na\n", [(3, ["a"])]),
        (b"\xff,\xc3\xa4\n", [(1, ["\ufffd", "ä"])]),
    ],
)
def test_records(text: str | bytes, records: list[tuple[int, list[str]]]) -> None:
    assert split(text) == records


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a\nb"c\n', "line 2: a quote inside a field that is not quoted"),
        ('a\n"b" \n', "line 2: text after the closing quote"),
        ('"a\nb"x\n', "line 2: text after the closing quote"),
        ('a\n\n"b\n', "line 3: a quoted field is not closed"),
        ('"', "line 1: a quoted field is not closed"),
    ],
)
def test_misplaced_quotes(text: str, message: str) -> None:
    with pytest.raises(BlisError, match=message):
        split(text)


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("", ""),
        ("a b", "a b"),
        (" a", '" a"'),
        ("\u00a0a", '"\u00a0a"'),
        ("a,b", '"a,b"'),
        ('a"b', '"a""b"'),
        ("a\nb", '"a\nb"'),
        ("a\rb", '"a\rb"'),
        (r"\.", r'"\."'),
        (r"\.x", r"\.x"),
    ],
)
def test_quoting(field: str, written: str) -> None:
    assert quote(field) == written


FIELDS = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]))


@given(st.lists(st.lists(FIELDS, min_size=2), min_size=1))
def test_round_trip(table: list[list[str]]) -> None:
    text = "".join(",".join(map(quote, record)) + "\n" for record in table)
    assert [fields for _, fields in split(text)] == table
    # Any other reader understands it too.
    assert list(csv.reader(io.StringIO(text, newline=""))) == table
