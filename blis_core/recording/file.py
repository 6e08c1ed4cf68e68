"""Recordings as files.

A recording is a zip archive that ``numpy.load`` can open. ``recording.json`` says what it is
(``format``, ``format_version``) and holds ``Recording.about``; ``TABLE.COLUMN.npy`` is one column
of a table (``requests``, ``spans``, ``steps``, ``itl``), ``ids.npy`` the ids of the requests. The
same run gives the same bytes.

A reader must know the format version. Another one is given when a column changes its meaning or
goes away; further columns and keys may come without that.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from blis_core.errors import BlisError
from blis_core.files import atomic_write, read_bytes
from blis_core.recording.phases import PARTS
from blis_core.recording.tables import REQUEST_COLUMNS, SPAN_COLUMNS, STEP_COLUMNS, Recording

if TYPE_CHECKING:
    import os

    from blis_core.contracts import IntArray

FORMAT = "blis-recording"
VERSION = 1

_HEADER = "recording.json"
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the first time that a zip archive can tell


def write_recording(path: str | os.PathLike[str], recording: Recording) -> None:
    """Write ``recording`` to a file, completely or not at all; BlisError if that fails."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        about = {"format": FORMAT, "format_version": VERSION, **recording.about}
        _put(archive, _HEADER, json.dumps(about, indent=1).encode("ascii"))
        for name, column in _columns(recording):
            content = io.BytesIO()
            np.save(content, _narrow(column), allow_pickle=False)
            _put(archive, f"{name}.npy", content.getvalue())
    atomic_write(path, buffer.getvalue())


def _put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EARLIEST)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def _columns(recording: Recording) -> Iterator[tuple[str, Any]]:
    yield "ids", np.array(recording.ids, dtype=np.str_)
    for table in ("requests", "spans", "steps"):
        for name, column in getattr(recording, table).items():
            yield f"{table}.{name}", column
    yield "itl.value", recording.itl[0]
    yield "itl.count", recording.itl[1]


def _narrow(column: Any) -> Any:
    """Integers in as few bytes as they need."""
    if column.dtype.kind != "i" or not len(column):
        return column
    low, high = int(column.min()), int(column.max())
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return column.astype(kind)
    return column


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file. BlisError if it cannot be read, or is something else."""
    data = read_bytes(path)
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise BlisError(
            f"{path}: is not a recording; blis run (or replay) writes one with --record FILE"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if _HEADER not in archive.namelist():
                raise BlisError(
                    f"{path}: is an archive without {_HEADER}, not a recording;"
                    " blis run (or replay) writes one with --record FILE"
                )
            about = json.loads(archive.read(_HEADER))
            _check_version(path, about)
            columns = {
                name.removesuffix(".npy"): _load(archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        return _recording(about, columns)
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError) as problem:
        detail = f"it has no {problem}" if isinstance(problem, KeyError) else str(problem)
        raise BlisError(f"{path}: is damaged ({detail}); record the run once more") from None


def _check_version(path: str | os.PathLike[str], about: Any) -> None:
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise BlisError(
            f"{path}: its {_HEADER} is not that of a recording; blis run (or replay) writes one"
            " with --record FILE"
        )
    version = about.get("format_version")
    if version != VERSION:
        raise BlisError(
            f"{path}: has format version {version}, this blis reads {VERSION}; record the run once"
            " more, or use the blis that wrote it"
        )


def _load(archive: zipfile.ZipFile, name: str) -> Any:
    return np.load(io.BytesIO(archive.read(name)), allow_pickle=False)


def _recording(about: dict[str, Any], columns: dict[str, Any]) -> Recording:
    """KeyError if a column or key is missing, ValueError if columns do not fit together."""
    missing = {"results", "end", "instances", "names"} - about.keys()
    if missing:
        raise KeyError(min(missing))
    about = {key: value for key, value in about.items() if not key.startswith("format")}
    kinds = [f"{kind}_{name}" for kind in ("part", "lost", "alone") for name in PARTS]
    ids = columns["ids"].tolist()
    requests = _table(columns, "requests", (*REQUEST_COLUMNS, *kinds), len(ids))
    return Recording(
        about=about,
        ids=ids,
        requests=requests,
        spans=_table(columns, "spans", SPAN_COLUMNS),
        steps=_table(columns, "steps", ("instance", *STEP_COLUMNS)),
        itl=(columns["itl.value"].astype(np.int64), columns["itl.count"].astype(np.int64)),
    )


def _table(
    columns: dict[str, Any], table: str, names: tuple[str, ...], rows: int = -1
) -> dict[str, IntArray]:
    found = {name: columns[f"{table}.{name}"].astype(np.int64) for name in names}
    lengths = {len(column) for column in found.values()} | ({rows} if rows >= 0 else set())
    if len(lengths) > 1:
        raise ValueError(f"columns of {table} differ in length")
    return found
