"""Charts over time, and across instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from blis_report.curves import RUNNING, Curves, InstanceCurves, edges, rate
from blis_report.drawing import DASHES, LIGHT, SERIES, Chart, legend
from blis_report.findings import prefix_hits, routed
from blis_report.latency_charts import nothing
from blis_report.quantities import percent, significant

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blis_core.api import Recording
    from blis_report.runs import Run

    Floats = npt.NDArray[np.float64]

LINES = 4
"""Most instances that are drawn as lines; more are drawn as a map."""


def time_axis(axes: Axes, curves: Curves) -> None:
    """The simulated time in seconds, all of it."""
    axes.set_xlim(0, curves.borders[-1] / 1e6)
    axes.set_xlabel("simulated time (s)")


def from_zero(axes: Axes) -> None:
    """Values from 0 on, with plain numbers."""
    from matplotlib.ticker import FuncFormatter

    axes.set_ylim(0, max(axes.get_ylim()[1], 1e-9))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


_RANKS = (("median", 50), ("90th percentile", 90), ("slowest", 100))


def fleet_charts(recording: Recording, curves: Curves, prefix: str) -> list[Chart]:
    """The whole cluster over time."""

    def inside(figure: Figure) -> None:
        axes = figure.subplots()
        layers = [
            ("running", curves.running, LIGHT["c0"]),
            ("waiting in queues", curves.waiting, LIGHT["c4"]),
            ("held at the gateway", curves.gateway, LIGHT["c3"]),
        ]
        shown = [layer for layer in layers if layer[1].any()] or layers[:1]
        axes.stackplot(
            curves.seconds,
            [values for _, values, _ in shown],
            labels=[name for name, _, _ in shown],
            colors=[colour for _, _, colour in shown],
            linewidth=0,
        )
        time_axis(axes, curves)
        axes.set_ylabel("requests")
        from_zero(axes)
        legend(axes)

    def flow(figure: Figure) -> None:
        axes = figure.subplots()
        bins = max(1, len(curves.seconds) // 50)
        for k, (name, values) in enumerate(
            (("arrivals", curves.arrivals), ("completed", curves.completions),
             ("failed", curves.failures))
        ):  # fmt: skip
            if k == 2 and not values.any():
                continue
            axes.plot(
                _coarse(curves.seconds, bins),
                _coarse(values, bins),
                color=(LIGHT["c7"], LIGHT["c2"], LIGHT["c1"])[k],
                linestyle=DASHES[(1, 0, 2)[k]],
                label=name,
            )
        time_axis(axes, curves)
        axes.set_ylabel("requests per second")
        from_zero(axes)
        legend(axes)

    def first_tokens(figure: Figure) -> None:
        axes = figure.subplots()
        rows = np.flatnonzero(recording.requests["ttft"] >= 0)
        if not len(rows):
            nothing(axes, "no request got a first token")
            return
        borders = edges(int(curves.borders[-1]), 60)
        bins = np.searchsorted(borders, recording.requests["arrival"][rows], side="right") - 1
        ttft = recording.requests["ttft"][rows] / 1e6
        places = np.unique(bins)
        middles = (borders[places] + borders[1] / 2) / 1e6
        for k, (name, share) in enumerate(_RANKS):
            values = [float(np.percentile(ttft[bins == place], share)) for place in places]
            axes.plot(
                middles,
                values,
                color=(LIGHT["c0"], LIGHT["c4"], LIGHT["c1"])[k],
                linestyle=DASHES[k],
                label=name,
                marker="o" if len(places) < 3 else None,
            )
        time_axis(axes, curves)
        axes.set_xlabel("arrival of the request, simulated time (s)")
        axes.set_ylabel("time to first token (s)")
        from_zero(axes)
        legend(axes)

    return [
        Chart(
            f"{prefix}inside",
            "Requests in the system",
            "Stacked. A wedge that keeps growing is a load that the instances cannot serve.",
            inside,
        ),
        Chart(f"{prefix}flow", "Arrivals and completions", "", flow),
        Chart(
            f"{prefix}waits",
            "Time to first token by arrival",
            "Flat: the load is steady. Rising: those who come later wait longer.",
            first_tokens,
        ),
    ]


def _coarse(values: Floats, width: int) -> Floats:
    """Means of ``width`` neighbours, the last group perhaps of fewer."""
    starts = np.arange(0, len(values), width)
    sums = np.add.reduceat(values, starts)
    means: Floats = sums / np.diff(np.append(starts, len(values)))
    return means


_SIGNALS: tuple[
    tuple[str, str, str, str, Callable[[InstanceCurves], Floats], float | None], ...
] = (
    ("queue", "Wait queue", "waiting requests", "", lambda c: c.waiting, None),
    ("running", "Running batch", "running requests", "", lambda c: c.running, None),
    (
        "kv",
        "KV cache in use",
        "KV blocks in use (%)",
        "Blocks that running requests hold; cached blocks that nobody holds are free.",
        lambda c: c.kv_use * 100,
        100.0,
    ),
    ("decode", "Output throughput", "output tokens per second", "", lambda c: c.decode_rate, None),
    (
        "prefill",
        "Prefill throughput",
        "prompt tokens per second",
        "Prompt tokens that were computed; those from the prefix cache are not among them.",
        lambda c: c.prefill_rate,
        None,
    ),
)


def instance_charts(curves: Curves, prefix: str) -> list[Chart]:
    """Queue, batch, KV use and throughput of each instance over time."""
    charts = []
    for name, title, label, caption, signal, most in _SIGNALS:
        values = [(c.name, signal(c)) for c in curves.instances]
        if len(values) <= LINES:
            draw = _lines(curves, values, label, most, name)
        else:
            draw = _map(curves, values, label, most)
            caption = f"{caption} One row per instance, below the mean with its spread.".strip()
        height = 2.9 if len(values) <= LINES else min(6.0, 3.0 + 0.02 * len(values))
        charts.append(Chart(f"{prefix}{name}", title, caption, draw, height=height))
    return charts


def _lines(
    curves: Curves, values: Sequence[tuple[str, Floats]], label: str, most: float | None, name: str
) -> Callable[[Figure], None]:
    peaks = {
        "queue": [c.waiting_peak for c in curves.instances],
        "kv": [c.kv_peak * 100 for c in curves.instances],
    }.get(name)

    width = max(1, len(curves.seconds) // 50) if name in ("decode", "prefill") else 1

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for k, (instance, series) in enumerate(values):
            colour = SERIES[k]
            axes.plot(
                _coarse(curves.seconds, width),
                _coarse(series, width),
                color=colour,
                linestyle=DASHES[k % len(DASHES)],
                linewidth=1.4,
                label=instance if len(values) > 1 else None,
            )
            if peaks is not None:
                axes.fill_between(
                    curves.seconds, series, peaks[k], color=colour, alpha=0.22, linewidth=0
                )
        time_axis(axes, curves)
        axes.set_ylabel(label)
        from_zero(axes)
        if most is not None:
            axes.set_ylim(0, most * 1.02)
        legend(axes)

    return draw


def _map(
    curves: Curves, values: Sequence[tuple[str, Floats]], label: str, most: float | None
) -> Callable[[Figure], None]:
    """Instances as rows of a map whose ink is the value, and below it the mean with its spread."""
    table = np.stack([series for _, series in values])
    top = most or float(table.max()) or 1.0

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        rows = min(3.0, 1.2 + 0.02 * len(values))
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(rows, 1.3))
        red, green, blue = (int(LIGHT["c0"][k : k + 2], 16) / 255 for k in (1, 3, 5))
        picture = np.empty((*table.shape, 4))
        picture[..., :3] = red, green, blue
        picture[..., 3] = np.clip(table / top, 0, 1)
        end = curves.borders[-1] / 1e6
        above.imshow(
            picture,
            aspect="auto",
            interpolation="nearest",
            extent=(0, end, len(values) - 0.5, -0.5),
        )
        above.grid(visible=False)
        above.set_ylabel("instance")
        above.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        unit = "%" if label.endswith("(%)") else label
        above.set_title(
            f"full colour: {significant(top)} {unit}",
            loc="left",
            fontsize=8,
            color=LIGHT["soft"],
        )
        below.fill_between(
            curves.seconds,
            table.min(axis=0),
            table.max(axis=0),
            color=LIGHT["c0"],
            alpha=0.25,
            linewidth=0,
            label="least to most",
        )
        below.plot(curves.seconds, table.mean(axis=0), color=LIGHT["c0"], label="mean")
        time_axis(below, curves)
        below.set_ylabel(label)
        from_zero(below)
        legend(below)

    return draw


# ---------------------------------------------------------------------------- across instances


def balance_chart(run: Run, prefix: str) -> Chart:
    """How requests and tokens were spread over the instances."""
    recording = run.recording
    requests, tokens = routed(recording)
    names = [str(instance["name"]) for instance in recording.instances]
    roles = [str(instance["role"]) for instance in recording.instances]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if not tokens.sum():
            nothing(axes, "no request reached an instance")
            return
        places = np.arange(len(names))
        wide = len(names) <= 16
        width = 0.4 if wide else 1.0
        shares = [
            ("requests", requests / max(1, requests.sum()) * 100, LIGHT["c0"]),
            ("tokens", tokens / tokens.sum() * 100, LIGHT["c4"]),
        ]
        for k, (what, share, colour) in enumerate(shares):
            if wide:
                axes.bar(places + (k - 0.5) * width, share, width, color=colour, label=what)
            else:
                axes.step(places, share, where="mid", color=colour, label=what, linewidth=1.2)
        even = 100 / len(names)
        axes.axhline(even, color=LIGHT["soft"], linestyle=":", linewidth=1, label="even share")
        if wide:
            short = [name.removeprefix("instance_") for name in names]
            marked = [
                f"{name}\n{role}" if role else name for name, role in zip(short, roles, strict=True)
            ]
            axes.set_xticks(places, marked)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("instance")
        axes.set_ylabel("share of all (%)")
        from_zero(axes)
        legend(axes)

    return Chart(
        f"{prefix}balance",
        "Routing balance",
        "What each instance got; tokens are those of prompts and answers.",
        draw,
    )


def prefix_chart(run: Run, curves: Curves, prefix: str) -> Chart:
    """Share of the prompt tokens that came from the prefix cache, over time."""
    recording = run.recording
    columns, spans = recording.requests, recording.spans
    running = np.isin(spans["phase"], RUNNING)
    rows, first = np.unique(spans["request"][running], return_index=True)
    when = recording.begins()[running][first]
    borders = edges(int(curves.borders[-1]), 40)
    cached = rate(when, columns["cached_tokens"][rows], borders)
    prompts = rate(when, columns["prompt_tokens"][rows], borders)
    share = np.divide(cached, prompts, out=np.full(len(prompts), np.nan), where=prompts > 0)
    total = prefix_hits(recording)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if total is None:
            nothing(axes, "no request was scheduled")
            return
        axes.plot(
            (borders[1:] + borders[:-1]) / 2e6,
            share * 100,
            color=LIGHT["c2"],
            marker="o",
            markersize=2.5,
            linewidth=1.2,
        )
        axes.axhline(total * 100, color=LIGHT["soft"], linestyle=":", linewidth=1)
        time_axis(axes, curves)
        axes.set_ylim(0, 101)
        axes.set_ylabel("prompt tokens from the cache (%)")

    text = "" if total is None else f" Dotted: {percent(total)}, the share over the whole run."
    return Chart(
        f"{prefix}prefix",
        "Prefix cache hits",
        "Share of the prompt tokens that need not be computed when requests are scheduled first."
        + text,
        draw,
    )
