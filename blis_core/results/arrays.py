"""The records of a run for analysis: numpy columns, or a pandas frame, made on demand.

:func:`arrays_of` and :func:`times_of` are the places that know how records are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from blis_core.contracts import COMPLETED, Request

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from blis_core.contracts import FloatArray, IntArray

    BoolArray = npt.NDArray[np.bool_]
    TextArray = npt.NDArray[np.str_]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestArrays:
    """One numpy array per property of the requests, all of the same length.

    Row i is the i-th request of ``results.requests``. Names, units and meanings are those of the
    requests in ``--output json``; times that were not recorded are NaN, absent names "".
    """

    id: TextArray
    state: TextArray
    """At the end of the run: completed, timed_out, queued or running."""
    arrival_us: IntArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    """As declared by the workload, also for a request that was cut or did not complete."""
    ttft_us: FloatArray
    """Arrival to first token."""
    mean_itl_us: FloatArray
    """Mean time between two tokens; of completed requests."""
    e2e_us: FloatArray
    """Arrival to last token; of completed requests."""
    scheduling_delay_us: FloatArray
    """Arrival to the first step that the request is part of."""
    gateway_delay_us: FloatArray
    """Part of it that was spent in the queue of the gateway."""
    instance: TextArray
    """Where it was served."""
    slo_class: TextArray
    tenant: TextArray
    client: TextArray
    session: TextArray
    round: IntArray
    """Of a session, from 0."""
    model: TextArray
    """If the workload names one."""
    length_capped: BoolArray
    """Whether the output was cut at the maximum length."""

    def __len__(self) -> int:
        """Number of requests."""
        return len(self.id)

    def __repr__(self) -> str:
        return f"RequestArrays({len(self)} requests)"

    @property
    def completed(self) -> BoolArray:
        """True for every request that completed; to choose rows by."""
        chosen: BoolArray = self.state == COMPLETED
        return chosen

    def where(self, rows: Any) -> RequestArrays:
        """The chosen rows only; ``rows`` is whatever indexes a numpy array."""
        return RequestArrays(**{name: column[rows] for name, column in self.columns().items()})

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, in order."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(RequestArrays)}


class RequestTimes(NamedTuple):
    """The few columns that pictures are made from; they take a fraction of the time of all."""

    arrival_us: IntArray
    ttft_us: IntArray
    """-1 = no first token."""
    e2e_us: IntArray
    """-1 = not completed."""


def times_of(requests: Sequence[Request]) -> RequestTimes:
    """The times of some records."""
    import numpy as np

    n = len(requests)
    return RequestTimes(
        np.fromiter((r.arrival for r in requests), np.int64, n),
        np.fromiter((r.ttft for r in requests), np.int64, n),
        np.fromiter((r.e2e for r in requests), np.int64, n),
    )


def arrays_of(requests: Sequence[Request]) -> RequestArrays:
    """The columns of some records."""
    import numpy as np

    n = len(requests)

    def whole(values: Iterable[int]) -> IntArray:
        return np.fromiter(values, np.int64, n)

    def times(values: Iterable[float]) -> FloatArray:
        column = np.fromiter(values, np.float64, n)
        column[column < 0] = np.nan
        return column

    def text(values: Iterable[str]) -> TextArray:
        return np.array(list(values), dtype=np.str_)

    return RequestArrays(
        id=text(r.id for r in requests),
        state=text(r.state for r in requests),
        arrival_us=whole(r.arrival for r in requests),
        prompt_tokens=whole(r.prompt_len for r in requests),
        output_tokens=whole(r.output_len for r in requests),
        ttft_us=times(r.ttft for r in requests),
        mean_itl_us=times(r.mean_itl_us() if r.e2e >= 0 else -1.0 for r in requests),
        e2e_us=times(r.e2e for r in requests),
        scheduling_delay_us=times(r.scheduling_delay for r in requests),
        gateway_delay_us=times(
            r.gateway_dispatch - r.gateway_enqueue
            if r.gateway_enqueue > 0 and r.gateway_dispatch > 0
            else -1
            for r in requests
        ),
        instance=text(r.assigned for r in requests),
        slo_class=text(r.slo_class for r in requests),
        tenant=text(r.tenant for r in requests),
        client=text(r.client for r in requests),
        session=text(r.session for r in requests),
        round=whole(r.round_index for r in requests),
        model=text(r.model for r in requests),
        length_capped=np.fromiter((r.length_capped for r in requests), np.bool_, n),
    )
