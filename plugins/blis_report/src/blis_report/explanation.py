"""Where the time of a request went, beside the same request alone and beside the run's median."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from blis_core.api import PARTS, BlisError, Outcome, Phase, Recording
from blis_report.targets import latency

if TYPE_CHECKING:
    import numpy.typing as npt

_NEAR = 3
"""Ids that are suggested for one that is not there."""


@attrs.frozen
class Part:
    """One part of a latency. Times in us."""

    name: str
    us: int
    alone_us: int | None
    """On an idle instance; None = not known."""
    median_us: float | None
    """Median over the completed requests; None = there are none."""
    share: float
    """Of the end-to-end latency, or of the time until the end if there is none."""
    slowdown_share: float | None
    """Of all that is longer than alone; None = nothing is, or it is not known."""
    lost_us: int
    """us on the clock that are part of no reported latency."""


@attrs.frozen
class Explanation:
    """What became of one request. Times in us."""

    id: str
    outcome: str
    arrival: int
    end: int
    """Of its last step, or when it ended in another way."""
    total: int
    """End-to-end latency; without one, the time from arrival to end."""
    has_latency: bool
    ttft: int | None
    mean_itl: float | None
    alone: int | None
    """End-to-end latency on an idle instance."""
    rank: int | None
    """How many completed requests took longer; None if it has no latency."""
    completed: int
    """Completed requests of the run."""
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    preemptions: int
    slo_class: str
    tenant: str
    session: str
    model: str
    instance: str
    prefill_instance: str
    parts: list[Part]
    spans: list[tuple[int, int, str, str]]
    """(begin, end, phase, instance or "")."""

    @property
    def lost(self) -> int:
        """us on the clock that are part of no reported latency."""
        return sum(part.lost_us for part in self.parts)

    @property
    def slowdown(self) -> float | None:
        """Latency over that alone."""
        return self.total / self.alone if self.has_latency and self.alone else None


class Explainer:
    """Explains the requests of one recording."""

    def __init__(self, recording: Recording, path: str) -> None:
        self.recording = recording
        self._path = path
        self._parts = recording.parts()
        self._alone = recording.parts("alone")
        self._lost = recording.parts("lost")

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in reversed(list(enumerate(self.recording.ids)))}

    @cached_property
    def _medians(self) -> dict[str, float] | None:
        rows = self.recording.completed()
        rows = rows[self.recording.requests["e2e"][rows] >= 0]
        if not len(rows):
            return None
        return {name: float(np.median(values[rows])) for name, values in self._parts.items()}

    @cached_property
    def _latencies(self) -> npt.NDArray[np.int64]:
        e2e = self.recording.requests["e2e"][self.recording.completed()]
        return np.sort(e2e[e2e >= 0])

    def find(self, name: str) -> int:
        """Row of a request. BlisError, with ids that look alike, if there is none."""
        row = self._rows.get(name)
        if row is not None:
            return row
        ids = self.recording.ids
        if not ids:
            raise BlisError(f"{name}: there is no request in {self._path} at all")
        near = difflib.get_close_matches(name, ids[:20_000], n=_NEAR, cutoff=0.6)
        near = near or [each for each in ids if each.endswith(f"_{name}")][:_NEAR]
        hint = f"did you mean {' or '.join(near)}?" if near else f"ids are like {ids[0]}"
        raise BlisError(f"{name}: there is no such request in {self._path}; {hint}")

    def worst(self, metric: str, count: int) -> list[int]:
        """Rows of the requests with the largest latency, largest first, equal ones by arrival."""
        values = latency(self.recording, metric)
        rows = np.flatnonzero(~np.isnan(values))
        if not len(rows):
            raise BlisError(f"{self._path}: no request completed, so none has the worst {metric}")
        order = np.argsort(-values[rows], kind="stable")[:count]
        return [int(row) for row in rows[order]]

    def explain(self, row: int) -> Explanation:
        """What became of the request in a row."""
        columns, names = self.recording.requests, self.recording.names
        figures = {name: int(values[row]) for name, values in columns.items()}
        has_latency = figures["e2e"] >= 0
        total = figures["e2e"] if has_latency else figures["end"] - figures["arrival"]
        known = figures["alone_prefill"] >= 0
        alone = sum(figures[f"alone_{name}"] for name in PARTS) if known else None
        instances = [str(instance["name"]) for instance in self.recording.instances]
        completed = figures["outcome"] == Outcome.COMPLETED
        return Explanation(
            id=self.recording.ids[row],
            outcome=Outcome(figures["outcome"]).name.lower().replace("_", " "),
            arrival=figures["arrival"],
            end=figures["end"],
            total=total,
            has_latency=has_latency,
            ttft=figures["ttft"] if figures["ttft"] >= 0 else None,
            mean_itl=figures["itl_sum"] / figures["itl_count"] if figures["itl_count"] else None,
            alone=alone,
            rank=(
                len(self._latencies)
                - int(np.searchsorted(self._latencies, figures["e2e"], side="right"))
                if has_latency and completed
                else None
            ),
            completed=len(self._latencies),
            prompt_tokens=figures["prompt_tokens"],
            output_tokens=figures["output_tokens"],
            cached_tokens=figures["cached_tokens"],
            preemptions=figures["preemptions"],
            slo_class=names("slo_class")[figures["slo_class"]],
            tenant=names("tenant")[figures["tenant"]],
            session=names("session")[figures["session"]],
            model=names("model")[figures["model"]],
            instance=_name(instances, figures["instance"]),
            prefill_instance=_name(instances, figures["prefill_instance"]),
            parts=self._explain_parts(figures, total, known=known and has_latency),
            spans=[
                (begin, end, phase.name.lower(), _name(instances, place))
                for begin, end, phase, place in self.recording.spans_of(row)
            ],
        )

    def _explain_parts(self, figures: dict[str, int], total: int, *, known: bool) -> list[Part]:
        more = {
            name: figures[f"part_{name}"] - figures[f"alone_{name}"] if known else 0
            for name in PARTS
        }
        longer = sum(value for value in more.values() if value > 0)
        return [
            Part(
                name,
                figures[f"part_{name}"],
                figures[f"alone_{name}"] if known else None,
                self._medians[name] if self._medians is not None else None,
                figures[f"part_{name}"] / total if total else 0.0,
                max(more[name], 0) / longer if longer else None,
                figures[f"lost_{name}"],
            )
            for name in PARTS
        ]


def _name(names: Sequence[str], place: int) -> str:
    return names[place] if place >= 0 else ""


def as_document(explanations: Iterable[Explanation]) -> list[dict[str, Any]]:
    """Explanations as plain data; all times are us."""
    return [
        {
            **attrs.asdict(each, filter=lambda field, _: field.name not in ("parts", "spans")),
            "lost": each.lost,
            "slowdown": each.slowdown,
            "parts": [attrs.asdict(part) for part in each.parts],
            "spans": [
                dict(zip(("begin", "end", "phase", "instance"), span, strict=True))
                for span in each.spans
            ],
        }
        for each in explanations
    ]


IN_WORDS = {
    Phase.ROUTING: "on its way",
    Phase.GATEWAY: "held at the gateway",
    Phase.INTAKE: "taken in",
    Phase.QUEUE: "waits in the queue",
    Phase.PREFILL: "prefill",
    Phase.DECODE: "decode",
    Phase.STALLED: "in the batch, without tokens",
    Phase.PREEMPTED: "preempted, waits again",
    Phase.RECOMPUTE: "prefill once more",
    Phase.DISCARDED: "work that a preemption threw away",
    Phase.TRANSFER: "KV cache is transferred",
}
"""Phases for readers."""
