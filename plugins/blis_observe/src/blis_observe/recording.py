"""What is written of an observed run: a trace, and the times of chunks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from blis_core.api import (
    ChunkTime,
    NetworkInfo,
    ServerInfo,
    TraceHeader,
    TraceRow,
    atomic_write,
    format_chunk_times,
    format_header,
    format_rows,
)
from blis_observe.exchange import OK

if TYPE_CHECKING:
    from blis_observe.dispatch import Observed
    from blis_observe.observe_options import ObserveConfig


def write_trace(config: ObserveConfig, seed: int, observed: Iterable[Observed]) -> None:
    """Write header and rows. BlisError if a file cannot be written; files before it stay."""
    source = config.workload_spec
    if not source and config.workload:
        source = f"preset:{config.workload}"
    header = TraceHeader(
        trace_version=2,
        time_unit="us",
        created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        mode="real",
        warm_up_requests=config.warmup_requests,
        workload_seed=seed,
        workload_spec=source,
        server=ServerInfo(type=config.server_type, model=config.model),
        network=NetworkInfo(measured_rtt_ms=config.rtt_ms),
    )
    atomic_write(config.trace_header, format_header(header))
    atomic_write(config.trace_data, format_rows([_row(item) for item in observed]))


def _row(item: Observed) -> TraceRow:
    request, answer = item.request, item.answer
    prefix = request.prefix_length if request.prefix_length <= request.prompt_len else 0
    return TraceRow(
        request_id=item.number,
        client_id=request.client,
        tenant_id=request.tenant,
        slo_class=request.slo_class,
        session_id=request.session,
        round_index=request.round_index,
        prefix_group=request.prefix_group,
        prefix_length=prefix,
        streaming=item.streaming,
        input_tokens=request.prompt_len - prefix,
        output_tokens=answer.output_tokens,
        model=request.model,
        deadline_us=request.deadline,
        server_input_tokens=answer.input_tokens,
        arrival_time_us=request.arrival,
        send_time_us=answer.send,
        first_chunk_time_us=answer.first,
        last_chunk_time_us=answer.last,
        num_chunks=len(answer.chunk_times),
        status=answer.status,
        error_message=answer.error,
        finish_reason=answer.finish_reason,
    )


def write_chunk_times(path: str, observed: Iterable[Observed]) -> int:
    """Write the chunk times of streams that ended well; returns how many requests have some."""
    rows: list[ChunkTime] = []
    requests = 0
    for item in observed:
        if item.streaming and item.answer.status == OK and item.answer.chunk_times:
            requests += 1
            times = enumerate(item.answer.chunk_times)
            rows += [ChunkTime(item.number, place, time) for place, time in times]
    atomic_write(path, format_chunk_times(rows))
    return requests
