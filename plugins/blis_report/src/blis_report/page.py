"""The report as one HTML page that needs nothing but itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from blis_core.api import Outcome
from blis_report import __version__
from blis_report.comparison import compare, overall
from blis_report.curves import curves
from blis_report.drawing import DASHES, PALETTE, Chart, as_svg
from blis_report.findings import (
    Finding,
    alone_e2e,
    bottleneck,
    cautions,
    failures,
    keeps_up,
    key_figures,
    load,
)
from blis_report.latency_charts import distributions, slo_chart, where_time_goes
from blis_report.quantities import TIMES, duration, percent, short_duration, significant
from blis_report.targets import UNNAMED, Target, attainments, unused
from blis_report.time_charts import balance_chart, fleet_charts, instance_charts, prefix_chart

if TYPE_CHECKING:
    from blis_report.runs import Run

Section = tuple[str, str, list[Chart]]
"""Id, heading, charts."""

GOOD, FAIR = 0.99, 0.9
"""Share of requests from which targets count as met, and as nearly met."""
_SLOWEST = 10
_MOST_ROWS = 64
_FLAG = re.compile(r"--[a-z][a-z-]+")
_TAGS = {"good": "fine", "fair": "watch", "bad": "problem", "": "note"}


def all_charts(runs: Sequence[Run], targets: Sequence[Target]) -> list[Section]:
    """Every picture of a report, by section."""
    sections: list[Section] = []
    top: list[Chart] = [slo_chart(runs, targets)] if targets else []
    several = len(runs) > 1
    prefixes = _prefixes(runs)
    for run, prefix in zip(runs, prefixes, strict=True):
        top.append(_titled(where_time_goes(run, prefix), run, several=several))
    sections.append(("time", "Where the time goes", top))
    sections.append(("latencies", "Latencies", distributions(runs, targets)))
    for run, prefix in zip(runs, prefixes, strict=True):
        of_run = curves(run.recording)
        fleet = fleet_charts(run.recording, of_run, prefix)
        fleet += instance_charts(of_run, prefix)
        heading = f"Time lines of {run.name}" if several else "Time lines"
        sections.append((f"{prefix}lines", heading, fleet))
        across = [balance_chart(run, prefix)] if len(run.recording.instances) > 1 else []
        across.append(prefix_chart(run, of_run, prefix))
        heading = f"Routing and caching of {run.name}" if several else "Routing and caching"
        sections.append((f"{prefix}routing", heading, across))
    return sections


def _titled(chart: Chart, run: Run, *, several: bool) -> Chart:
    import attrs

    return attrs.evolve(chart, title=f"{chart.title}: {run.name}") if several else chart


def _prefixes(runs: Sequence[Run]) -> list[str]:
    """How ids and file names of each run begin; a single run needs no such thing."""
    if len(runs) == 1:
        return [""]
    plain = ["".join(c if c.isascii() and c.isalnum() else "_" for c in run.name) for run in runs]
    return [
        f"{name}-" if plain.count(name) == 1 else f"{name}-{place}-"
        for place, name in enumerate(plain, 1)
    ]


def render(
    runs: Sequence[Run], targets: Sequence[Target], sections: Sequence[Section], title: str
) -> str:
    """The page."""
    names = ", ".join(run.name for run in runs)
    heading = title or names
    links = [("summary", "Summary")]
    links += [(ident, text) for ident, text, _ in sections] + [("details", "Details")]
    body = [
        f'<header><h1>{escape(heading)}</h1><span class="soft">{escape(_subtitle(runs))}</span>',
        '<button id="theme" hidden></button></header>',
        "<nav>" + "".join(f'<a href="#{i}">{escape(t)}</a>' for i, t in links) + "</nav>",
        '<h2 id="summary">Summary</h2>',
        _summary(runs, targets),
    ]
    for ident, text, charts in sections:
        three = " three" if ident == "latencies" else ""
        body.append(f'<h2 id="{ident}">{escape(text)}</h2><div class="charts{three}">')
        body += [_figure(chart) for chart in charts]
        body.append("</div>")
    body.append('<h2 id="details">Details</h2>')
    body += [_details(run, several=len(runs) > 1) for run in runs]
    body.append(f'<p class="foot">Written by blis-report {__version__}.</p>')
    return _document(heading, "\n".join(body))


def _document(title: str, body: str) -> str:
    assets = files("blis_report")
    css, script = (assets.joinpath(f"page.{kind}").read_text() for kind in ("css", "js"))
    light = "".join(f"--{name}:{pair[0]};" for name, pair in PALETTE.items())
    dark = "".join(f"--{name}:{pair[1]};" for name, pair in PALETTE.items())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n<style>\n'
        f":root{{{light}}}\n"
        f"@media (prefers-color-scheme: dark) {{:root:not([data-theme]){{{dark}"
        f"color-scheme:dark}}}}\n"
        f':root[data-theme="dark"]{{{dark}}}\n{css}</style>\n</head>\n<body>\n{body}\n'
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _figure(chart: Chart) -> str:
    caption = f"<p>{escape(chart.caption)}</p>" if chart.caption else ""
    wide = ' class="wide"' if chart.wide else ""
    return (
        f'<figure id="{chart.id}"{wide}><figcaption><h3>{escape(chart.title)}</h3>{caption}'
        f'</figcaption><div class="drawing">{as_svg(chart)}</div></figure>'
    )


def _subtitle(runs: Sequence[Run]) -> str:
    kinds: dict[str, None] = {}
    for run in runs:
        found: dict[tuple[str, str, int], int] = {}
        for instance in run.recording.instances:
            key = str(instance["model"]), str(instance["gpu"]), int(instance["tp"])
            found[key] = found.get(key, 0) + 1
        for (model, gpu, tp), count in found.items():
            where = f"{gpu} {TIMES} {tp}" if tp > 1 else gpu
            kinds[f"{model} on {count} {TIMES} {where or 'an instance'}"] = None
    return "; ".join(kinds)


# ----------------------------------------------------------------------------------- summary


def _summary(runs: Sequence[Run], targets: Sequence[Target]) -> str:
    if len(runs) == 1:
        return _findings(runs[0], targets) + _numbers(runs[0])
    parts = [_table_of_differences(runs, targets)]
    for run in runs:
        parts.append(f"<details open><summary>{escape(run.name)}</summary>")
        parts.append(_findings(run, targets) + "</details>")
    return "\n".join(parts)


def _findings(run: Run, targets: Sequence[Target]) -> str:
    found = [_targets_met(run, targets), keeps_up(run.recording), bottleneck(run.recording)]
    failed = failures(run.recording)
    if failed:
        what = ", ".join(f"{number:,} {text}" for text, number in failed.items())
        share = sum(failed.values()) / len(run.recording.ids)
        level = "bad" if share > 0.01 else "fair"
        text = f"{percent(share)} of the requests did not complete: {what}."
        found.append(Finding(level, "Not completed", text))
    cards = "".join(
        f'<div class="card finding {each.level}"><h3>{escape(each.title)}'
        f'<span class="tag">{_TAGS[each.level]}</span></h3><p>{_marked(each.text)}</p></div>'
        for each in found
    )
    items = "".join(
        f"<li>{'' if name.isdigit() else f'<b>{escape(name)}</b>: '}{_marked(text)}</li>"
        for name, text in cautions(run.recording).items()
        if name != "saturated"
    )
    noted = f'<div class="card cautions"><h3>Cautions</h3><ul>{items}</ul></div>' if items else ""
    return f'<div class="cards">{cards}</div>{noted}'


def _marked(text: str) -> str:
    """Text with its options as code, which is not broken at a hyphen."""
    return _FLAG.sub(r'<code class="flag">\g<0></code>', escape(text))


def _targets_met(run: Run, targets: Sequence[Target]) -> Finding:
    if not targets:
        return Finding(
            "", "Targets", "None were given: add --slo, as in --slo ttft=500ms or --slo e2e=10s."
        )
    share = overall(run, targets)
    if share is None:
        return Finding("", "Targets", "No request was there to meet them.")
    level = "good" if share >= GOOD else "fair" if share >= FAIR else "bad"
    text = f"{percent(share)} of the requests met all their targets."
    found = [each for each in attainments(run.recording, targets) if each.metric != "all"]
    worst = min(found, key=lambda each: each.share)
    if worst.share < 1:
        of_class = "" if worst.slo_class == UNNAMED else f" of class {worst.slo_class}"
        text += (
            f" Missed most: {worst.metric.upper()} ≤ {short_duration(worst.limit_us)}{of_class}"
            f" ({percent(worst.share)} in time)."
        )
    nobody = unused(run.recording, targets)
    if nobody:
        text += f" No request is of class {', '.join(nobody)}."
    return Finding(level, "Targets", text)


def _numbers(run: Run) -> str:
    figures, full = key_figures(run.recording), load(run.recording)

    def shown(key: str, form: Any) -> str:
        value = figures[key]
        return "-" if value is None else form(value)

    items = [
        (f"{len(run.recording.ids):,}", f"requests in {duration(run.recording.end)}"),
        (shown("request_rate", significant), "completed per second"),
        (shown("token_rate", significant), "output tokens per second"),
        (shown("ttft_p50", duration), "TTFT, median"),
        (shown("ttft_p99", duration), "TTFT, 99th percentile"),
        (shown("itl_mean", duration), "ITL, mean"),
        (shown("e2e_p50", duration), "E2E, median"),
        (shown("e2e_p99", duration), "E2E, 99th percentile"),
        (percent(full.busy), "of the time busy"),
        (percent(full.batch), "of the batch filled, while busy"),
        (percent(full.kv_peak), "of the KV cache in use, peak"),
        (shown("prefix_hits", percent), "of prompt tokens from the cache"),
    ]
    cells = "".join(f"<div><b>{escape(a)}</b><span>{escape(b)}</span></div>" for a, b in items)
    return f'<div class="numbers">{cells}</div>'


def _table_of_differences(runs: Sequence[Run], targets: Sequence[Target]) -> str:
    styles = ("solid", "dashed", "dotted", "double")
    heads = "".join(
        f'<th><span class="run" style="border-top-color:var(--c{k % 8});'
        f'border-top-style:{styles[k % len(DASHES)]}"></span>{escape(run.name)}</th>'
        + ("<th></th>" if k else "")
        for k, run in enumerate(runs)
    )
    rows = []
    for label, cells in compare(runs, targets):
        shown = "".join(
            f"<td>{escape(cell.text)}</td>"
            + (
                f'<td class="change {cell.verdict}">{escape(cell.change)}{_mark(cell.verdict)}</td>'
                if k
                else ""
            )
            for k, cell in enumerate(cells)
        )
        rows.append(f"<tr><td>{escape(label)}</td>{shown}</tr>")
    return (
        f'<div class="table"><table><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="soft">Changes are against {escape(runs[0].name)}.</p>'
    )


def _mark(verdict: str) -> str:
    return {"better": " ✓ better", "worse": " ✗ worse"}.get(verdict, "")


# ----------------------------------------------------------------------------------- details


def _details(run: Run, *, several: bool) -> str:
    of = f" of {run.name}" if several else ""
    results = run.recording.results
    parts = [_fold(f"Slowest requests{of}", _slowest(run), is_open=not several)]
    parts.append(_fold(f"Instances{of}", _instances(run)))
    config = results.get("config") or {}
    given = [(key, str(value)) for key, value in config.items() if value not in (None, "", [], ())]
    parts.append(_fold(f"Options{of}", _table(("option", "value"), given, text=(0, 1))))
    derived = [(r["name"], r["value"], r["origin"]) for r in results.get("resolution", ())]
    if derived:
        parts.append(
            _fold(
                f"Settings that were derived{of}",
                _table(("setting", "value", "from"), derived, text=(0, 1, 2)),
            )
        )
    accuracy = results.get("accuracy") or {}
    doubts = [*accuracy.get("outside", ()), *accuracy.get("unstable", ())]
    if doubts:
        items = "".join(f"<li>{escape(str(text))}</li>" for text in doubts)
        parts.append(_fold(f"Doubts about the figures{of}", f"<ul>{items}</ul>", is_open=True))
    return "\n".join(parts)


def _fold(title: str, content: str, *, is_open: bool = False) -> str:
    state = " open" if is_open else ""
    return f"<details{state}><summary>{escape(title)}</summary>{content}</details>"


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], text: Sequence[int] = (0,)
) -> str:
    """``text``: columns that are words rather than numbers."""

    def cell(tag: str, k: int, value: object) -> str:
        kind = ' class="text"' if k in text else ""
        return f"<{tag}{kind}>{escape(str(value))}</{tag}>"

    head = "".join(cell("th", k, name) for k, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(cell("td", k, value) for k, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="table"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _slowest(run: Run) -> str:
    recording = run.recording
    columns = recording.requests
    rows = recording.completed()
    if not len(rows):
        return "<p>No request completed.</p>"
    slow = rows[np.argsort(-columns["e2e"][rows], kind="stable")][:_SLOWEST]
    alone = alone_e2e(recording)
    table = [
        (
            recording.ids[row],
            duration(int(columns["arrival"][row])),
            f"{columns['prompt_tokens'][row]:,}",
            f"{columns['output_tokens'][row]:,}",
            duration(int(columns["ttft"][row])),
            duration(int(columns["e2e"][row])),
            f"{columns['e2e'][row] / alone[row]:.2f} {TIMES}" if alone[row] > 0 else "-",
            _largest_part(recording.parts(), row),
        )
        for row in slow.tolist()
    ]
    heads = ("request", "arrived at", "prompt", "output", "TTFT", "E2E", "alone", "most of it")
    shown = _table(heads, table, text=(0, 7))
    return f"{shown}<p>Why: <code>blis explain {escape(run.path)} --worst e2e</code></p>"


def _largest_part(parts: Mapping[str, Any], row: int) -> str:
    total = sum(int(values[row]) for values in parts.values())
    name = max(parts, key=lambda part: int(parts[part][row]))
    return f"{name} ({percent(int(parts[name][row]) / total)})" if total else "-"


def _instances(run: Run) -> str:
    recording = run.recording
    columns = recording.requests
    steps = recording.steps
    rows = []
    for k, instance in enumerate(recording.instances[:_MOST_ROWS]):
        mine = steps["instance"] == k
        blocks = max(1, int(instance["total_blocks"]))
        used = steps["used_blocks"][mine]
        done = (columns["instance"] == k) & (columns["outcome"] == Outcome.COMPLETED)
        rows.append(
            (
                instance["name"],
                f"{instance['gpu']} {TIMES} {instance['tp']}" if instance["gpu"] else "-",
                instance["role"] or "-",
                f"{int(done.sum()):,}",
                f"{int(steps['prefill_tokens'][mine].sum()):,}",
                f"{int(steps['decode_tokens'][mine].sum()):,}",
                percent(min(1.0, float(steps["duration"][mine].sum()) / max(1, recording.end))),
                percent(float(used.max(initial=0)) / blocks),
                f"{int(steps['running'][mine].max(initial=0)):,} of {instance['max_running']:,}",
            )
        )
    heads = (
        "instance", "GPUs", "role", "completed", "prefill tokens", "decode tokens", "busy",
        "KV peak", "most running",
    )  # fmt: skip
    shown = _table(heads, rows, text=(0, 1, 2))
    rest = len(recording.instances) - _MOST_ROWS
    return shown + (f"<p>... and {rest:,} more.</p>" if rest > 0 else "")
