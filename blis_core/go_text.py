"""Numbers and truth values as the reference reads them: Go's syntax, not Python's.

The parsers raise ValueError with the reason. Specification 08, section 1.
"""

from __future__ import annotations

import math
import re

_INT64 = range(-(2**63), 2**63)

# Patterns are compiled when first used: most command lines need one or two of them.
_WHOLE = (
    r"[+-]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[oO](?P<octal>[0-7]+)|0[bB](?P<binary>[01]+)"
    r"|0(?P<old_octal>[0-7]*)|(?P<decimal>[1-9][0-9]*))"
)
_BASES = {"hex": 16, "octal": 8, "binary": 2, "old_octal": 8, "decimal": 10}

_DECIMAL = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_HEXADECIMAL = r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
_INFINITE = r"[+-]?inf(?:inity)?"

_TRUE = frozenset(("1", "t", "T", "true", "True", "TRUE"))
_FALSE = frozenset(("0", "f", "F", "false", "False", "FALSE"))


def _without_underscores(text: str) -> str:
    """``text`` without its digit separators; ValueError if one stands in a wrong place.

    A separator must follow a digit (or a base prefix, which counts as one) and precede a digit.
    """
    if "_" not in text:
        return text
    body = text[1:] if text[:1] in ("+", "-") else text
    prefix = body[:2].lower()
    digits = "0123456789abcdefABCDEF" if prefix == "0x" else "0123456789"
    after_digit = prefix in ("0x", "0o", "0b")
    after_separator = False
    for character in body[2:] if after_digit else body:
        if character == "_":
            if not after_digit:
                raise ValueError(f"{text!r} has '_' in a wrong place")
            after_digit, after_separator = False, True
        else:
            after_digit = character in digits
            if after_separator and not after_digit:
                raise ValueError(f"{text!r} has '_' in a wrong place")
            after_separator = False
    if after_separator:
        raise ValueError(f"{text!r} has '_' in a wrong place")
    return text.replace("_", "")


def parse_int(text: str) -> int:
    """A 64-bit whole number; the prefixes 0x, 0o (or just 0) and 0b choose the base."""
    if text.isdecimal() and text.isascii() and text[0] != "0" and len(text) < 19:
        return int(text)  # as most are
    plain = _without_underscores(text)
    match = re.fullmatch(_WHOLE, plain)
    if match is None:
        raise ValueError(f"{text!r} is not a whole number")
    value = 0
    for group, base in _BASES.items():
        if digits := match[group]:
            if len(digits) > 64:
                digits = digits.lstrip("0")[:65] or "0"
            value = int(digits, base)
    if plain.startswith("-"):
        value = -value
    if value not in _INT64:
        raise ValueError(f"{text!r} does not fit into 64 bits")
    return value


def parse_float(text: str) -> float:
    """A double: decimal, hexadecimal with a binary exponent, ``inf`` or ``nan``."""
    plain = _without_underscores(text)
    if re.fullmatch(_DECIMAL, plain):
        value = float(plain)
    elif re.fullmatch(_INFINITE, plain.lower()):
        return -math.inf if plain.startswith("-") else math.inf
    elif plain.lower() == "nan":
        return math.nan
    elif re.fullmatch(_HEXADECIMAL, plain):
        try:
            value = float.fromhex(plain)
        except OverflowError:
            value = math.inf
    else:
        raise ValueError(f"{text!r} is not a number")
    if math.isinf(value):
        raise ValueError(f"{text!r} is too large for a double")
    return value


def parse_floats(text: str) -> tuple[float, ...]:
    """Doubles separated by commas, without blanks."""
    return tuple(parse_float(part) for part in text.split(","))


def parse_bool(text: str) -> bool:
    """A truth value: 1, t, T, true, True, TRUE, or 0, f, F, false, False, FALSE."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{text!r} is neither true nor false")
