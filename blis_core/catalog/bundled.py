"""Reads the catalogue's own data files."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

_FOLDER = os.path.join(os.path.dirname(__file__), "data")


@cache
def bundled(name: str) -> dict[str, Any]:
    """Contents of ``data/<name>.json``. Shared by all callers: do not change it."""
    with open(os.path.join(_FOLDER, f"{name}.json"), "rb") as file:
        contents: dict[str, Any] = json.load(file)
    return contents
