"""Numbers and tables as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence


def number(value: float, like: float | None = None) -> str:
    """About three significant digits, thousands separated; as many decimals as ``like`` has."""
    size = abs(value if like is None else like)
    digits = 2 if size < 10 else 1 if size < 1000 else 0
    if 0 < size < 1:
        digits = min(2 - math.floor(math.log10(size)), 6)
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if not float(text.replace(",", "")) else text


def aligned(headings: Sequence[Sequence[str]], rows: Sequence[Sequence[str]], words: int) -> str:
    """A table with one or more lines of headings. The first ``words`` columns are text, the others
    numbers, aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*headings, *rows, strict=True)]
    lines = []
    for row in (*headings, *rows):
        cells = [
            cell.ljust(width) if position < words else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(len(headings), "─" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines)
