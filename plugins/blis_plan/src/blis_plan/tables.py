"""Tables and listings for a terminal or a file, at home in 80 columns."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_WIDEST = 1000
"""No table is wider."""


def table(*columns: str, first_is_text: bool = False) -> Table:
    """An empty table; the last column has words, and perhaps the first, the others figures."""
    made = Table(
        box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    for place, column in enumerate(columns):
        if place == len(columns) - 1 or (first_is_text and place == 0):
            made.add_column(column, overflow="fold")
        else:
            made.add_column(column, justify="right", no_wrap=True)
    return made


def print_table(console: Console, made: Table) -> None:
    """Print a table; where nobody watches, it may be as wide as it likes."""
    if console.is_terminal:
        console.print(made)
    else:
        Console(width=_WIDEST, highlight=False, file=console.file).print(made)


def listing(rows: Iterable[tuple[str, str]]) -> Table:
    """Names with explanations, which wrap."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(f"  {name}", text)
    return grid


def percent(share: float) -> str:
    """A share in whole per cent."""
    if share < -1:
        return "< -100%"
    text = f"{share:.0%}"
    return "0%" if text == "-0%" and share == 0 else text.replace("-0%", "< 0%")


def finite(value: float) -> float | None:
    """For JSON, which has no infinity: None stands for it."""
    return value if math.isfinite(value) else None
