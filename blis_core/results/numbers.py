"""Numbers and text in the layout of the reference: JSON as Go encodes it, and C-style fixed point.

Specification 08, section 11.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from blis_core.errors import BlisError


def float_text(value: float) -> str:
    """Shortest decimal text that reads back as ``value``, laid out as in the reference's JSON.

    Exponents appear only below 1e-6 and from 1e21 on. NaN and infinities raise BlisError.
    """
    text = repr(float(value))
    if "e" not in text:
        if text.endswith(".0"):
            return text[:-2]
        # repr switches to exponents below 1e-4, so this is positional in both notations.
        return text if "n" not in text else _not_finite(value)
    digits, _, exponent = text.partition("e")
    power = int(exponent)
    if -7 < power < 21:
        return _positional(digits, power)
    return f"{digits}e{'+' if power > 0 else '-'}{abs(power)}"


def _positional(digits: str, power: int) -> str:
    """``digits`` times ten to the ``power``, without exponent."""
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.lstrip("-").partition(".")
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{whole}{fraction}"
    # From 1e16 on, where repr has an exponent, a double has no digits after the point.
    return sign + whole + fraction.ljust(power, "0")


def _not_finite(value: float) -> str:
    raise BlisError(f"a result is not a finite number ({value}); JSON cannot hold it")


def fixed(value: float, decimals: int) -> str:
    """``value`` with a fixed number of decimals, or ``+Inf``, ``-Inf``, ``NaN``."""
    if math.isfinite(value):
        return f"{value:.{decimals}f}"
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


_SPECIAL = '[\x00-\x1f"\\\\<>&\u2028\u2029\ud800-\udfff]'
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    if "\ud800" <= character <= "\udfff":
        return "\\ufffd"  # an undecodable byte; the reference writes the replacement character
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"


def string_text(text: str) -> str:
    """``text`` as a JSON string; only what must or (for HTML) should be escaped is."""
    if not text.isidentifier():  # most names are, and then there is nothing to escape
        text = re.sub(_SPECIAL, _escape, text)
    return f'"{text}"'


def scalar_text(value: Any) -> str:
    """A number, text, truth value or None as JSON."""
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value)


def json_text(value: Any, indent: str = "") -> str:
    """``value`` as JSON with two spaces of indentation and no newline at the end.

    Takes mappings, lists and tuples of such, and scalars. ``indent`` is the indentation of the
    line in which the value starts.
    """
    inner = indent + "  "
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        members = (f"{string_text(k)}: {json_text(v, inner)}" for k, v in value.items())
        return _enclosed("{", members, "}", indent)
    if isinstance(value, (list, tuple)):
        if not value:
            return "[]"
        return _enclosed("[", (json_text(v, inner) for v in value), "]", indent)
    return scalar_text(value)


def _enclosed(opening: str, parts: Iterable[str], closing: str, indent: str) -> str:
    """Members of an object or a list, one per line."""
    between = f",\n{indent}  "
    return f"{opening}\n{indent}  {between.join(parts)}\n{indent}{closing}"
