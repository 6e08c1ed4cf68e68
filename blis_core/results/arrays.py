"""The records of a run for analysis: numpy columns, or a pandas frame, made on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from blis_core.contracts import COMPLETED
from blis_core.results.request_list import coded, column, ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from blis_core.contracts import FloatArray, IntArray, Request

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
    return RequestTimes(
        column(requests, "arrival"), column(requests, "ttft"), column(requests, "e2e")
    )


def arrays_of(requests: Sequence[Request]) -> RequestArrays:
    """The columns of some records."""
    import numpy as np

    def times(name: str) -> FloatArray:
        return _known(column(requests, name))

    def recurring(name: str) -> npt.NDArray[Any]:
        values, codes = coded(requests, name)
        return np.array(values)[codes] if values else np.array([], dtype=np.str_)

    done, capped = column(requests, "e2e") >= 0, recurring("length_capped").astype(np.bool_)
    lengths = column(requests, "output_len")
    # as in Request.mean_itl_us
    gaps = np.maximum(np.where(capped, column(requests, "itl_count"), lengths) - 1, 1)
    itl = np.where(lengths == 0, 0.0, column(requests, "itl_sum") / gaps)
    queued, sent = column(requests, "gateway_enqueue"), column(requests, "gateway_dispatch")
    return RequestArrays(
        id=np.array(ids(requests), dtype=np.str_),
        state=recurring("state"),
        arrival_us=column(requests, "arrival"),
        prompt_tokens=column(requests, "prompt_len"),
        output_tokens=lengths,
        ttft_us=times("ttft"),
        mean_itl_us=_known(np.where(done, itl, -1.0)),
        e2e_us=times("e2e"),
        scheduling_delay_us=times("scheduling_delay"),
        gateway_delay_us=_known(np.where((queued > 0) & (sent > 0), sent - queued, -1)),
        instance=recurring("assigned"),
        slo_class=recurring("slo_class"),
        tenant=recurring("tenant"),
        client=recurring("client"),
        session=recurring("session"),
        round=column(requests, "round_index"),
        model=recurring("model"),
        length_capped=capped,
    )


def _known(times: IntArray | FloatArray) -> FloatArray:
    """Times as floats; negative ones were not recorded."""
    import numpy as np

    known: FloatArray = np.where(times < 0, np.nan, times)
    return known
