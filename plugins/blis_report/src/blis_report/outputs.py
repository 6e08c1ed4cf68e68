"""Files that commands write: found out before the work that they cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from blis_core.api import BlisError


def check_output(flag: str, path: str, inputs: Iterable[str]) -> None:
    """BlisError if ``path`` (given by ``flag``) cannot be written, or is one of ``inputs``."""
    target = Path(path)
    if target.absolute() in {Path(each).absolute() for each in inputs}:
        raise BlisError(f"{flag}: {path} is a recording; choose another name")
    if target.is_dir():
        raise BlisError(f"{flag}: {path} is a folder; name a file")
    if not target.parent.is_dir():
        raise BlisError(f"{flag}: folder {target.parent} does not exist; create it first")
    if not os.access(target.parent, os.W_OK):
        raise BlisError(f"{flag}: no permission to write in folder {target.parent}")
