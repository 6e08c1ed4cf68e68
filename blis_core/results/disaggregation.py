"""Whole requests again: what disaggregated requests and their cluster report.

Instances know halves only. The cluster's figures are corrected for that, and the records of the
halves of a request become one record under its own id.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from blis_core import log
from blis_core.cluster.parents import DecodeHalf, Parent, PrefillHalf
from blis_core.contracts import Request
from blis_core.results.parts import PDMetrics
from blis_core.results.statistics import distribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from blis_core.cluster.disaggregation import Disaggregation
    from blis_core.cluster.pools import Pool
    from blis_core.engine.metrics import InstanceMetrics


_FACTS = (
    "max_output",
    "deadline",
    "client",
    "tenant",
    "slo_class",
    "session",
    "round_index",
    "prefix_group",
    "prefix_length",
    "streaming",
    "model",
)
"""What the workload says of a request and its record repeats."""


class WholeRequest(Request):
    """The record of a disaggregated request whose decode half has ended."""

    __slots__ = ("half",)

    half: PrefillHalf | DecodeHalf
    """Its last half: the prefill if there was nothing to decode."""

    def mean_itl_us(self) -> float:
        """That of the last half; 0 if it timed out."""
        return self.half.mean_itl_us()


def correct(total: InstanceMetrics, account: Disaggregation) -> None:
    """Turn the cluster's sums over halves into figures of whole requests.

    A request whose KV cache is on its way when the simulation ends counts as running. One whose
    prefill timed out or was dropped is in its instance's counters already.
    """
    in_transfer = account.prefilled - (
        account.decoded + account.timed_out + account.dropped + account.pending
    )
    total.completed -= account.prefilled
    # a request without output is complete with its prefill, so it is one of the decoded, too
    total.completed += account.without_output
    total.dropped_unservable += account.dropped
    total.still_running += max(in_transfer, 0)
    whole = [r for r in total.requests if not isinstance(r, (PrefillHalf, DecodeHalf))]
    whole.extend(record for parent in account.parents if (record := _record(parent)) is not None)
    total.requests = whole


def _record(parent: Parent) -> Request | None:
    """The request as it went; None unless its decode half ended, completed or timed out.

    The times of those that timed out count among the others: reference quirk 07-Q3.
    """
    if parent.completion <= 0 or not parent.decode_instance:
        return None
    request, prefill, decode = parent.request, parent.prefill, parent.decode
    facts = {name: getattr(request, name) for name in _FACTS}
    record = WholeRequest(
        request.id, request.arrival, None, request.prompt_len, request.output_len, **facts
    )
    record.half = half = prefill if decode is None else decode
    record.state = half.state
    record.itl_sum, record.itl_count = half.itl_sum, half.itl_count
    record.gateway_enqueue = request.gateway_enqueue
    record.gateway_dispatch = request.gateway_dispatch
    record.assigned = parent.decode_instance
    record.scheduling_delay = prefill.scheduling_delay
    record.ttft = _first_token(parent)
    record.e2e = parent.completion - request.arrival
    if record.e2e < 0:
        log.error(f"{request.id} is complete before it arrives; it has no end-to-end time")
        record.e2e = -1
    return record


def _first_token(parent: Parent) -> int:
    """us from the arrival to the first token that the decode instance made.

    Its prefill, the transfer and the first decode step, without the wait in between: reference
    quirk 07-Q2. Without such a step, or for a transfer at time 0 (07-Q8), that of the prefill.
    """
    prefill, decode = parent.prefill, parent.decode
    if decode is None or decode.first_decode_us < 0 or not parent.transfer_start > 0:
        return prefill.ttft
    return (
        prefill.ttft + (parent.transfer_complete - parent.transfer_start) + decode.first_decode_us
    )


def pd_metrics(
    account: Disaggregation, instances: Sequence[InstanceMetrics], total: InstanceMetrics
) -> PDMetrics | None:
    """The figures of the pools; None if no request was disaggregated.

    ``total`` has been corrected.
    """
    if not account.parents:
        return None
    transferred = [parent for parent in account.parents if parent.transfer_complete > 0]
    duration = total.sim_ended / 1e6

    def throughput(pool: Pool) -> float:
        done = sum(instances[index].completed for index in pool.members.tolist())
        return float(done) / duration if duration > 0 else 0.0

    prefill, decode = throughput(account.prefill), throughput(account.decode)
    whole = {parent.request.id for parent in account.parents}
    link = account.link
    return PDMetrics(
        disaggregated=len(transferred),
        dropped_at_decode=sum(not parent.decode_instance for parent in transferred),
        prefill_throughput=prefill,
        decode_throughput=decode,
        load_imbalance=_imbalance(prefill, decode),
        ttft=distribution(_floats(r.ttft for r in total.requests if r.id in whole and r.ttft > 0)),
        transfer=distribution(
            _floats(p.transfer_complete - p.transfer_start for p in transferred if p.transfer_start)
        ),
        contention=link.contention,
        peak_transfers=link.peak,
        mean_transfers=link.mean_depth,
    )


def _floats(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.fromiter(values, np.float64)


def _imbalance(one: float, other: float) -> float:
    """The larger over the smaller; 1 if both are 0, the largest float if one is."""
    low, high = sorted((one, other))
    if high == 0:
        return 1.0
    return high / low if low > 0 else sys.float_info.max
