"""A recording as a trace for Perfetto and Chrome (Trace Event Format, JSON object form).

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

Processes are instances, and one more for what is in front of them. In each, the stay of a request
is a complete event (``X``) that encloses those of its phases, on as few threads ("slots") as keep
stays apart; the steps have a thread of their own, and queue, batch and KV use are counters (``C``).
Times are us, as the format has them.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from typing import Any

import attrs
import numpy as np

from blis_core.api import Outcome, Phase, Recording
from blis_report.explanation import IN_WORDS

ENTRANCE = 1
"""Process id of what is in front of the instances; theirs follow."""
_STEPS = 1
"""Thread id of the steps; slots follow."""
MOST_EVENTS = 400_000
"""Events of a trace that tools still open with ease."""

Event = dict[str, Any]


@attrs.frozen
class Window:
    """Which part of a run is to be shown."""

    begin: int
    """us; what is under way at this time is shown, too."""
    end: int
    """us; the same."""
    rows: Collection[int] | None = None
    """Requests; None = all. With a choice there are steps of the instances where they were."""


def timeline(recording: Recording, window: Window) -> tuple[dict[str, Any], int]:
    """The trace, and how many events were left out because it would be too long."""
    spans = list(_spans(recording, window))
    steps = list(_steps(recording, window))
    names = list(_names(recording, spans, {event["pid"] for event in spans + steps}))
    room = max(0, MOST_EVENTS - len(names))
    # in order of time, so that what is left out is the end; what encloses others comes before them
    rest = sorted(spans + steps, key=lambda event: (event["ts"], -event.get("dur", 0)))
    document = {
        "displayTimeUnit": "ms",
        "otherData": {"source": "blis explain", "end_us": recording.end},
        "traceEvents": [*names, *rest[:room]],
    }
    return document, max(0, len(rest) - room)


def _names(recording: Recording, spans: list[Event], used: set[int]) -> Iterator[Event]:
    slots: dict[int, int] = {}
    for event in spans:
        slots[event["pid"]] = max(slots.get(event["pid"], 0), event["tid"])
    processes = {ENTRANCE: "entrance"}
    for index, instance in enumerate(recording.instances):
        role = f" ({instance['role']})" if instance["role"] else ""
        processes[ENTRANCE + 1 + index] = f"{instance['name']}{role}"
    for pid, name in processes.items():
        if pid not in used:
            continue
        yield _meta("process_name", pid, 0, {"name": name})
        yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
        if pid > ENTRANCE:
            yield _meta("thread_name", pid, _STEPS, {"name": "steps"})
        for tid in range(_STEPS + 1, slots.get(pid, 0) + 1):
            yield _meta("thread_name", pid, tid, {"name": f"slot {tid - _STEPS}"})
            yield _meta("thread_sort_index", pid, tid, {"sort_index": tid})


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> Event:
    return {"name": name, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": args}


def _spans(recording: Recording, window: Window) -> Iterator[Event]:
    """Stays of requests at instances, each with its phases."""
    columns = recording.requests
    wanted = (columns["arrival"] <= window.end) & (columns["end"] >= window.begin)
    if window.rows is not None:
        chosen = np.zeros(len(wanted), dtype=bool)
        chosen[list(window.rows)] = True
        wanted &= chosen
    stays: list[tuple[int, int, int, int, list[tuple[int, int, Phase]]]] = []
    for row in np.flatnonzero(wanted).tolist():
        place = -2
        group: list[tuple[int, int, Phase]] = []
        for begin, end, phase, instance in recording.spans_of(row):
            if instance != place:
                group = []
                stays.append((begin, row, instance, len(stays), group))
                place = instance
            group.append((begin, end, phase))
    # first come, first slot
    free: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    busy: list[tuple[int, int, int]] = []
    for begin, row, instance, _, group in sorted(stays):
        while busy and busy[0][0] <= begin:
            _, where, tid = heapq.heappop(busy)
            heapq.heappush(free[where], tid)
        if free.setdefault(instance, []):
            tid = heapq.heappop(free[instance])
        else:
            tid = used[instance] = used.get(instance, _STEPS) + 1
        heapq.heappush(busy, (group[-1][1], instance, tid))
        if begin > window.end or group[-1][1] < window.begin:
            continue
        stay: Event = {
            "name": recording.ids[row],
            "cat": "request",
            "ph": "X",
            "ts": begin,
            "dur": group[-1][1] - begin,
            "pid": ENTRANCE + 1 + instance,
            "tid": tid,
            "args": {
                "prompt_tokens": int(columns["prompt_tokens"][row]),
                "cached_tokens": int(columns["cached_tokens"][row]),
                "output_tokens": int(columns["output_tokens"][row]),
                "outcome": Outcome(int(columns["outcome"][row])).name.lower(),
            },
        }
        yield stay
        for start, end, phase in group:
            if start > window.end or end < window.begin:
                continue
            yield {
                "name": IN_WORDS[phase],
                "cat": phase.name.lower(),
                "ph": "X",
                "ts": start,
                "dur": end - start,
                "pid": stay["pid"],
                "tid": tid,
                "args": {"request": recording.ids[row]},
            }


def _steps(recording: Recording, window: Window) -> Iterator[Event]:
    """Steps, or runs of them, and what there was meanwhile."""
    steps = recording.steps
    shown = steps["begin"] + steps["duration"] >= window.begin
    shown &= steps["begin"] <= window.end
    if window.rows is not None:
        places = np.unique(
            recording.spans["instance"][np.isin(recording.spans["request"], list(window.rows))]
        )
        shown &= np.isin(steps["instance"], places)
    rows = np.flatnonzero(shown)
    columns = {name: values[rows].tolist() for name, values in steps.items()}
    for k, begin in enumerate(columns["begin"]):
        index = columns["instance"][k]
        pid = ENTRANCE + 1 + index
        end = begin + columns["duration"][k]
        last = k + 1 == len(rows) or columns["instance"][k + 1] != index
        if not last:  # the last step of a batch counts as done when it begins
            end = min(end, columns["begin"][k + 1])
        prefill, decode = columns["prefill_tokens"][k], columns["decode_tokens"][k]
        kind = "decode" if not prefill else "mixed" if decode else "prefill"
        yield {
            "name": kind,
            "cat": "step",
            "ph": "X",
            "ts": begin,
            "dur": end - begin,
            "pid": pid,
            "tid": _STEPS,
            "args": {"steps": columns["steps"][k], "prefill_tokens": prefill,
                     "decode_tokens": decode},
        }  # fmt: skip
        blocks = max(1, int(recording.instances[index]["total_blocks"]))
        use = 100 * columns["used_blocks"][k] / blocks
        counters = {
            "running": columns["running"][k],
            "waiting": columns["waiting"][k],
            "KV blocks in use (%)": round(use, 2),
        }
        yield from (_counter(name, pid, begin, value) for name, value in counters.items())
        if last or end < columns["begin"][k + 1]:
            yield from (_counter(name, pid, end, 0) for name in counters)


def _counter(name: str, pid: int, time: int, value: float) -> Event:
    return {"name": name, "ph": "C", "ts": time, "pid": pid, "tid": 0, "args": {name: value}}
