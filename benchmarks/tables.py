"""What the page on performance shows of the figures that are stored here."""

from __future__ import annotations

from typing import Any, NamedTuple

from scaling import cost_us, curves


class Table(NamedTuple):
    """A table, and a line below it."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    about: str = ""


HEADS = {
    "requests": "requests",
    "instances": "instances",
    "output": "output tokens",
    "prompt": "prompt tokens",
}
"""Of the first column, by study."""


def suite(figures: dict[str, Any]) -> Table:
    """The cases of the speed suite."""
    rows = [
        (
            f"`{name}`",
            f"{case['wall_s']:.2f}",
            f"{case['cpu_s']:.2f}",
            str(case["peak_mib"]),
            f"{case['completed_requests']:,}",
            f"{case['total_output_tokens']:,}",
            f"{case['total_output_tokens'] / case['cpu_s'] / 1e6:.2f}",
        )
        for name, case in figures["cases"].items()
    ]
    heads = "case,wall s,CPU s,peak MiB,requests,output tokens,million tokens per CPU s"
    about = f"{figures['about']} Yardstick: {figures['yardstick_s']:.3f} s."
    return Table(tuple(heads.split(",")), rows, about)


def scaling(figures: dict[str, Any], study: str) -> Table:
    """One study: a row for each x, three columns for each curve."""
    found = curves(figures, study)
    headings = [HEADS[study]]
    for curve in found:
        before = f"{curve}: " if len(found) > 1 else ""
        headings += [f"{before}CPU s", f"{before}us per request", f"{before}peak MiB"]
    rows = []
    for x in sorted({point["x"] for points in found.values() for point in points}):
        row = [f"{x:,}"]
        for points in found.values():
            here = next((point for point in points if point["x"] == x), None)
            row += (
                [
                    f"{here['cpu_s']:.2f}",
                    f"{cost_us(here, figures['start']):.0f}",
                    f"{here['peak_mib']:,}",
                ]
                if here
                else [""] * 3
            )
        rows.append(tuple(row))
    return Table(tuple(headings), rows)


def conditions(figures: dict[str, Any]) -> str:
    """How the points were measured."""
    sticks = [point["yardstick_s"] for point in (figures["start"], *figures["points"])]
    return (
        f"{figures['about']} A run of one request: {figures['start']['cpu_s']:.2f} CPU s. "
        f"Yardstick: {min(sticks):.3f} to {max(sticks):.3f} s."
    )
