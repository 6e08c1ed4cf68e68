"""``blis diff``: two saved results side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from blis_core.cli.options import PflagCommand
from blis_core.cli.report import print_text
from blis_core.errors import BlisError, UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from blis_core.results.difference import Change, Difference
    from blis_core.results.saved import SavedResult


def execute(
    results: tuple[str, ...], output: str, tolerance: float, exit_code: bool, show_all: bool
) -> int:
    """Compare, print, and return 1 if asked to and something differs."""
    if len(results) != 2:
        raise UsageError(f"diff compares two results, not {len(results)}: blis diff A.json B.json")
    if not tolerance >= 0:
        raise BlisError(f"--tolerance: must be at least 0, got {tolerance:g}")
    from blis_core.results.difference import as_json, compare
    from blis_core.results.saved import read_result

    a, b = map(read_result, results)
    found = compare(a, b)
    if output == "json":
        print_text(as_json(a, b, found, tolerance))
    else:
        from blis_core.results.table import OutputConsole

        _print(OutputConsole(highlight=False), a, b, found, tolerance, show_all=show_all)
    return int(exit_code and any(change.exceeds(tolerance) for change in found.figures))


# ------------------------------------------------------------------------------------------- text


def _print(
    console: Console,
    a: SavedResult,
    b: SavedResult,
    found: Difference,
    tolerance: float,
    *,
    show_all: bool,
) -> None:
    from blis_core.results.difference import MAIN

    console.print(f"A  {a.path}\nB  {b.path}\n", soft_wrap=True, markup=False)
    if found.settings is None:
        console.print("Settings cannot be compared: only --output json saves them.\n")
    elif found.settings:
        console.print(_settings(found))
        console.print()
    else:
        console.print("The settings are the same.\n")
    shown = [
        change
        for change in found.figures
        if show_all or change.name in MAIN or change.exceeds(tolerance)
    ]
    console.print(_figures(shown, tolerance))
    console.print()
    _print_requests(console, found)
    hidden = len(found.figures) - len(shown)
    differing = sum(change.exceeds(tolerance) for change in found.figures)
    beyond = f" by more than {tolerance:g} %" if tolerance else ""
    text = f"{differing} of {len(found.figures)} figures differ{beyond}."
    if hidden:
        text += f" {hidden} equal ones are not shown (--all shows them)."
    console.print(text, soft_wrap=True)
    for name, only, other in (("A", a, b), ("B", b, a)):
        for warning in only.warnings:
            if warning not in other.warnings:
                console.print(f"Only {name}: {warning}", soft_wrap=True, markup=False)


def _table(*columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    return table


def _settings(found: Difference) -> Table:
    from rich.text import Text

    table = _table("Setting", "A", "B")
    for name, old, new in found.settings or ():
        table.add_row(name, Text(_shown(old)), Text(_shown(new)))
    return table


def _shown(value: Any) -> str:
    """A setting as text; None = it was not given."""
    if value is None or value == "":
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def _figures(changes: list[Change], tolerance: float) -> Table:
    table = _table("Figure", "A", "B", "B - A", "%")
    for change in changes:
        style = "" if change.exceeds(tolerance) else "dim"
        difference, percent = change.difference, change.percent
        table.add_row(
            change.name,
            _number(change.a),
            _number(change.b),
            "" if not difference else _number(difference, sign="+"),
            "" if not difference or percent is None else f"{percent:+.1f}",
            style=style,
        )
    return table


def _number(value: float | None, sign: str = "") -> str:
    """A whole number in full, others with about four significant digits."""
    if value is None:
        return "-"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):{sign},}"
    size = abs(value)
    return f"{value:{sign}.4f}" if size < 10 else f"{value:{sign},.{2 if size < 1000 else 0}f}"


def _print_requests(console: Console, found: Difference) -> None:
    """Whether both simulated the same requests, and how these fared."""
    paired = found.paired
    if paired is None:
        return
    if paired.same == paired.of_a == paired.of_b:
        console.print(f"Both have the same {paired.same:,} requests.", soft_wrap=True)
    else:
        console.print(
            f"The requests differ: {paired.same:,} are the same, of {paired.of_a:,} in A and"
            f" {paired.of_b:,} in B.",
            soft_wrap=True,
        )
    for times in paired.times:
        console.print(
            f"  {times.name.upper()}: {times.faster:,} of {times.pairs:,} are faster in B,"
            f" {times.slower:,} slower; median change {times.median_change_ms:+,.2f} ms",
            soft_wrap=True,
        )
    console.print()


command = PflagCommand(
    "diff",
    params=[
        click.Argument(["results"], nargs=-1, metavar="A B"),
        click.Option(
            ["--output"],
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Form of the comparison.",
        ),
        click.Option(
            ["--tolerance"],
            type=float,
            default=0.0,
            metavar="PERCENT",
            help="Figures that differ by less count as equal.",
        ),
        click.Option(["--exit-code"], is_flag=True, help="End with 1 if a figure differs."),
        click.Option(["--all", "show_all"], is_flag=True, help="Show equal figures, too."),
    ],
    callback=execute,
    help="Compare two results of run or replay: settings, figures, and the same requests one by"
    " one. Each is a file made with --output json (best), with --metrics-path, or by saving what"
    " was printed.",
)
