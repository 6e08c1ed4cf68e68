"""Figures with matplotlib, as SVG whose colours follow the theme of the page, or as PNG.

A chart draws with the light colours of the palette. In the SVG each of them is replaced by a CSS
variable, so that the page decides; text stays text. The PNG is what is drawn.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Based on the palette of Okabe and Ito (2008), which colour-blind readers can tell apart; lighter
# on dark. No two colours may be the same, since they are told apart by their value.
PALETTE = {
    "ink": ("#1b1f25", "#e8ebf0"),
    "soft": ("#57606b", "#a3adba"),
    "grid": ("#dfe3e9", "#333b47"),
    "paper": ("#fefefe", "#171b21"),
    "c0": ("#0072b2", "#56b0ea"),
    "c1": ("#d55e00", "#ff9150"),
    "c2": ("#009e73", "#35cc9f"),
    "c3": ("#aa4499", "#e08fd2"),
    "c4": ("#e69f00", "#f5bf4f"),
    "c5": ("#4db3e6", "#9bd7f8"),
    "c6": ("#8a8a2e", "#d8d870"),
    "c7": ("#8b949e", "#c2c9d1"),
    "c8": ("#c3c9d0", "#6d7680"),
}
"""Colours by name of the CSS variable: on a light page, on a dark one."""

LIGHT = {name: light for name, (light, _) in PALETTE.items()}
SERIES = tuple(LIGHT[f"c{k}"] for k in range(8))
"""Colours of series, in order of use."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
"""Line styles, so that nobody depends on colours alone."""

WIDTH, HEIGHT = 5.6, 2.9
"""Usual size in inches of 72 points."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "blis",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.edgecolor": LIGHT["soft"],
    "axes.labelcolor": LIGHT["soft"],
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 8.5,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.7,
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "text.color": LIGHT["ink"],
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "path.simplify": True,
    "text.parse_math": False,  # a name may have a dollar sign
}


@attrs.frozen
class Chart:
    """A picture and the words that belong to it."""

    id: str
    """Unique in a report; also the name of the PNG file."""
    title: str
    caption: str
    """What is to be seen, in a sentence or two; "" = the title says it."""
    draw: Callable[[Figure], None]
    width: float = WIDTH
    height: float = HEIGHT
    wide: bool = False
    """Whether it takes the whole width of the page."""


@contextmanager
def _styled() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def _figure(chart: Chart) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(chart.width, chart.height), layout="constrained")
    chart.draw(figure)
    return figure


def as_svg(chart: Chart) -> str:
    """The chart as an ``svg`` element for a page that defines the colours."""
    buffer = io.StringIO()
    with _styled():
        _figure(chart).savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    # ids must be unique in the page
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{chart.id}-", text)
    for name, light in LIGHT.items():
        text = text.replace(light, f"var(--{name})")
    # the font is the page's
    text = re.sub(r"(font: [^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1inherit-family", text)
    text = text.replace("inherit-family", "system-ui, sans-serif")
    head, rest = text.split(">", 1)
    head = re.sub(r' (?:width|height|xmlns(?::xlink)?|version)="[^"]*"', "", head)
    label = chart.title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return f'{head} role="img" aria-label="{label}">{rest.strip()}'


def as_png(chart: Chart) -> bytes:
    """The chart as a picture on white, with its title."""
    buffer = io.BytesIO()
    with _styled():
        figure = _figure(chart)
        figure.suptitle(chart.title, x=0.01, ha="left", fontsize=10, fontweight="bold")
        figure.savefig(
            buffer, format="png", dpi=200, facecolor="white", metadata={"Software": None}
        )
    return buffer.getvalue()


def legend(axes: Axes, columns: int = 4, **settings: Any) -> None:
    """A legend above the axes, if there is anything to tell apart."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            borderaxespad=0.2,
            handlelength=1.6,
            columnspacing=1.2,
            **settings,
        )
