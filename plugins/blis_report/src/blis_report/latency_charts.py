"""Charts of latencies: distributions, where the time goes, targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from blis_core.api import PARTS
from blis_report.drawing import DASHES, LIGHT, SERIES, Chart, legend
from blis_report.quantities import percent, short_duration
from blis_report.targets import UNNAMED, Target, attainments, classes, latency, rows_of

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blis_core.api import Recording
    from blis_report.runs import Run

    Floats = npt.NDArray[np.float64]

NAMES = {
    "ttft": "Time to first token",
    "itl": "Time between tokens",
    "e2e": "End-to-end latency",
}
PART_COLOURS = {
    "routing": LIGHT["c8"],
    "gateway": LIGHT["c3"],
    "intake": LIGHT["c6"],
    "queue": LIGHT["c4"],
    "prefill": LIGHT["c2"],
    "decode": LIGHT["c0"],
    "stalled": LIGHT["ink"],
    "preemption": LIGHT["c1"],
    "transfer": LIGHT["c5"],
    "output": LIGHT["c7"],
}
_POINTS = 400  # of a curve; more cannot be seen
_MOST_CLASSES = 6
_FAR = 4.0  # times the latencies; targets beyond that would only squeeze the curves

Series = tuple[str, "Floats", "Floats"]
"""Name, ascending values in us, and the share of the values up to each."""


def _share(values: Floats, counts: npt.NDArray[np.int64] | None = None) -> tuple[Floats, Floats]:
    """Values and cumulative shares, thinned out."""
    values = values[np.isfinite(values)] if counts is None else values
    order = np.sort(values) if counts is None else values
    weights = np.ones(len(order)) if counts is None else counts.astype(float)
    if not len(order):
        return order, order
    shares = np.cumsum(weights) / weights.sum()
    if len(order) > _POINTS:
        # evenly in rank, and more of them where the slow ones are
        wanted = np.concatenate((np.linspace(0, 0.98, _POINTS), 1 - np.geomspace(0.02, 1e-6, 60)))
        places = np.unique(np.searchsorted(shares, np.append(wanted, 1.0)).clip(0, len(order) - 1))
        order, shares = order[places], shares[places]
    return order, shares


def _distribution(
    recording: Recording, metric: str, rows: npt.NDArray[np.bool_] | None = None
) -> Series:
    if metric == "itl" and rows is None:
        values, counts = recording.itl
        return ("", *_share(values.astype(float), counts))
    every = latency(recording, metric)
    return ("", *_share(every if rows is None else every[rows]))


def distributions(runs: Sequence[Run], targets: Sequence[Target]) -> list[Chart]:
    """One chart for each latency, with a curve for each run; for each class of a single run."""
    charts = []
    for metric, name in NAMES.items():
        series: list[Series] = []
        if len(runs) > 1:
            series = [(run.name, *_distribution(run.recording, metric)[1:]) for run in runs]
        else:
            recording = runs[0].recording
            found = classes(recording)
            by_class = 1 < len(found) <= _MOST_CLASSES and metric != "itl"
            series = [("all" if by_class else "", *_distribution(recording, metric)[1:])]
            if by_class:
                series += [
                    (each, *_distribution(recording, metric, rows_of(recording, each))[1:])
                    for each in found
                ]
        limits = [t for t in targets if t.metric == metric]
        caption = "Share of the completed requests that were at least as fast."
        if metric == "itl":
            caption = "Share of the tokens that came at least as soon after the one before."
        charts.append(Chart(metric, name, caption, _cdf(series, limits), width=4.1, height=2.8))
    return charts


def _cdf(series: Sequence[Series], limits: Sequence[Target]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawn = [each for each in series if len(each[1])]
        if not drawn:
            nothing(axes, "no request completed")
            return
        for k, (name, values, shares) in enumerate(drawn):
            shown = np.maximum(values, 1.0) / 1e3
            axes.plot(
                np.concatenate(([shown[0]], shown)),
                np.concatenate(([0.0], shares)) * 100,
                color=SERIES[k % len(SERIES)],
                linestyle=DASHES[k % len(DASHES)],
                label=name or None,
                drawstyle="steps-post" if len(values) < 60 else "default",
            )
        low = min(float(values[0]) for _, values, _ in drawn)
        high = max(float(values[-1]) for _, values, _ in drawn)
        near = [limit for limit in limits if low / _FAR <= limit.limit_us <= high * _FAR]
        low = min([low, *(limit.limit_us for limit in near)])
        high = max([high, *(limit.limit_us for limit in near)])
        times_axis(axes, max(low, 1.0), max(high, 1.0))
        for limit in near:
            axes.axvline(limit.limit_us / 1e3, color=LIGHT["soft"], linewidth=1, linestyle=":")
            axes.text(
                limit.limit_us / 1e3,
                99,
                f" {limit.slo_class} ≤ {short_duration(limit.limit_us)}".replace("  ", " "),
                color=LIGHT["soft"],
                rotation=90,
                ha="right",
                va="top",
                fontsize=7.5,
                in_layout=False,
            )
        axes.set_ylim(0, 101)
        axes.set_ylabel("share (%)")
        legend(axes)

    return draw


def times_axis(axes: Axes, low_us: float, high_us: float) -> None:
    """An axis of latencies in ms, logarithmic if they span much, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if high_us / low_us > 8:
        axes.set_xscale("log")
        decades = np.log10(high_us / low_us)
        subs = (1.0, 2.0, 5.0) if decades < 1.4 else (1.0, 3.0) if decades < 2.6 else (1.0,)
        axes.xaxis.set_major_locator(LogLocator(subs=subs))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: short_duration(ms * 1e3)))
        axes.tick_params(axis="x", which="minor", bottom=False)
        axes.set_xlabel("time (logarithmic)")
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: short_duration(ms * 1e3)))
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("time")
        if high_us == low_us:
            axes.set_xlim(0, high_us / 1e3 * 2)


def nothing(axes: Axes, why: str) -> None:
    """Say that there is nothing to draw."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", color=LIGHT["soft"], fontsize=10)


# ------------------------------------------------------------------------- where the time goes

_GROUPS = (("all", 0.0, 1.0), ("fastest half", 0.0, 0.5), ("50-90 %", 0.5, 0.9),
           ("90-99 %", 0.9, 0.99), ("slowest 1 %", 0.99, 1.0))  # fmt: skip


def where_time_goes(run: Run, prefix: str) -> Chart:
    """Mean parts of the end-to-end latency: of all requests, by how slow they were, and alone."""
    recording = run.recording
    rows = recording.completed()
    rows = rows[recording.requests["e2e"][rows] >= 0]
    ordered = rows[np.argsort(recording.requests["e2e"][rows], kind="stable")]
    bars: list[tuple[str, dict[str, float]]] = []
    alone = recording.parts("alone")
    known = rows[alone["prefill"][rows] >= 0]
    if len(known):
        bars.append(("alone", {name: float(alone[name][known].mean()) for name in PARTS}))
    parts = recording.parts()
    for name, low, high in _GROUPS:
        group = ordered[round(low * len(ordered)) : round(high * len(ordered))]
        if len(group):
            bars.append((name, {part: float(parts[part][group].mean()) for part in PARTS}))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if not bars:
            nothing(axes, "no request completed")
            return
        names = [name for name, _ in bars]
        longest = max(sum(values.values()) for _, values in bars)
        lefts = np.zeros(len(bars))
        for part in PARTS:
            widths = np.array([values[part] for _, values in bars]) / 1e3
            if widths.max() * 1e3 < longest * 2e-3:
                continue
            axes.barh(names, widths, left=lefts, color=PART_COLOURS[part], label=part, height=0.66)
            lefts += widths
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        from matplotlib.ticker import FuncFormatter

        axes.xaxis.set_major_formatter(FuncFormatter(lambda ms, _: short_duration(ms * 1e3)))
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("mean time of a request")
        legend(axes, columns=6)

    return Chart(
        f"{prefix}parts",
        "Where the time of a request goes",
        "Mean parts of the end-to-end latency, for all requests and by how slow they were, beside"
        " the same requests alone on an idle instance.",
        draw,
    )


# ------------------------------------------------------------------------------------- targets


def slo_chart(runs: Sequence[Run], targets: Sequence[Target]) -> Chart:
    """Share of the requests that met their targets, by class, target and run."""
    found = {run.name: attainments(run.recording, targets) for run in runs}
    every = [each for of_run in found.values() for each in of_run]
    keys = list(dict.fromkeys((each.slo_class, each.metric, each.limit_us) for each in every))
    single_class = len({name for name, _, _ in keys}) == 1

    def label(name: str, metric: str, limit: float) -> str:
        what = "all targets" if metric == "all" else f"{metric.upper()} ≤ {short_duration(limit)}"
        return what if single_class and name == UNNAMED else f"{name}: {what}"

    count = len(keys) * len(runs)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if not keys:
            nothing(axes, "no requests")
            return
        height = 0.8 / len(runs)
        for k, run in enumerate(runs):
            values = {(a.slo_class, a.metric, a.limit_us): a for a in found[run.name]}
            for place, key in enumerate(keys):
                one = values.get(key)
                if one is None:
                    continue
                y = place + (k - (len(runs) - 1) / 2) * height
                axes.barh(
                    y,
                    one.share * 100,
                    height=height * 0.9,
                    color=SERIES[k % len(SERIES)],
                    label=run.name if len(runs) > 1 and key == next(iter(values)) else None,
                )
                inside = one.share > 0.82
                axes.text(
                    one.share * 100 + (-1 if inside else 1),
                    y,
                    percent(one.share) if one.counted else "nobody",
                    va="center",
                    ha="right" if inside else "left",
                    color=LIGHT["paper"] if inside else LIGHT["ink"],
                    fontsize=8,
                )
        axes.set_yticks(range(len(keys)), [label(*key) for key in keys])
        axes.set_ylim(len(keys) - 0.5, -0.5)
        axes.set_xlim(0, 100)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("requests that met the target (%)")
        legend(axes)

    return Chart(
        "slo",
        "Targets met",
        "Requests that were rejected, timed out or were dropped miss their targets.",
        draw,
        height=max(1.6, 0.9 + (0.32 if len(runs) == 1 else 0.2) * count),
    )
