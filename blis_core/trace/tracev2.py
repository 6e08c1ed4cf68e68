"""Trace files of version 2: what a trace is, reading and writing it.

A trace is a YAML header and a CSV body with one row per request. Times are us: arrivals relative to
the start of the workload, the others in whatever base the recorder used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import attrs

from blis_core.files import atomic_write, read_bytes
from blis_core.records import Record
from blis_core.structuring import load_yaml, structure
from blis_core.trace.rows import TraceRow, TraceRows, format_rows, parse_rows
from blis_core.yaml_writing import dump_yaml


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerInfo(Record):
    """The serving engine that a trace was recorded from; empty and 0 mean unknown."""

    type: str = ""
    model: str = ""
    tensor_parallel: int = 0
    max_num_seqs: int = 0
    block_size: int = 0
    gpu_memory_utilization: float = 0.0
    max_model_len: int = 0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NetworkInfo(Record):
    """The network between recorder and server."""

    measured_rtt_ms: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TraceHeader(Record):
    """The YAML header. Version, unit and mode are information only; nothing depends on them."""

    trace_version: int = 0
    time_unit: str = ""
    created_at: str = ""
    """UTC, RFC 3339."""
    mode: str = ""
    """``generated``, ``replayed`` or ``real``."""
    warm_up_requests: int = 0
    """Requests that calibration leaves out: those with smaller ids."""
    workload_seed: int | None = None
    workload_spec: str = ""
    """Path of the workload file, or ``preset:NAME``."""
    server: ServerInfo | None = None
    network: NetworkInfo | None = None


class Trace(NamedTuple):
    """A whole trace."""

    header: TraceHeader
    rows: TraceRows


def read_trace(header_path: str | os.PathLike[str], data_path: str | os.PathLike[str]) -> Trace:
    """Read both files of a trace. Raises BlisError that names file, row and column."""
    header = parse_header(read_bytes(header_path), os.fspath(header_path))
    return Trace(header, parse_rows(read_bytes(data_path), os.fspath(data_path)))


def write_trace(prefix: str, header: TraceHeader, rows: Iterable[TraceRow]) -> None:
    """Write ``prefix.yaml`` and ``prefix.csv``. Raises BlisError if that is not possible."""
    atomic_write(prefix + ".yaml", format_header(header))
    atomic_write(prefix + ".csv", format_rows(rows))


def parse_header(text: str | bytes, source: str) -> TraceHeader:
    """The header in ``text``; unknown or repeated keys and wrong types raise BlisError."""
    return structure(load_yaml(text, source), TraceHeader, source)


_ALWAYS = ("trace_version", "time_unit", "mode", "warm_up_requests")
"""Keys that are written even if empty."""


def format_header(header: TraceHeader) -> str:
    """The YAML text of ``header``, with 4 blanks of indentation."""
    document: dict[str, Any] = {}
    for name, value in attrs.asdict(header, recurse=False).items():
        if isinstance(value, (ServerInfo, NetworkInfo)):
            document[name] = {k: v for k, v in attrs.asdict(value).items() if v}
        elif name in _ALWAYS or value or value == 0:
            document[name] = value
    return dump_yaml(document)
