"""Reads the catalogue's own data files."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def bundled(name: str) -> dict[str, Any]:
    """Contents of ``data/<name>.json``. Shared by all callers: do not change it."""
    contents: dict[str, Any] = json.loads(
        resources.files("blis_core.catalog").joinpath(f"data/{name}.json").read_bytes()
    )
    return contents
