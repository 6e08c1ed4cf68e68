"""What run and replay do with finished results: print them, and write files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from blis_core import log
from blis_core.errors import BlisError

if TYPE_CHECKING:
    from blis_core.cli.progress import RunWatcher
    from blis_core.results.model import Results


def check_writable(flag: str, path: str) -> None:
    """Raise BlisError if ``path`` (given by ``flag``) cannot be written; "" is fine.

    Finding out before a long simulation is kinder than after it.
    """
    if not path:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise BlisError(f"{flag}: {path} is a folder; name a file")
    if os.path.exists(path) and not os.path.isfile(path):
        return  # a terminal, a pipe: written to directly
    if not os.path.isdir(folder):
        raise BlisError(f"{flag}: folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise BlisError(f"{flag}: no permission to write in folder {folder}")


def trace_files(prefix: str) -> list[tuple[str, str]]:
    """What ``--trace-output`` writes, as pairs of flag and path."""
    return [("--trace-output", prefix + ending) for ending in (".yaml", ".csv") if prefix]


def check_outputs(outputs: Iterable[tuple[str, str]], inputs: Iterable[tuple[str, str]]) -> None:
    """Raise BlisError if a file to be written cannot be, or is one that is read.

    Both are pairs of a flag and a path, "" if there is none.
    """
    read = {os.path.abspath(path): flag for flag, path in inputs if path}
    for flag, path in outputs:
        check_writable(flag, path)
        source = read.get(os.path.abspath(path)) if path else None
        if source is not None:
            raise BlisError(f"{flag}: {path} is the file of {source}; choose another name")


def require(values: Iterable[tuple[str, str]]) -> None:
    """Raise BlisError for the first flag (with its value) that was not given."""
    for flag, value in values:
        if not value:
            raise BlisError(f"{flag}: is required")


def run_watcher() -> RunWatcher | None:
    """Somebody to watch a run; None if stderr is no terminal."""
    if not sys.stderr.isatty():
        return None
    from blis_core.cli.progress import RunWatcher

    return RunWatcher()


def print_text(text: str) -> None:
    """Print ``text`` on stdout, as bytes, so that names come out the same whatever the locale."""
    encoded = text.encode("utf-8", "surrogateescape")
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # not a real file
        sys.stdout.write(encoded.decode("utf-8", "replace"))
        return
    sys.stdout.flush()
    binary.write(encoded)
    binary.flush()


def caution(results: Results) -> None:
    """Say on stderr what makes the figures misleading."""
    for text in results.cautions:
        log.warning(text)


def show(results: Results, form: str, *, replay: bool = False) -> None:
    """Print ``results`` on stdout. ``form`` is a value of ``--output``."""
    if form == "auto":
        form = "table" if sys.stdout.isatty() else "text"
    if form == "table":
        from blis_core.results.table import print_table

        print_table(results)
        return
    if form == "json":
        from blis_core.results.as_json import render

        text = render(results)
    else:
        from blis_core.results.text import render as render_text

        text = render_text(results, replay=replay)
    print_text(text)
