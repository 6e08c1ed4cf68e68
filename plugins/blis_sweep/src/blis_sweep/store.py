"""Finished runs, one small file each, named by the key of the run.

A file is there completely or not at all, so nothing that has finished is lost or half-kept,
whatever kills the process. Several sweeps may use one folder at once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import attrs

from blis_core.api import BlisError, atomic_write
from blis_sweep.metrics import Values

ENVIRONMENT: Final = "BLIS_CACHE_DIR"


@attrs.frozen(kw_only=True)
class Finished:
    """What is kept of a run."""

    metrics: Values
    traffic: str
    """Stands for the requests that it got."""
    warnings: tuple[str, ...] = ()


def default_folder() -> Path:
    """``sweep`` in the folder that BLIS_CACHE_DIR names, else in the user's cache folder."""
    given = os.environ.get(ENVIRONMENT)
    if given:
        return Path(given) / "sweep"
    import platformdirs

    return Path(platformdirs.user_cache_dir("blis", appauthor=False)) / "sweep"


class Store:
    """A folder of finished runs."""

    def __init__(self, folder: Path) -> None:
        """BlisError if the folder is not there and cannot be made, or cannot be written to."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            reason = problem.strerror or problem
            raise BlisError(f"cannot use the cache folder {folder}: {reason}{_WAY_OUT}") from None
        if not os.access(folder, os.W_OK):
            raise BlisError(f"cannot use the cache folder {folder}: no permission{_WAY_OUT}")

    def get(self, key: str) -> Finished | None:
        """The run with this key; None if it is not there. A damaged file counts as none."""
        try:
            found: Any = json.loads(self._path(key).read_bytes())
            return Finished(
                metrics=dict(found["metrics"]),
                traffic=str(found["traffic"]),
                warnings=tuple(found["warnings"]),
            )
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def put(self, key: str, finished: Finished, about: dict[str, Any]) -> None:
        """Keep a run. ``about`` is for people who look into the file."""
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        contents = {"run": about, **attrs.asdict(finished)}
        atomic_write(path, json.dumps(contents, default=str) + "\n")

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.json"


_WAY_OUT: Final = "; choose another one with --cache, or use --no-cache"
