"""An explanation as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blis_core.api import Phase
from blis_report.explanation import IN_WORDS
from blis_report.quantities import counted, duration, percent

if TYPE_CHECKING:
    from blis_report.explanation import Explanation

_BAR = 20
"""Characters of a full bar."""
_MOST_SPANS = 24


def as_text(explanation: Explanation) -> str:
    """What became of a request, in some twenty lines."""
    lines = [*_head(explanation), "", *_table(explanation), *_notes(explanation)]
    lines += ["", "  Time line", *_spans(explanation)]
    return "\n".join(lines) + "\n"


def _head(e: Explanation) -> list[str]:
    where = e.instance or "no instance"
    if e.prefill_instance and e.prefill_instance != e.instance:
        where = f"{e.prefill_instance}, then {where}"
    about = [text for text in (e.slo_class, e.tenant, e.session) if text]
    tokens = f"{e.prompt_tokens:,} prompt tokens"
    if e.cached_tokens:
        tokens += f" ({e.cached_tokens:,} from the cache)"
    tokens += f", {e.output_tokens:,} output tokens"
    lines = [
        f"{e.id}: {e.outcome}" + (f" ({', '.join(about)})" if about else ""),
        f"  {tokens}, on {where}, arrived at {_clock(e.arrival)}",
    ]
    if e.has_latency:
        figures = [f"E2E {duration(e.total)}"]
        if e.ttft is not None:
            figures.append(f"TTFT {duration(e.ttft)}")
        if e.mean_itl is not None:
            figures.append(f"ITL {duration(e.mean_itl)} on average")
        if e.rank is not None and e.completed > 1:
            figures.append(
                f"{counted(e.rank, 'request')} of {e.completed:,} took longer"
                if e.rank
                else f"the slowest of {e.completed:,}"
            )
        lines.append("  " + ", ".join(figures))
    else:
        lines.append(f"  ended after {duration(e.total)} without an end-to-end latency")
    if e.slowdown is not None and e.alone is not None:
        lines.append(
            f"  {e.slowdown:.2f} times as long as alone on an idle instance ({duration(e.alone)})"
        )
    return lines


def _table(e: Explanation) -> list[str]:
    known = any(part.alone_us is not None for part in e.parts)
    heads = ["part", "ms", "share", ""]
    if known:
        heads += ["alone", "of the slowdown"]
    if e.completed > 1:
        heads.append("median request")
    rows = []
    for part in e.parts:
        alone = part.alone_us or 0
        median = part.median_us or 0.0
        if not (part.us or alone or median):
            continue
        row = [part.name, _ms(part.us), percent(part.share), _bar(part.share)]
        if known:
            share = part.slowdown_share
            row += [_ms(alone), percent(share) if share else ""]
        if e.completed > 1:
            row.append(_ms(median))
        rows.append(row)
    total = ["in all", _ms(e.total), "", ""]
    if known:
        total += [_ms(e.alone or 0), ""]
    if e.completed > 1:
        total.append("")
    widths = [max(len(row[k]) for row in [heads, *rows, total]) for k in range(len(heads))]
    widths[3] = _BAR

    def line(row: list[str]) -> str:
        cells = [
            text.ljust(width) if k in (0, 3) else text.rjust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return ("  " + "  ".join(cells)).rstrip()

    rule = "  " + "─" * (sum(widths) + 2 * (len(widths) - 1))
    return [line(heads), rule, *(line(row) for row in rows), rule, line(total)]


def _notes(e: Explanation) -> list[str]:
    notes = []
    if e.lost:
        names = ", ".join(
            f"{part.name} {duration(part.lost_us)}" for part in e.parts if part.lost_us
        )
        notes.append(
            f"On the clock it took {duration(e.lost)} more, which the engine rules in use count in"
            f" no latency ({names})."
        )
    if e.preemptions:
        notes.append(
            "It was preempted " + (f"{e.preemptions:,} times." if e.preemptions > 1 else "once.")
        )
    if e.prefill_instance and e.prefill_instance != e.instance:
        notes.append(
            "As the engine counts in pools, the transfer begins with the last step of the prefill,"
            " and the end comes with the last step of the decode."
        )
    return ["", *(f"  {note}" for note in notes)] if notes else []


def _spans(e: Explanation) -> list[str]:
    shown = e.spans
    left_out = 0
    if len(shown) > _MOST_SPANS:
        left_out = len(shown) - _MOST_SPANS
        shown = [*shown[: _MOST_SPANS // 2], *shown[-_MOST_SPANS // 2 :]]
    lines = [
        f"  {_clock(begin):>14}  {duration(end - begin):>9}  {IN_WORDS[Phase[phase.upper()]]}"
        + (f", {instance}" if instance else "")
        for begin, end, phase, instance in shown
    ]
    if left_out:
        lines.insert(_MOST_SPANS // 2, f"  ... {counted(left_out, 'phase')} more ...")
    lines.append(f"  {_clock(e.end):>14}  {'':>9}  {_ENDS.get(e.outcome, e.outcome)}")
    return lines


_ENDS = {
    "completed": "done",
    "unfinished": "the simulation ends",
    "no room": "no decode instance has room for its KV cache",
}


def _bar(share: float) -> str:
    full = round(max(0.0, min(1.0, share)) * _BAR)
    return "█" * (full or (1 if share > 0.01 else 0))


def _ms(us: float) -> str:
    return f"{us / 1e3:,.3f}"


def _clock(us: int) -> str:
    return f"{us / 1e6:,.6f} s"
