"""Durations and numbers as text, and back."""

from __future__ import annotations

import math
import re

from blis_core.api import BlisError

_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6, "min": 60e6}
_DURATION = re.compile(r"([0-9]*\.?[0-9]+)\s*(us|ms|s|min)")


def parse_duration(text: str, flag: str) -> float:
    """us of a text such as ``500ms`` or ``1.5s``, more than 0."""
    found = _DURATION.fullmatch(text.strip())
    value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not (math.isfinite(value) and value > 0):
        raise BlisError(f"{flag}: {text!r} is not a duration, such as 500ms or 2.5s")
    return value


TIMES = "\N{MULTIPLICATION SIGN}"


def short_duration(us: float) -> str:
    """A time without zeros that say nothing, as for an axis or a limit."""
    number, unit = duration(us).split(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def duration(us: float) -> str:
    """A time with three significant digits and the unit that suits it."""
    if us == 0:
        return "0 ms"
    size = abs(us)
    if size < 99.95:
        return f"{us:.3g} µs"
    if size < 999_500:
        return f"{significant(us / 1e3)} ms"
    if size < 600e6:
        return f"{significant(us / 1e6)} s"
    return f"{significant(us / 60e6)} min"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, without an exponent, thousands set apart."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    # rounded first, since 999.6 has one digit more than it seems to have
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:,.{decimals}f}"


def percent(share: float) -> str:
    """A share in [0, 1]; what is not all or nothing does not look like it."""
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    return f"{share * 100:.1f} %"


def counted(number: int, noun: str) -> str:
    """``1 request``, ``2,000 requests``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
