"""From a record to what is simulated: a trace of its requests, and the options of the run.

The load generator of inference-perf starts with a fixed set of prompts and goes round them, so that
all requests after the first round find their prompt in the prefix cache. Arrivals of a stage have
exponential gaps, scaled so that they fill the stage exactly.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import attrs

from blis_core.api import BlisError
from blis_validate.dataset import OPEN_LOOP, Record, Stage

RETOKENISED: Final = 1.047
"""Prompt tokens of a served model per token that the generator meant, if nobody counted."""
PROMPT_SPREAD: Final = 6.0
"""Standard deviation of the prompt length in tokens."""
PAUSE_S: Final = 1.5
"""Between the last answer of a stage and the first request of the next."""
DRAIN_S: Final = 60.0
"""Simulated time between stages; no answer takes as long, unless the server is overloaded."""

_COLUMNS: Final = (
    "request_id,client_id,tenant_id,slo_class,session_id,round_index,prefix_group,prefix_length,"
    "streaming,input_tokens,output_tokens,text_tokens,image_tokens,audio_tokens,video_tokens,"
    "reason_ratio,model,deadline_us,server_input_tokens,arrival_time_us,send_time_us,"
    "first_chunk_time_us,last_chunk_time_us,num_chunks,status,error_message,finish_reason"
).split(",")
_HEADER: Final = "trace_version: 2\ntime_unit: microseconds\nmode: generated\nwarm_up_requests: 0\n"


class Arrival(NamedTuple):
    """One request of a run."""

    stage: int
    arrival_us: int
    prompt_tokens: int
    output_tokens: int
    prompt: int
    """Number of the prompt among those that return; -1 = a prompt of its own."""
    deadline_us: int
    """0 = none."""


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


def unsupported(record: Record) -> str:
    """Why a record cannot be simulated at all; "" if nothing stands against it."""
    if record.dp > 1 or record.expert_parallel:
        return "data or expert parallel engines are not simulated"
    return ""


def arrivals(record: Record, prompt_tokens: float, folder: Path, seed: int) -> list[Arrival]:
    """The requests of ``record`` in order of arrival; ``folder`` is that of the data set."""
    if record.workload.generator == OPEN_LOOP:
        return list(_open_loop(record, prompt_tokens, random.Random(seed)))
    return _listed(record, folder)


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


def _open_loop(record: Record, prompt_tokens: float, rng: random.Random) -> Iterator[Arrival]:
    load = record.workload
    lengths = [
        max(2, round(rng.gauss(prompt_tokens, PROMPT_SPREAD))) for _ in range(load.distinct_prompts)
    ]
    start, number = 0.0, 0
    for index, stage in enumerate(load.stages):
        for offset in _offsets(stage, rng):
            prompt = number % load.distinct_prompts
            at = round((start + offset) * 1e6)
            yield Arrival(
                index,
                at,
                lengths[prompt],
                load.output_tokens,
                prompt,
                at + round(load.timeout_s * 1e6) if load.timeout_s > 0 else 0,
            )
            number += 1
        start += stage.duration_s + DRAIN_S


def _offsets(stage: Stage, rng: random.Random) -> Iterator[float]:
    """Arrival times in s within a stage, the last one at its end."""
    count = int(stage.rate_rps * stage.duration_s)
    gaps = [-math.log(1.0 - rng.random()) for _ in range(count)]
    unit = stage.duration_s / sum(gaps)
    time = 0.0
    for gap in gaps:
        time += gap * unit
        yield time


def _listed(record: Record, folder: Path) -> list[Arrival]:
    """The requests in the file that the record names."""
    name = record.workload.trace
    path = next((p for base in (folder, *folder.parents) if (p := base / name).is_file()), None)
    if path is None:
        raise BlisError(f"record {record.id}: there is no file {name} in or above {folder}")
    found = []
    with path.open(newline="", encoding="utf-8") as file:
        for row, fields in enumerate(csv.DictReader(file), start=1):
            try:
                found.append(
                    Arrival(
                        0,
                        round(float(fields["arrival_s"]) * 1e6),
                        int(fields["input_tokens"]),
                        int(fields["output_tokens"]),
                        -1,
                        0,
                    )
                )
            except (KeyError, TypeError, ValueError) as problem:
                raise BlisError(f"{path}, row {row}: {problem!r} is no usable value") from None
    return sorted(found, key=lambda arrival: arrival.arrival_us)


def write_trace(requests: Sequence[Arrival], folder: Path) -> tuple[str, str]:
    """Write the requests as a trace that can be replayed; the paths of header and data.

    A prompt that returns is a prefix group of all its tokens but the last: the last one is
    computed at every request, as in an engine that never reuses a whole prompt.
    """
    header, data = folder / "trace.yaml", folder / "trace.csv"
    header.write_text(_HEADER, encoding="utf-8")
    fixed = dict.fromkeys(_COLUMNS, "")
    fixed.update(dict.fromkeys(_COLUMNS[11:15] + _COLUMNS[18:24:1], "0"))
    fixed.update(round_index="0", streaming="true", reason_ratio="0", num_chunks="0", status="ok")
    with data.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        for number, request in enumerate(requests):
            shared = request.prompt >= 0
            writer.writerow(
                {
                    **fixed,
                    "request_id": number,
                    "prefix_group": f"prompt-{request.prompt}" if shared else "",
                    "prefix_length": request.prompt_tokens - 1 if shared else 0,
                    "input_tokens": 1 if shared else request.prompt_tokens,
                    "output_tokens": request.output_tokens,
                    "deadline_us": request.deadline_us,
                    "arrival_time_us": request.arrival_us,
                }
            )
    return str(header), str(data)


def run_options(record: Record, settings: Settings) -> dict[str, Any]:
    """Fields of the configuration of a run that simulates the engine of ``record``."""
    from fnmatch import fnmatchcase

    options: dict[str, Any] = {
        "model": record.model,
        "hardware": record.hardware,
        "tp": record.tp,
        "max_num_running_reqs": record.max_num_seqs,
        "max_num_scheduled_tokens": record.max_num_batched_tokens,
        "block_size_in_tokens": record.block_size,
        "gpu_memory_utilization": record.gpu_memory_utilization or 0.9,
        "seed": settings.seed,
        **settings.options,
    }
    if record.max_model_len > 0:
        options["max_model_len"] = record.max_model_len
    if settings.published_blocks and record.total_kv_blocks > 0:
        options["total_kv_blocks"] = record.total_kv_blocks
    own = [f"{name}={value}" for name, value in record.latency_options.items()]
    own += [text for pattern, text in settings.latency_options if fnmatchcase(record.id, pattern)]
    options["latency_option"] = (*own, *options.get("latency_option", ()))
    return options
