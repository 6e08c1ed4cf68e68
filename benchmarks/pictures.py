"""Draws what scaling.py has measured: cost of a request and peak memory, one picture per study."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from scaling import cost_us, curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00")
"""Told apart by those who do not see red and green."""
MARKERS = ("o", "s")
GUIDE = "#777777"
STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "svg.fonttype": "none",
}


class Looks(NamedTuple):
    """How a study is shown."""

    title: str
    axis: str
    base: int
    """Of the x axis."""


LOOKS = {
    "requests": Looks("More requests, 25 a second for each instance", "requests", 10),
    "instances": Looks("More instances, 1,000 requests for each", "instances", 2),
    "output": Looks("Longer outputs, behind prompts of 128 tokens", "output tokens", 2),
    "prompt": Looks("Longer prompts, with outputs of 128 tokens", "prompt tokens", 2),
}


def draw_all(figures: dict[str, Any], then: dict[str, Any] | None, folder: Path) -> Iterator[Path]:
    """Draw each study that has points, as SVG and PNG; yields the files.

    ``then`` are older figures, drawn pale behind the new ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for study, looks in LOOKS.items():
        if not curves(figures, study):
            continue
        with rc_context(STYLE):
            figure = _draw(study, looks, figures, then)
            for ending in ("svg", "png"):
                path = folder / f"scaling-{study}.{ending}"
                figure.savefig(path, dpi=120)
                yield path


def _draw(study: str, looks: Looks, figures: dict[str, Any], then: dict[str, Any] | None) -> Figure:
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    figure.suptitle(looks.title, fontweight="bold")
    cost, memory = figure.subplots(1, 2)
    shown: list[float] = []
    floor = figures["start"]["peak_mib"]
    used: list[float] = [floor]
    ticks: set[int] = set()
    if then is not None:
        _curves(cost, memory, study, then, old=True)
    for points in curves(figures, study).values():
        costs = [cost_us(point, figures["start"]) for point in points]
        shown += costs
        used += [point["peak_mib"] for point in points]
        ticks |= {point["x"] for point in points}
        if len(points) > 1:
            cost.axhline(min(costs), color=GUIDE, linestyle="--", linewidth=0.8, zorder=0)
    _curves(cost, memory, study, figures, old=False)
    cost.plot([], [], color=GUIDE, linestyle="--", linewidth=0.8, label="constant cost")
    memory.axhline(floor, color=GUIDE, linestyle=":", linewidth=0.8, label="a single request")
    cost.set_ylabel("CPU time of a request (µs), without start-up")
    memory.set_ylabel("peak memory (MiB)")
    for axes, values in ((cost, shown), (memory, used)):
        _scale(axes, looks, sorted(ticks), values)
        axes.legend(frameon=False, fontsize=8)
    figure.supxlabel(figures["about"], fontsize=6.5, color=GUIDE)
    return figure


def _curves(cost: Axes, memory: Axes, study: str, figures: dict[str, Any], *, old: bool) -> None:
    for number, (curve, points) in enumerate(curves(figures, study).items()):
        look: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number % len(MARKERS)],
            "markersize": 4,
            "label": f"{curve}, before" if old else curve,
        }
        if old:
            look |= {"alpha": 0.35, "markerfacecolor": "none", "linewidth": 1}
        x = [point["x"] for point in points]
        cost.plot(x, [cost_us(point, figures["start"]) or math.nan for point in points], **look)
        memory.plot(x, [point["peak_mib"] for point in points], **look)


def _scale(axes: Axes, looks: Looks, ticks: list[int], values: list[float]) -> None:
    """Logarithmic axes with plain numbers, and at least a decade of height."""
    axes.set_xscale("log", base=looks.base)
    if looks.base == 2:
        axes.set_xticks(ticks)
    axes.set_yscale("log")
    axes.set_xlabel(looks.axis)
    low = min((value for value in values if value > 0), default=1.0)
    high = max(*values, low)
    if high < 5 * low:
        # a flat curve should look flat
        middle = math.sqrt(low * high)
        low, high = middle / 3.3, middle * 3.3
    axes.set_ylim(low / 1.4, high * 1.9)  # room for the legend
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.tick_params(axis="x", labelsize=8)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="major", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
