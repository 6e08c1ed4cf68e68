"""Makes clients of a folder of ServeGen data.

Each client is described by two files: ``chunk-<id>-trace.csv`` has rates and burstiness over time,
``chunk-<id>-dataset.json`` has distributions of lengths over time. Of either, one row is used: that
of the highest rate, and the first with lengths (the two need not be of the same time). Draws
nothing.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from blis_core import log
from blis_core.errors import BlisError
from blis_core.go_text import parse_float
from blis_core.workload.numeric import trunc_int64
from blis_core.workload.spec import Arrival, Client, Distribution, ServegenData, WorkloadSpec

_START, _END = "chunk-", "-trace.csv"


class _Row(NamedTuple):
    """One line of a trace file."""

    start_s: float
    rate: float
    """Requests per second."""
    cv: float
    pattern: str


def with_servegen(spec: WorkloadSpec) -> WorkloadSpec:
    """``spec`` with its ServeGen section, if any, replaced by clients.

    The rates found are only the clients' shares of the specification's ``aggregate_rate``.
    BlisError as :func:`load_clients`.
    """
    if spec.servegen_data is None:
        return spec
    clients = load_clients(spec.servegen_data)
    return attrs.evolve(spec, clients=clients, servegen_data=None)


def load_clients(data: ServegenData) -> tuple[Client, ...]:
    """The clients of the folder ``data.path``, by file name (so 10 comes before 2).

    A chunk without a rate above 0 makes no client. BlisError, naming the file, if nothing is left,
    if a file cannot be read or is malformed, and if a client has no lengths.
    """
    folder = Path(data.path)
    clients = []
    for chunk in _chunks(folder):
        row = _busiest(_read_rows(folder / f"{_START}{chunk}{_END}"), data)
        if row is None:
            log.info("a ServeGen chunk without requests makes no client", chunk=chunk)
            continue
        prompts, outputs = _read_lengths(folder / f"chunk-{chunk}-dataset.json", data)
        bursty = row.pattern.lower() in ("gamma", "weibull")
        clients.append(
            Client(
                id=f"servegen-chunk-{chunk}",
                tenant_id=f"chunk-{chunk}",
                rate_fraction=row.rate,
                arrival=Arrival(process=row.pattern.lower(), cv=row.cv)
                if bursty
                else Arrival(process="poisson"),
                input_distribution=prompts,
                output_distribution=outputs,
            )
        )
    if not clients:
        raise BlisError(f"servegen_data: no chunk in {data.path} has a rate above 0 in the span")
    return tuple(clients)


def _chunks(folder: Path) -> list[str]:
    """Ids of the chunks in ``folder``, in the order of their file names."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as problem:
        raise BlisError(
            f"cannot read servegen_data.path {folder}: {problem.strerror or problem}"
        ) from None
    shortest = len(_START) + len(_END)
    chunks = [
        name[len(_START) : -len(_END)]
        for name in names
        if name.startswith(_START) and name.endswith(_END) and len(name) >= shortest
    ]
    if not chunks:
        raise BlisError(f"servegen_data.path {folder} has no file {_START}<id>{_END}")
    return chunks


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as problem:
        raise BlisError(f"cannot read {path}: {problem.strerror or problem}") from None


def _in_span(time_s: float, data: ServegenData) -> bool:
    """Whether a time lies in [span_start, span_end); a limit of 0 or less is none."""
    if data.span_start > 0 and time_s < data.span_start:
        return False
    return not (data.span_end > 0 and time_s >= data.span_end)


# ------------------------------------------------------------------------------------ trace files


def _read_rows(path: Path) -> list[_Row]:
    """The usable lines of a trace file; a header and other lines without numbers are left out."""
    rows = []
    skipped = 0
    for record in _records(path):
        try:
            start, rate, cv = (parse_float(field.strip()) for field in record[:3])
            rows.append(_Row(start, rate, cv, record[3].strip()))
        except (ValueError, IndexError):
            skipped += 1
    if skipped:
        log.warning(
            "rows without start, rate, cv and pattern are skipped", file=str(path), rows=skipped
        )
    return rows


def _records(path: Path) -> Iterable[list[str]]:
    """The fields of each line; BlisError unless all lines have equally many."""
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    width = 0
    try:
        for record in reader:
            if not record:
                continue
            width = width or len(record)
            if len(record) != width:
                raise BlisError(
                    f"{path}, line {reader.line_num}: {len(record)} fields, "
                    f"but {width} in the first row"
                )
            yield record
    except csv.Error as problem:
        raise BlisError(f"{path}, line {reader.line_num}: {problem}") from None


def _busiest(rows: Iterable[_Row], data: ServegenData) -> _Row | None:
    """The first row with the highest rate in the span, if that is above 0."""
    best, best_rate = None, 0.0
    for row in rows:
        if _in_span(row.start_s, data) and row.rate > best_rate:
            best, best_rate = row, row.rate
    return best


# ---------------------------------------------------------------------------------- dataset files


def _read_lengths(path: Path, data: ServegenData) -> tuple[Distribution, Distribution]:
    """Distributions of prompt and output lengths: of the first time in the span that has both.

    Times are visited in the order of their texts, so that 1200 comes before 600.
    """
    windows = _read_windows(path)
    for time in sorted(windows):
        try:
            start = parse_float(time)
        except ValueError:
            log.warning("a time that is no number is skipped", file=str(path), time=time)
            continue
        texts = [windows[time].get(key) or "" for key in ("input_tokens", "output_tokens")]
        if _in_span(start, data) and all(text not in ("", "{}") for text in texts):
            at = f"{path}: {time!r}"
            return _lengths(texts[0], f"{at}: input_tokens"), _lengths(
                texts[1], f"{at}: output_tokens"
            )
    raise BlisError(f"{path}: no time in the span has both input_tokens and output_tokens")


def _read_windows(path: Path) -> dict[str, dict[str, str | None]]:
    """The contents of a dataset file: texts by key, by time."""
    try:
        windows: Any = json.loads(_read_text(path))
    except (ValueError, RecursionError) as problem:
        raise BlisError(f"{path}: not valid JSON: {problem}") from None
    expected = "must be an object of times, each with an object of texts"
    if windows is None:
        return {}
    if not isinstance(windows, dict):
        raise BlisError(f"{path}: {expected}")
    for time, texts in windows.items():
        if texts is None:
            windows[time] = {}
        elif not isinstance(texts, dict) or not all(
            text is None or isinstance(text, str) for text in texts.values()
        ):
            raise BlisError(f"{path}: {time!r}: {expected}")
    return windows


def _lengths(text: str, at: str) -> Distribution:
    """The distribution in a text such as ``{100: 0.5, 200: 0.5}``. BlisError, naming ``at``."""
    inner = text.strip()
    if len(inner) < 2 or inner[0] != "{" or inner[-1] != "}":
        raise BlisError(f"{at} must be of the form {{length: probability, ...}}")
    params: dict[str, float] = {}
    for item in inner[1:-1].split(","):
        if not item.strip():
            continue
        key, colon, value = item.partition(":")
        try:
            if not colon:
                raise ValueError(f"{item.strip()!r} has no ':'")
            length = trunc_int64(parse_float(key.strip()))
            params[str(length)] = parse_float(value.strip())
        except ValueError as problem:
            raise BlisError(f"{at}: {problem}") from None
    if not params:
        raise BlisError(f"{at} must list at least one length")
    return Distribution(type="empirical", params=params)
