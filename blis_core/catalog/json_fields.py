"""Reads single fields of a decoded JSON object the way the reference does."""

from __future__ import annotations

import math
from typing import Any


def number(value: Any) -> float | None:
    """A JSON number as a float, as the reference reads it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def integer(config: dict[str, Any], *keys: str) -> int:
    """First non-zero number under ``keys``, truncated; 0 without one."""
    for key in keys:
        found = number(config.get(key))
        if found is not None and math.isfinite(found) and int(found) != 0:
            return int(found)
    return 0


def text(config: dict[str, Any], key: str) -> str:
    """The text under ``key``; "" if there is none."""
    value = config.get(key)
    return value if isinstance(value, str) else ""
