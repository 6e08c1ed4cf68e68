"""From a record to what is simulated: a workload file or a trace, and the options of the run."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from blis_core.api import BlisError, ReplayConfig, RunConfig
from blis_validate.dataset import OPEN_LOOP, Load, Record
from blis_validate.per_request import Listed

RETOKENISED: Final = 1.047
"""Prompt tokens of a served model per token that the generator meant, if nobody counted."""
DAY_US: Final = 86_400_000_000

_COLUMNS: Final = (
    "request_id,client_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,"
    "streaming,input_tokens,output_tokens,text_tokens,image_tokens,audio_tokens,video_tokens,"
    "reason_ratio,model,deadline_us,server_input_tokens,arrival_time_us,send_time_us,"
    "first_chunk_time_us,last_chunk_time_us,num_chunks,status,error_message,finish_reason"
).split(",")
_HEADER: Final = "trace_version: 2\ntime_unit: microseconds\nmode: generated\nwarm_up_requests: 0\n"


@attrs.frozen(kw_only=True)
class Settings:
    """How records are simulated."""

    options: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of a run's configuration that hold for all records, such as ``latency_model``."""
    latency_options: tuple[tuple[str, str], ...] = ()
    """(pattern of record ids, KEY=VALUE) of options that hold for some."""
    published_blocks: bool = True
    """Use the number of KV blocks that a server reported, rather than an estimate."""
    seed: int = 42
    stretch: float = 1.0
    """Factor on the steps, beside that of the latency model's options."""


def unsupported(record: Record) -> str:
    """Why a record cannot be simulated at all; "" if nothing stands against it."""
    if record.expert_parallel and record.tp > 1:
        return "expert parallel engines of several GPUs are not simulated"
    if record.dp > 1 and not record.expert_parallel:
        return "data parallel engines are simulated with expert parallelism only"
    return ""


def stage_sizes(record: Record) -> list[int]:
    """Requests of each stage, in the order in which they are numbered; [] if there are none."""
    return [int(stage.rate_rps * stage.duration_s) for stage in record.workload.stages]


def configure(
    record: Record, prompt_tokens: float, data: Path, folder: Path, settings: Settings
) -> RunConfig | ReplayConfig:
    """The run that simulates ``record``; ``data`` is the folder of the data set.

    What the run reads is written to ``folder``. BlisError for a file that cannot be used.
    """
    options = run_options(record, settings)
    if record.workload.generator == OPEN_LOOP:
        path = folder / "workload.yaml"
        growth = prompt_tokens / _nominal(record)
        path.write_text(workload_text(record.workload, growth), encoding="utf-8")
        patience = record.workload.timeout_s
        return RunConfig(
            workload_spec=str(path), timeout=round(patience) if patience > 0 else -1, **options
        )
    requests = listed_requests(record, data)
    header, rows = write_trace(requests, folder)
    horizon = 2 * requests[-1].arrival_us + DAY_US if requests else DAY_US
    return ReplayConfig(trace_header=header, trace_data=rows, horizon=horizon, **options)


def workload_text(load: Load, growth: float) -> str:
    """The workload file of an open loop.

    ``growth``: prompt tokens as the server counts them per token that the generator means.
    """
    stages = ", ".join(
        f"{{rate: {stage.rate_rps!r}, duration: {stage.duration_s:.15g}}}" for stage in load.stages
    )
    per_group = -(-load.distinct_prompts // load.groups)
    return (
        'version: "2"\n'
        "inference_perf:\n"
        f"  stages: [{stages}]\n"
        f"  shared_prefix: {{system_prompt_len: {load.system_prompt_tokens},"
        f" question_len: {load.question_tokens}, output_len: {load.output_tokens}}}\n"
        f"  open_loop: {{num_groups: {load.groups}, num_prompts_per_group: {per_group},"
        f" growth: {growth!r}}}\n"
    )


def prompt_length(record: Record, others: Sequence[Record]) -> float:
    """Mean prompt tokens as the server counts them.

    Counted in this run; else in another one of the same profile; else estimated.
    """
    load = record.workload
    alike = [
        r
        for r in others
        if r.workload.profile.partition("-")[0] == load.profile.partition("-")[0]
        and _nominal(r) == _nominal(record)
    ]
    for candidate in (record, *alike):
        if candidate.measured.prompt_tokens_mean > 0:
            return candidate.measured.prompt_tokens_mean
    return _nominal(record) * RETOKENISED


def _nominal(record: Record) -> int:
    return record.workload.system_prompt_tokens + record.workload.question_tokens


def listed_requests(record: Record, folder: Path) -> list[Listed]:
    """The requests in the file that the record names, in order of arrival."""
    name = record.workload.trace
    path = next((p for base in (folder, *folder.parents) if (p := base / name).is_file()), None)
    if path is None:
        raise BlisError(f"record {record.id}: there is no file {name} in or above {folder}")
    found = []
    with path.open(newline="", encoding="utf-8") as file:
        for row, fields in enumerate(csv.DictReader(file), start=1):
            try:
                found.append(
                    Listed(
                        round(float(fields["arrival_s"]) * 1e6),
                        int(fields["input_tokens"]),
                        int(fields["output_tokens"]),
                        _moment(fields.get("first_token_s")),
                        _moment(fields.get("last_token_s")),
                    )
                )
            except (KeyError, TypeError, ValueError, OverflowError) as problem:
                raise BlisError(f"{path}, row {row}: {problem!r} is no usable value") from None
    return sorted(found, key=lambda arrival: arrival.arrival_us)


def _moment(text: str | None) -> int:
    """Seconds as us; -1 for a cell that is empty or not there."""
    return round(float(text) * 1e6) if text else -1


def write_trace(requests: Sequence[Listed], folder: Path) -> tuple[str, str]:
    """Write the requests as a trace that can be replayed; the paths of header and data."""
    header, data = folder / "trace.yaml", folder / "trace.csv"
    header.write_text(_HEADER, encoding="utf-8")
    texts = dict.fromkeys(_COLUMNS, "")
    counts = [name for name in _COLUMNS if name.endswith(("_tokens", "_us", "_length", "_index"))]
    texts |= dict.fromkeys([*counts, "reason_ratio", "num_chunks"], "0")
    texts |= {"streaming": "true", "status": "ok"}
    with data.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        for number, request in enumerate(requests):
            writer.writerow(
                {
                    **texts,
                    "request_id": number,
                    "input_tokens": request.prompt_tokens,
                    "output_tokens": request.output_tokens,
                    "arrival_time_us": request.arrival_us,
                }
            )
    return str(header), str(data)


def run_options(record: Record, settings: Settings) -> dict[str, Any]:
    """Fields of the configuration of a run that simulates the engine of ``record``."""
    from fnmatch import fnmatchcase

    engines = record.dp
    options: dict[str, Any] = {
        "model": record.model,
        "hardware": record.hardware,
        "tp": record.tp,
        "max_num_running_reqs": engines * record.max_num_seqs,
        "max_num_scheduled_tokens": engines * record.max_num_batched_tokens,
        "block_size_in_tokens": record.block_size,
        "gpu_memory_utilization": record.gpu_memory_utilization or 0.9,
        "seed": settings.seed,
        **settings.options,
    }
    if record.max_model_len > 0:
        options["max_model_len"] = record.max_model_len
    if settings.published_blocks and record.total_kv_blocks > 0:
        options["total_kv_blocks"] = engines * record.total_kv_blocks
    own = [f"{name}={value}" for name, value in record.latency_options.items()]
    if engines > 1:
        # one instance stands for all engines, which step together
        options["long_prefill_token_threshold"] = record.max_num_batched_tokens
        own.append(f"data_parallel={engines}")
    own += [text for pattern, text in settings.latency_options if fnmatchcase(record.id, pattern)]
    options["latency_option"] = (*own, *options.get("latency_option", ()))
    return options
