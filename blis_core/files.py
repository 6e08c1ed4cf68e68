"""Files: read in one piece; written completely or not at all, whatever interrupts the program."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable

from blis_core.errors import BlisError

AnyPath = str | os.PathLike[str]


def read_bytes(path: AnyPath) -> bytes:
    """The contents of a file; BlisError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise BlisError(f"cannot read {os.fspath(path)}: {problem.strerror or problem}") from None


def atomic_write(path: AnyPath, content: str | bytes | Iterable[str]) -> None:
    """Write ``content`` (text as UTF-8, line ends as they are) to ``path``, replacing a file there.

    It may come piece by piece.

    The content goes to a temporary file in the same folder, which is then renamed: an interrupted
    run leaves the old file or the new one. A symbolic link is followed, an existing file keeps its
    permissions, and what is no regular file (a terminal, a pipe) is written to directly. Raises
    BlisError if any of this fails.
    """
    if isinstance(content, bytes):
        data: Iterable[bytes] = (content,)
    else:
        texts = (content,) if isinstance(content, str) else content
        data = (text.encode("utf-8", "surrogateescape") for text in texts)
    try:
        target = os.path.realpath(path)
        try:
            old_mode = os.stat(target).st_mode
        except FileNotFoundError:
            _replace(target, data, None)
            return
        if stat.S_ISREG(old_mode):
            _replace(target, data, stat.S_IMODE(old_mode))
        else:
            with open(target, "wb") as file:
                file.writelines(data)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise BlisError(f"cannot write {os.fspath(path)}: {reason}") from None


def _replace(target: str, data: Iterable[bytes], mode: int | None) -> None:
    """Write a neighbour of ``target``, with permissions ``mode`` (None = the usual), and rename."""
    # Random, because simultaneous runs must not meet, and a process that is killed leaves its file
    # to a later one of the same id; "x" refuses to follow a planted link.
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.writelines(data)
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
