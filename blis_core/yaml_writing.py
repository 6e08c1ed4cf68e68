"""Writes YAML in the layout of the reference, which is that of Go's yaml.v3.

Block style; what belongs to a key stands at the next multiple of four columns to the right of it,
the dashes of a list as well; the keys of a mapping in a list stand two columns right of the dash.
Specification 05b, section 1.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blis_core.yaml_reading import Scalar, resolve

_STEP = 4
_DASH = 2

# Text that an older reader would take for a boolean, for a number to the base 60, or for a date.
_OLD_BOOLEANS = frozenset("y Y yes Yes YES on On ON n N no No NO off Off OFF".split())
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", re.ASCII)
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt ]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})?)?",
    re.ASCII,
)

_INDICATORS = frozenset("#,[]{}&*!|>'\"%@`")
"""Characters that plain text may not begin with."""
_UNPRINTABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]"  # and all beyond 16 bits
)
_ESCAPES = dict(
    zip(map(ord, '\0\a\b\t\n\v\f\r\x1b"\\\x85\u2028\u2029'), '0abtnvfre"\\NLP', strict=True)
)


def dump_yaml(document: Mapping[str, Any]) -> str:
    """``document`` as YAML text with a final line end.

    It may hold mappings, sequences, text, numbers and booleans; entries that are None are left out.
    """
    return "".join(f"{line}\n" for line in _mapping(document, 0))


def sorted_keys(keys: Sequence[str]) -> list[str]:
    """``keys`` in the order of the keys of a free mapping: as text, yet digits as numbers."""
    return sorted(keys, key=functools.cmp_to_key(_compare))


def scalar_text(value: Any, column: int = 0) -> str:
    """A number, a truth value or text, which may take several lines that begin at ``column``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    return _text(str(value), column)


def float_text(value: float) -> str:
    """The shortest digits of a double, with an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    if value == 0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1  # of ten, that of the first digit
    if whole == "0":
        power = int(exponent or 0) - (len(fraction) - len(fraction.lstrip("0"))) - 1
    digits = digits.rstrip("0")
    if -5 < power < 6:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        padded = digits.ljust(power + 1, "0")
        rest = padded[power + 1 :]
        return sign + padded[: power + 1] + (f".{rest}" if rest else "")
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'-' if power < 0 else '+'}{abs(power):02d}"


# ----------------------------------------------------------------------------------------- layout


def _mapping(mapping: Mapping[str, Any], column: int) -> Iterator[str]:
    inner = (column // _STEP + 1) * _STEP
    for key, value in mapping.items():
        if value is None:
            continue
        head = f"{' ' * column}{_text(str(key), None)}:"
        if isinstance(value, Mapping):
            lines = list(_mapping(value, inner))
            yield head if lines else f"{head} {{}}"
            yield from lines
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield head if value else f"{head} []"
            yield from _list(value, inner)
        else:
            yield f"{head} {scalar_text(value, inner)}"


def _list(items: Sequence[Any], column: int) -> Iterator[str]:
    dash = f"{' ' * column}- "
    for item in items:
        if isinstance(item, Mapping):
            first = True
            for line in _mapping(item, column + _DASH):
                yield dash + line[column + _DASH :] if first else line
                first = False
        else:
            yield dash + scalar_text(item, column + _STEP)


# ------------------------------------------------------------------------------------------- text


def _text(text: str, column: int | None) -> str:
    """``text`` as a scalar; ``column`` is where further lines may begin, None = no such lines."""
    lines = "\n" in text
    if lines and column is not None and _fits_block(text):
        return _block(text, column)
    if not lines and not _misread(text):
        if _may_be_plain(text):
            return text
        if not _needs_escapes(text):
            return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _misread(text: str) -> bool:
    """Whether bare ``text`` would read as something else than text."""
    return (
        text in _OLD_BOOLEANS
        or text == "<<"
        or not isinstance(resolve(Scalar(text)), str)
        or _BASE_60.fullmatch(text) is not None
        or _is_date(text)
    )


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    from datetime import datetime

    try:
        datetime(*(int(part or 0) for part in found.groups()))  # type: ignore[arg-type]  # noqa: DTZ001
    except ValueError:
        return False
    return True


def _may_be_plain(text: str) -> bool:
    return not (
        text[0] in _INDICATORS
        or text[0] == " "
        or text[-1] in " :"
        or text.startswith(("---", "...", "- ", "? "))
        or text in ("-", "?")
        or ": " in text
        or " #" in text
        or _needs_escapes(text)
    )


def _needs_escapes(text: str) -> bool:
    return "\t" in text or _UNPRINTABLE.search(text) is not None


def _escaped(character: str) -> str:
    code = ord(character)
    if code in _ESCAPES:
        return "\\" + _ESCAPES[code]
    if _UNPRINTABLE.match(character) is None:
        return character
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _fits_block(text: str) -> bool:
    """Whether a block of lines reads back as ``text`` without further marks."""
    return (
        text[0] not in " \n"
        and "\t" not in text
        and not text.isspace()
        and not any(line.endswith(" ") for line in text.split("\n"))
        and _UNPRINTABLE.search(text) is None
    )


def _block(text: str, column: int) -> str:
    """``text`` line by line; the mark says what becomes of the line ends behind it."""
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    mark = ("|-", "|")[ends] if ends < 2 else "|+"
    indent = " " * column
    lines = [indent + line if line else "" for line in body.split("\n")]
    return "\n".join([mark, *lines, *[""] * (ends - 1)])


# --------------------------------------------------------------------------------- order of keys


def _compare(a: str, b: str) -> int:
    """Below 0 if ``a`` comes first.

    Texts are compared where they first differ: letters by their codes, numbers (from the first of
    their digits on) by value, other characters before letters, except that behind a digit a letter
    comes before anything else, because the number ends there.
    """
    for at, (x, y) in enumerate(zip(a, b, strict=False)):
        if x == y:
            continue
        if x.isalpha() and y.isalpha():
            return -1 if x < y else 1
        if x.isalpha() or y.isalpha():
            behind_digit = at > 0 and a[at - 1].isdecimal()
            return -1 if x.isalpha() == behind_digit else 1
        start = at
        while start and a[start - 1].isdecimal():
            start -= 1
        (m, m_length), (n, n_length) = _number(a, start), _number(b, start)
        if (m, m_length) != (n, n_length):
            return -1 if (m, m_length) < (n, n_length) else 1
        return -1 if x < y else 1
    return len(a) - len(b)


def _number(text: str, start: int) -> tuple[int, int]:
    """Value and length of the digits from ``start`` on."""
    end = start
    while end < len(text) and text[end].isdecimal():
        end += 1
    return int(text[start:end] or 0), end - start
