"""From simulated requests to a trace that can be replayed and calibrated against."""

from __future__ import annotations

from collections.abc import Iterable

from blis_core.contracts import COMPLETED, TIMED_OUT, Request
from blis_core.trace.prompt_blocks import PromptBlocks
from blis_core.trace.replay import BlockRequest
from blis_core.trace.rows import TraceRow, TraceRows
from blis_core.trace.tracev2 import TraceHeader, write_trace

_STATUS = {COMPLETED: "ok", TIMED_OUT: "timeout"}
"""By state; any other state (waiting, running, rejected, dropped) is ``incomplete``."""


def export_generated(prefix: str, requests: Iterable[Request], workload_seed: int) -> None:
    """Write the trace of ``blis run`` to ``prefix.yaml`` and ``prefix.csv``.

    ``requests`` are the generated ones, then follow-ups in order of creation; rows are sorted by
    arrival, equal ones as they come. Raises BlisError if a file cannot be written.
    """
    header = TraceHeader(
        trace_version=2, time_unit="microseconds", mode="generated", workload_seed=workload_seed
    )
    in_order = sorted(requests, key=lambda r: r.arrival)
    write_trace(prefix, header, request_rows(in_order))


def export_replayed(prefix: str, requests: Iterable[Request]) -> None:
    """Write the trace of ``blis replay``: the requests in file order, renumbered from 0."""
    header = TraceHeader(trace_version=2, time_unit="microseconds", mode="replayed")
    write_trace(prefix, header, request_rows(requests))


def request_rows(requests: Iterable[Request]) -> TraceRows:
    """One row per request; the row number is its request id.

    Requests that were made of known blocks keep them.
    """
    in_order = list(requests)
    blocks = None
    made = [request.blocks for request in in_order if isinstance(request, BlockRequest)]
    if made:
        blocks = PromptBlocks(
            made[0].size,
            [r.blocks.numbers[0] if isinstance(r, BlockRequest) else () for r in in_order],
        )
    return TraceRows((_row(number, request) for number, request in enumerate(in_order)), blocks)


def _row(number: int, r: Request) -> TraceRow:
    """Times of the first and last token are 0 unless there was one.

    The last one leaves out the overhead after decoding, so that it can precede the reported end. A
    recorded prefix longer than the prompt is dropped.
    """
    first = last = 0
    if r.ttft >= 0:
        first = r.arrival + r.ttft
        last = first + max(0, r.itl_sum - r.first_token_delay)
    prefix = r.prefix_length if r.prefix_length <= r.prompt_len else 0
    return TraceRow(
        request_id=number,
        client_id=r.client,
        tenant_id=r.tenant,
        slo_class=r.slo_class,
        session_id=r.session,
        round_index=r.round_index,
        prefix_group=r.prefix_group,
        prefix_length=prefix,
        streaming=r.streaming,
        input_tokens=r.prompt_len - prefix,
        output_tokens=r.output_len,
        text_tokens=r.text_tokens,
        image_tokens=r.image_tokens,
        audio_tokens=r.audio_tokens,
        video_tokens=r.video_tokens,
        reason_ratio=r.reason_ratio,
        model=r.model,
        deadline_us=r.deadline,
        arrival_time_us=r.arrival,
        send_time_us=r.arrival,
        first_chunk_time_us=first,
        last_chunk_time_us=last,
        status=_STATUS.get(r.state, "incomplete"),
    )
