"""Data sets of measured runs: their schema and their reader.

One JSON object with the keys of :class:`DataSet`. Times are ms where a name says so, rates are
requests per second, lengths are tokens. The page docs/validation.md describes the fields.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import attrs

from blis_core.api import BlisError, structure

SCHEMA: Final = "blis-real-measurements/1"

OPEN_LOOP: Final = "inference-perf shared_prefix"
"""Generator of records with stages: prompts that return, arrivals at a given rate."""
PER_REQUEST: Final = "per-request trace"
"""Generator of records whose requests are listed in a file."""


@attrs.frozen(kw_only=True)
class Statistics:
    """Mean and percentiles of a latency in ms; 0 = not measured."""

    mean: float = 0.0
    """Mean. Unit: ms."""
    p50: float = 0.0
    """Median. Unit: ms."""
    p90: float = 0.0
    """90th percentile. Unit: ms."""
    p95: float = 0.0
    """95th percentile. Unit: ms."""
    p99: float = 0.0
    """99th percentile. Unit: ms."""


@attrs.frozen(kw_only=True)
class Throughput:
    """Rates over the whole run; 0 = not measured."""

    requests_per_s: float = 0.0
    """Completed requests. Unit: 1/s."""
    input_tokens_per_s: float = 0.0
    """Prompt tokens; not read. Unit: 1/s."""
    output_tokens_per_s: float = 0.0
    """Generated tokens; not read. Unit: 1/s."""


@attrs.frozen(kw_only=True)
class Measured:
    """What a server did, or what somebody predicted."""

    completed: int = 0
    """Requests that were answered in full."""
    failed: int = 0
    """Requests that were not."""
    prompt_tokens_mean: float = 0.0
    """As the server counted them, which may be more than the generator meant; 0 = not known."""
    output_tokens_mean_retokenised: float = 0.0
    """Output tokens as counted from the text; not read."""
    preemptions: int = 0
    """Of the whole run; not read."""
    requests_per_s: float = 0.0
    """As in ``throughput``, for predictions that have no other rates."""
    ttft_ms: Statistics = attrs.field(factory=Statistics)
    """Time to first token."""
    e2e_ms: Statistics = attrs.field(factory=Statistics)
    """End-to-end latency."""
    itl_ms: Statistics = attrs.field(factory=Statistics)
    """Between tokens. The mean is (E2E - TTFT) / (output - 1), of the means."""
    itl_sse_chunk_gap_ms: Statistics = attrs.field(factory=Statistics)
    """Between chunks as they reached the client, which need not be tokens; not read."""
    throughput: Throughput = attrs.field(factory=Throughput)
    """Rates over the whole run."""


@attrs.frozen(kw_only=True)
class MeasuredStage(Measured):
    """What a server did in one stage; not read."""

    stage: int = 0
    """Number of the stage, from 0."""
    rate_rps: float = 0.0
    """Offered rate. Unit: 1/s."""
    duration_s: float = 0.0
    """Unit: s."""


@attrs.frozen(kw_only=True)
class Stage:
    """A time of constant load."""

    rate_rps: float
    """Requests per second. Allowed: > 0."""
    duration_s: float
    """How long requests arrive. Unit: s. Allowed: > 0."""


@attrs.frozen(kw_only=True)
class Load:
    """The traffic of a run."""

    generator: str
    """``inference-perf shared_prefix`` (with stages) or ``per-request trace`` (with a trace)."""
    profile: str = ""
    """Name of the kind of traffic; prompts of one profile have one length."""
    arrival: str = ""
    """How requests arrived, in words; not read."""
    stages: tuple[Stage, ...] = ()
    """One after the other."""
    num_requests: int = 0
    """Of all stages; decides which record is simulated first, nothing else."""
    num_unique_system_prompts: int = 0
    """As the generator was told, which need not be what it did; not read."""
    num_users_per_system_prompt: int = 0
    """The same; not read."""
    system_prompt_tokens: int = 0
    """Tokens that the prompts of a group share, as the generator meant them."""
    question_tokens: int = 0
    """Tokens of a prompt behind those, as the generator meant them. Allowed: > 0."""
    output_tokens: int = 0
    """Tokens of each answer. Allowed: > 0."""
    multi_turn: bool = False
    """Not read."""
    ignore_eos: bool = True
    """Answers have exactly the length that was asked for; not read."""
    distinct_prompts: int = 100
    """Prompts that return in turn. The generator has 10 groups of 10 unless told otherwise."""
    groups: int = 10
    """Groups of prompts that share a system prompt."""
    timeout_s: float = 300.0
    """After which a client gives up."""
    trace: str = ""
    """CSV file with arrival_s, input_tokens and output_tokens of each request, and, if they were
    measured, first_token_s and last_token_s, which count from the same moment as the arrivals.
    Relative to the folder of the data set, or to one above it."""
    prompt_tokens_mean: float = 0.0
    """Of the file; not read."""
    output_tokens_mean: float = 0.0
    """Of the file; decides which record is simulated first."""


@attrs.frozen(kw_only=True)
class Record:
    """One measured run."""

    id: str
    """Name of the run, unique in the data set."""
    model: str
    """Served model, as owner/name."""
    hardware: str
    """GPU, as in the catalogue or as the latency model calls it."""
    tp: int
    """Tensor parallel degree. Allowed: > 0."""
    workload: Load
    """The traffic."""
    measured: Measured
    """What the server did."""
    set: str = ""
    """Name of a group of records."""
    gpu_variant: str = ""
    """Exact type of the GPU; not read."""
    dp: int = 1
    """Data parallel engines; more than 1 only with ``expert_parallel``. Allowed: > 0."""
    expert_parallel: bool = False
    """The engines share the experts and step together; simulated with ``tp`` 1 only."""
    precision: str = ""
    """Of the weights; not read, as the model config says it."""
    vllm: str = ""
    """Version of the serving engine; not read."""
    max_num_seqs: int = 256
    """Most requests in a batch, of each engine. Allowed: > 0."""
    max_num_batched_tokens: int = 2048
    """Most new tokens in a step, of each engine. Allowed: > 0."""
    max_model_len: int = 0
    """Longest request in tokens; 0 = from the model."""
    gpu_memory_utilization: float = 0.0
    """Share of GPU memory for weights and KV cache, from which KV blocks are estimated; 0 = not
    known: 0.9 counts, and the estimate is not compared."""
    block_size: int = 16
    """Tokens of a KV block. Allowed: > 0."""
    total_kv_blocks: int = 0
    """Of each engine; 0 = not known."""
    total_kv_blocks_source: str = ""
    """``published`` if the server itself reported the number."""
    cpu_kv_blocks: int = 0
    """KV blocks in CPU memory; not read."""
    workload_source: str = ""
    """How the traffic is known; not read."""
    measured_stages: tuple[MeasuredStage, ...] = ()
    """What the server did in each stage; not read."""
    overload: bool = False
    """The server could not keep up with the load."""
    reference_predictions: dict[str, Measured] = attrs.field(factory=dict)
    """By name of the predictor: what others predicted for this run."""
    latency_options: dict[str, str] = attrs.field(factory=dict)
    """Options of the latency model that hold for this run, such as the speed of a link."""
    licence: str = ""
    """Of the figures; not read."""


@attrs.frozen(kw_only=True)
class DataSet:
    """Measured runs and where they came from."""

    schema: str
    """``blis-real-measurements/1``."""
    experiments: tuple[Record, ...]
    """The runs."""
    note: str = ""
    """Remarks; not read."""
    sources: dict[str, str] = attrs.field(factory=dict)
    """Where the records came from, by set."""
    unread: tuple[str, ...] = attrs.field(default=(), metadata={"key": None})
    """Keys of the file that mean nothing here, such as ``workload.mood``, each once."""


def load_dataset(path: str) -> DataSet:
    """The data set in the file ``path``; BlisError, naming the field, for one that is not such."""
    try:
        contents = json.loads(Path(path).read_bytes())
    except OSError as problem:
        raise BlisError(f"cannot read data set {path}: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise BlisError(f"data set {path} is not valid JSON: {problem}") from None
    if not isinstance(contents, dict) or contents.get("schema") != SCHEMA:
        found = contents.get("schema") if isinstance(contents, dict) else None
        raise BlisError(f'data set {path}: "schema" must be {SCHEMA!r}, not {found!r:.60}')
    unread: dict[str, None] = {}
    known = _without_unknown(contents, DataSet, "", unread)
    dataset = attrs.evolve(structure(known, DataSet, path), unread=tuple(unread))
    seen: set[str] = set()
    for number, record in enumerate(dataset.experiments):
        where = f"{path}: experiments[{number}]"
        if record.id in seen:
            raise BlisError(f"{where}.id: {record.id!r} stands there twice")
        seen.add(record.id)
        _check(record, where)
    return dataset


def _without_unknown(value: Any, cls: Any, path: str, unread: dict[str, None]) -> Any:
    """``value`` without the keys that ``cls`` does not have; ``unread`` collects their paths.

    Whoever measures may note down more than anybody here reads.
    """
    inner = next((arg for arg in (cls, *get_args(cls)) if attrs.has(arg)), None)
    if inner is None:
        return value
    if isinstance(value, list):
        return [_without_unknown(item, inner, path, unread) for item in value]
    if not isinstance(value, dict):
        return value
    if get_origin(cls) is dict:
        return {k: _without_unknown(v, inner, path, unread) for k, v in value.items()}
    fields = {field.name: field.type for field in attrs.fields(attrs.resolve_types(inner))}
    kept = {}
    for key, item in value.items():
        where = f"{path}.{key}" if path else str(key)
        if key in fields:
            kept[key] = _without_unknown(item, fields[key], where, unread)
        else:
            unread[where] = None
    return kept


def _check(record: Record, where: str) -> None:
    load = record.workload
    if load.generator == OPEN_LOOP:
        if not load.stages:
            raise BlisError(f"{where}.workload.stages: must list at least one stage")
        for number, stage in enumerate(load.stages):
            if not (stage.rate_rps > 0 and stage.duration_s > 0):
                raise BlisError(
                    f"{where}.workload.stages[{number}]: rate_rps and duration_s must be above 0"
                )
        for name in ("question_tokens", "output_tokens", "distinct_prompts", "groups"):
            if getattr(load, name) <= 0:
                raise BlisError(f"{where}.workload.{name}: must be above 0")
    elif load.generator == PER_REQUEST:
        if not load.trace:
            raise BlisError(f"{where}.workload.trace: name the file of the requests")
    else:
        raise BlisError(
            f"{where}.workload.generator: must be {OPEN_LOOP!r} or {PER_REQUEST!r}, not"
            f" {load.generator!r}"
        )
    for name in ("tp", "dp", "max_num_seqs", "max_num_batched_tokens", "block_size"):
        if getattr(record, name) <= 0:
            raise BlisError(f"{where}.{name}: must be above 0")
