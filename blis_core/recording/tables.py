"""A recording as tables: what ``blis run --record`` writes and reports read.

Times are integer us since the start of the simulation. Tables are columns of numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from blis_core.recording.phases import PART_OF, PARTS, Outcome, Phase

if TYPE_CHECKING:
    from blis_core.contracts import IntArray

REQUEST_COLUMNS = (
    "arrival",
    "end",
    "outcome",
    "instance",
    "prefill_instance",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "preemptions",
    "ttft",
    "e2e",
    "itl_sum",
    "itl_count",
    "slo_class",
    "tenant",
    "client",
    "session",
    "round",
    "model",
)
"""Integer columns of ``Recording.requests``, beside those of the parts."""

NAMED = ("slo_class", "tenant", "client", "session", "model")
"""Columns of ``Recording.requests`` that are places in lists of names."""

SPAN_COLUMNS = ("request", "phase", "instance", "duration", "counted")
"""Columns of ``Recording.spans``."""

STEP_COLUMNS = (
    "begin",
    "duration",
    "steps",
    "running",
    "waiting",
    "used_blocks",
    "prefill_tokens",
    "decode_tokens",
)
"""Columns of ``Recording.steps``, beside ``instance``."""


@attrs.frozen(kw_only=True, eq=False)
class Recording:
    """What happened in one run."""

    about: Mapping[str, Any]
    """``command`` (run or replay), ``version`` of blis-core, ``results`` (what ``--output json``
    prints, without requests), ``end`` of the simulation (us), ``names`` (lists for the columns that
    are places in them), and ``instances``, in order: name, model, gpu, tp, total_blocks,
    block_size, max_running, max_tokens, role (prefill, decode or "")."""
    ids: Sequence[str]
    """Ids of the requests that reached the entrance, in order of arrival."""
    requests: Mapping[str, IntArray]
    """Columns with one row per request, in the order of ``ids``; -1 = there is none.

    ``arrival`` and ``end`` (of the last step; of the simulation if it is unfinished), ``outcome``
    (an Outcome), ``instance`` (index of its last one), ``prefill_instance`` (if its prefill ran
    elsewhere), ``prompt_tokens``, ``output_tokens`` (wanted), ``cached_tokens`` (of the prompt,
    when it was scheduled first), ``preemptions``, ``ttft``, ``e2e``, ``itl_sum`` and ``itl_count``
    (as the results have them), ``round`` of its session, the columns of ``NAMED``, ``part_NAME``
    (us of its end-to-end latency, for each of ``PARTS``), ``lost_NAME`` (us that passed on the
    clock and are part of no latency that the engine reports; see blis_core.recording.spans) and
    ``alone_NAME`` (the same part on an idle instance)."""
    spans: Mapping[str, IntArray]
    """Columns: ``request`` (row, ascending), ``phase`` (a Phase), ``instance`` (index or -1),
    ``duration`` and ``counted`` (0 or 1). The spans of a request follow one another without gaps
    from its arrival to its end."""
    steps: Mapping[str, IntArray]
    """Columns with one row per step of an instance, or per run of decode steps of one batch:
    ``instance``, ``begin``, ``duration`` and number of ``steps``; requests in the batch
    (``running``), ``waiting`` ones and ``used_blocks`` at its end, before anybody leaves;
    ``prefill_tokens`` and ``decode_tokens`` that were processed."""
    itl: tuple[IntArray, IntArray]
    """Latencies between tokens of completed requests, ascending, and how often each occurred."""

    @property
    def results(self) -> Mapping[str, Any]:
        """What ``--output json`` prints, without requests."""
        results: Mapping[str, Any] = self.about["results"]
        return results

    @property
    def instances(self) -> Sequence[Mapping[str, Any]]:
        """The instances, in the order of their indices."""
        instances: Sequence[Mapping[str, Any]] = self.about["instances"]
        return instances

    @property
    def end(self) -> int:
        """End of the simulation."""
        return int(self.about["end"])

    def names(self, column: str) -> Sequence[str]:
        """The names that a column of ``NAMED`` points to."""
        names: Sequence[str] = self.about["names"][column]
        return names

    def begins(self) -> IntArray:
        """When each of ``spans`` begins."""
        duration, request = self.spans["duration"], self.spans["request"]
        before = np.cumsum(duration) - duration
        first = np.searchsorted(request, request)  # the first span of the same request
        begins: IntArray = self.requests["arrival"][request] + before - before[first]
        return begins

    def spans_of(self, row: int) -> list[tuple[int, int, Phase, int]]:
        """(begin, end, phase, index of the instance or -1) of one request, in order."""
        low, high = np.searchsorted(self.spans["request"], [row, row + 1])
        found: list[tuple[int, int, Phase, int]] = []
        time = int(self.requests["arrival"][row])
        for phase, instance, duration in zip(
            self.spans["phase"][low:high].tolist(),
            self.spans["instance"][low:high].tolist(),
            self.spans["duration"][low:high].tolist(),
            strict=True,
        ):
            found.append((time, time + duration, Phase(phase), instance))
            time += duration
        return found

    def parts(self, kind: str = "part") -> dict[str, IntArray]:
        """The columns ``part_NAME`` (or ``lost_NAME``, ``alone_NAME``) by name of the part."""
        return {name: self.requests[f"{kind}_{name}"] for name in PARTS}

    def completed(self) -> IntArray:
        """Rows of the requests that completed."""
        return np.flatnonzero(self.requests["outcome"] == Outcome.COMPLETED)


PART_OF_PHASE: IntArray = np.array([PARTS.index(PART_OF[phase]) for phase in Phase])
"""Place in ``PARTS`` by number of the phase."""
