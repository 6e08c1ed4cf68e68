"""Takes a run down: makes instances and cluster that take notes, and tables of the notes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blis_core.cluster.parents import DecodeHalf, PrefillHalf
from blis_core.contracts import COMPLETED
from blis_core.recording.baseline import Baseline
from blis_core.recording.cluster import RecordedCluster
from blis_core.recording.instance import RecordedInstance
from blis_core.recording.notes import Note, Notes
from blis_core.recording.phases import PARTS, Outcome, Phase
from blis_core.recording.spans import Span, divide, settle, settle_halves
from blis_core.recording.tables import (
    NAMED,
    PART_OF_PHASE,
    REQUEST_COLUMNS,
    SPAN_COLUMNS,
    STEP_COLUMNS,
    Recording,
)

if TYPE_CHECKING:
    from blis_core.cluster.parents import Parent
    from blis_core.cluster.transfer import TransferLink
    from blis_core.contracts import IntArray, Request
    from blis_core.deployment import Deployment
    from blis_core.engine.formation import Limits
    from blis_core.engine.metrics import InstanceMetrics


class Recorder:
    """Takes one run down."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.instances: list[RecordedInstance] = []
        """In order of construction, which is that of the cluster."""
        self._about: list[dict[str, Any]] = []
        self.cluster: RecordedCluster | None = None

    def instances_of(self, deployment: Deployment) -> Callable[..., RecordedInstance]:
        """What makes instances of one kind."""

        def make(name: str, **parts: Any) -> RecordedInstance:
            made = RecordedInstance(name, notes=self.notes, index=len(self.instances), **parts)
            self.instances.append(made)
            self._about.append(
                {
                    "name": name,
                    "model": deployment.model,
                    "gpu": deployment.gpu,
                    "tp": deployment.tp,
                    "total_blocks": deployment.total_blocks,
                    "block_size": deployment.block_size,
                    "max_running": deployment.limits.max_running,
                    "max_tokens": deployment.limits.max_tokens,
                }
            )
            return made

        return make

    def make_cluster(self, *args: Any, **parts: Any) -> RecordedCluster:
        """The cluster of the run."""
        self.cluster = RecordedCluster(*args, notes=self.notes, **parts)
        return self.cluster

    def tables(self, requests: Iterable[Request], about: Mapping[str, Any]) -> Recording:
        """The recording of a run whose books are closed.

        ``requests`` are the records of the results; ``about`` becomes that of the recording, with
        what is known here.
        """
        cluster = self.cluster
        assert cluster is not None
        finished = [instance.metrics for instance in self.instances]
        end = max((metrics.sim_ended for metrics in finished), default=0)
        wholes = {id(r.half.parent): r for r in requests if hasattr(r, "half")}
        pools = cluster.disaggregation
        halves = {id(p.request): p for p in pools.parents} if pools is not None else {}
        for index, entry in enumerate(self._about):
            roles = {"prefill": pools.prefill, "decode": pools.decode} if pools is not None else {}
            entry["role"] = next((name for name, pool in roles.items() if pool.has(index)), "")
        table = _RequestTable(self, end)
        for note in self.notes:
            request = note.request
            if isinstance(request, (PrefillHalf, DecodeHalf)):
                continue
            parent = halves.get(id(request))
            if parent is None:
                table.add_single(note)
            else:
                table.add_parent(note, parent, wholes.get(id(parent)))
        ids, columns, spans, names = table.finish()
        return Recording(
            about={**about, "end": end, "instances": self._about, "names": names},
            ids=ids,
            requests=columns,
            spans=spans,
            steps=self._steps(),
            itl=_latencies(finished),
        )

    def _steps(self) -> dict[str, IntArray]:
        tables = [instance.steps.columns for instance in self.instances]
        counts = [len(table["begin"]) for table in tables]
        columns = {"instance": np.repeat(np.arange(len(tables)), counts)}
        for name in STEP_COLUMNS:
            parts = [np.frombuffer(table[name], dtype=np.int64) for table in tables if table[name]]
            columns[name] = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        return columns


class _RequestTable:
    """Collects the rows of requests and of their spans."""

    def __init__(self, recorder: Recorder, end: int) -> None:
        self._recorder = recorder
        self._notes = recorder.notes
        self._end = end
        self._index = {i.name: i.index for i in recorder.instances}
        self._baselines: dict[tuple[int, Limits], Baseline] = {}
        self._ids: list[str] = []
        self._rows: list[dict[str, int]] = []
        self._names: dict[str, dict[str, int]] = {name: {"": 0} for name in NAMED}
        self._spans: list[list[Span]] = []
        cluster = recorder.cluster
        assert cluster is not None
        self._cluster = cluster

    # -------------------------------------------------------------------- in one piece

    def add_single(self, note: Note) -> None:
        """A request that ran in one piece, if it ran."""
        request = note.request
        end = note.end if note.end >= 0 else self._end
        whole = divide(note.marks, request.arrival, max(end, request.arrival))
        index = self._index.get(request.assigned, -1)
        if index >= 0:
            rules = self._recorder.instances[index].kind[2]
            whole = settle(whole, note.outcome, rules)
        alone: dict[str, int] = {}
        if index >= 0 and note.outcome is not Outcome.UNSERVABLE:
            baseline = self._baseline(index).alone(request, note.cached)
            alone = self._entrance() | {
                name: getattr(baseline, name) for name in ("intake", "prefill", "decode", "output")
            }
        self._add(
            request,
            note,
            whole,
            alone,
            instance=index,
            prefill_instance=-1,
            cached_tokens=note.cached,
            preemptions=note.preemptions,
        )

    # ------------------------------------------------------------------------ in halves

    def add_parent(self, note: Note, parent: Parent, record: Request | None) -> None:
        """A disaggregated request; ``record`` is that of the results, if it has one."""
        request, prefill = note.request, self._notes.known(parent.prefill)
        decode = self._notes.known(parent.decode) if parent.decode is not None else None
        marks = list(note.marks)
        if request.gateway_dispatch > 0:
            marks.append((request.gateway_dispatch, Phase.ROUTING, -1))
        if prefill is not None:
            marks += prefill.marks
        if parent.decode is not None or parent.transfer_start > 0:
            marks.append((parent.transfer_start, Phase.TRANSFER, -1))
        if decode is not None:
            marks += decode.marks
        note.outcome, note.end = self._fate(note, parent, prefill, decode, record)
        end = note.end if note.end >= 0 else self._end
        whole = divide(marks, request.arrival, max(end, request.arrival))
        last = decode or prefill
        alone: dict[str, int] = {}
        source = self._index.get(parent.prefill_instance, -1)
        target = self._index.get(parent.decode_instance, -1)
        if last is not None:
            index = self._index[last.request.assigned]
            rules = self._recorder.instances[index].kind[2]
            whole = settle_halves(whole, rules)
            if decode is None and record is not None:  # complete with its prefill
                whole = settle(divide(marks, request.arrival, end), note.outcome, rules)
            alone = self._alone_in_halves(parent, prefill, source, target)
        self._add(
            record if record is not None else request,
            note,
            whole,
            alone,
            instance=target if target >= 0 else source,
            prefill_instance=source,
            cached_tokens=prefill.cached if prefill is not None else 0,
            preemptions=sum(n.preemptions for n in (prefill, decode) if n is not None),
        )

    def _fate(
        self,
        note: Note,
        parent: Parent,
        prefill: Note | None,
        decode: Note | None,
        record: Request | None,
    ) -> tuple[Outcome, int]:
        """Outcome, and end on the clock (-1 = none)."""
        if note.end >= 0:  # lost by the cluster
            return note.outcome, note.end
        if decode is not None and parent.completion > 0:
            end = parent.completion
            if decode.request.state == COMPLETED:
                end -= self._overhead(parent.decode_instance)
                return Outcome.COMPLETED, end
            return Outcome.TIMED_OUT, end
        if record is not None and prefill is not None:  # there was nothing to decode
            return Outcome.COMPLETED, prefill.end
        if prefill is not None and prefill.outcome not in (Outcome.UNFINISHED, Outcome.COMPLETED):
            return prefill.outcome, prefill.end
        return Outcome.UNFINISHED, -1

    def _overhead(self, instance: str) -> int:
        return self._recorder.instances[self._index[instance]].completion_overhead

    def _alone_in_halves(
        self, parent: Parent, prefill: Note | None, source: int, target: int
    ) -> dict[str, int]:
        """Parts of the latency on idle pools. As the engine counts, transfer and completion are
        at the beginning of the last step of prefill and decode."""
        if source < 0 or prefill is None:
            return {}
        request, pools = parent.request, self._cluster.disaggregation
        assert pools is not None
        first = self._baseline(source).alone(parent.prefill, prefill.cached)
        if request.output_len == 0:
            names = ("intake", "prefill", "output")
            return self._entrance() | {name: getattr(first, name) for name in names}
        # who never reached a decode instance is compared with the first one
        index = target if target >= 0 else int(pools.decode.members[0])
        second = self._baseline(index).alone(request, request.prompt_len, at_least_one=True)
        return self._entrance() | {
            "intake": first.intake,
            "prefill": first.prefill - first.last_prefill,
            "transfer": _idle_transfer(pools.link, parent.blocks),
            "decode": second.decode - second.last_decode,
            "output": self._recorder.instances[index].completion_overhead,
        }

    # ----------------------------------------------------------------------------- rows

    def _entrance(self) -> dict[str, int]:
        return {"routing": self._cluster.entrance_latency}

    def _baseline(self, index: int) -> Baseline:
        instance = self._recorder.instances[index]
        latency, limits, _ = instance.kind
        kind = id(latency), limits
        baseline = self._baselines.get(kind)
        if baseline is None:
            baseline = self._baselines[kind] = Baseline(instance)
        return baseline

    def _add(
        self,
        request: Request,
        note: Note,
        whole: list[Span],
        alone: Mapping[str, int],
        **figures: int,
    ) -> None:
        whole = [span for span in whole if span.end > span.begin]
        part, lost = dict.fromkeys(PARTS, 0), dict.fromkeys(PARTS, 0)
        for span in whole:
            name = PARTS[PART_OF_PHASE[span.phase]]
            (part if span.counted else lost)[name] += span.end - span.begin
        if request.e2e >= 0:
            part["output"] = request.e2e - sum(part.values())
        row = {
            "arrival": request.arrival,
            "end": whole[-1].end if whole else request.arrival,
            "outcome": int(note.outcome),
            "prompt_tokens": request.prompt_len,
            "output_tokens": request.output_len,
            "ttft": request.ttft,
            "e2e": request.e2e,
            "itl_sum": request.itl_sum,
            "itl_count": request.itl_count,
            "round": request.round_index,
            **figures,
        }
        for name, known in self._names.items():
            row[name] = known.setdefault(getattr(request, name), len(known))
        for name in PARTS:
            row[f"part_{name}"] = part[name]
            row[f"lost_{name}"] = lost[name]
            row[f"alone_{name}"] = alone.get(name, 0) if alone else -1
        self._ids.append(request.id)
        self._rows.append(row)
        self._spans.append(whole)

    def finish(
        self,
    ) -> tuple[list[str], dict[str, IntArray], dict[str, IntArray], dict[str, list[str]]]:
        """Ids, columns of requests, columns of spans, names."""
        order = sorted(range(len(self._rows)), key=lambda place: self._rows[place]["arrival"])
        rows = [self._rows[place] for place in order]
        kinds = [f"{kind}_{name}" for kind in ("part", "lost", "alone") for name in PARTS]
        columns = {
            name: np.fromiter((row[name] for row in rows), np.int64, len(rows))
            for name in (*REQUEST_COLUMNS, *kinds)
        }
        flat = [
            (row, int(span.phase), span.instance, span.end - span.begin, int(span.counted))
            for row, place in enumerate(order)
            for span in self._spans[place]
        ]
        table = np.array(flat, dtype=np.int64).reshape(-1, len(SPAN_COLUMNS))
        spans = {name: table[:, k].copy() for k, name in enumerate(SPAN_COLUMNS)}
        names = {name: list(known) for name, known in self._names.items()}
        return [self._ids[place] for place in order], columns, spans, names


def _idle_transfer(link: TransferLink, blocks: int) -> int:
    """us that a transfer takes if there is no other."""
    idle = copy.copy(link)
    idle.active = 0
    return idle.start(blocks)


def _latencies(finished: Sequence[InstanceMetrics]) -> tuple[IntArray, IntArray]:
    """Inter-token latencies of all instances, ascending, with how often each occurred."""
    counts: dict[int, int] = {}
    for metrics in finished:
        if metrics.itl_values is None or not len(metrics.itl_values):
            continue
        weights = metrics.itl_weights
        if weights is None:
            weights = np.ones(len(metrics.itl_values), dtype=np.int64)
        values, places = np.unique(metrics.itl_values, return_inverse=True)
        totals = np.bincount(places, weights).astype(np.int64)
        for value, total in zip(values.tolist(), totals.tolist(), strict=True):
            if total:
                counts[value] = counts.get(value, 0) + total
    values = np.array(sorted(counts), dtype=np.int64)
    return values, np.array([counts[value] for value in values.tolist()], dtype=np.int64)
