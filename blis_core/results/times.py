"""Times as JSON numbers, of which a metrics file has several for each request."""

from __future__ import annotations

from blis_core.results.numbers import float_text

_FRACTIONS = ("", *(f".{i:03d}".rstrip("0") for i in range(1, 1000)))
_PADDED = tuple(f"{i:03d}" for i in range(1000))
_SHORT = 10**15
"""Decimals of up to 15 digits are their own shortest form, so below this no float is needed."""


def us_as_ms(us: int) -> str:
    """``float_text(us / 1000)``, faster."""
    if 0 <= us < _SHORT:
        return f"{us // 1000}{_FRACTIONS[us % 1000]}"
    return float_text(us / 1000.0)


def us_as_s(us: int) -> str:
    """``float_text(us / 1e6)``, faster."""
    if 0 <= us < _SHORT:
        ms, rest = divmod(us, 1000)
        if not rest:
            return f"{ms // 1000}{_FRACTIONS[ms % 1000]}"
        return f"{ms // 1000}.{_PADDED[ms % 1000]}{_FRACTIONS[rest][1:]}"
    return float_text(us / 1e6)
