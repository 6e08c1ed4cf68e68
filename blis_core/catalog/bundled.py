"""Reads the catalogue's own data files."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any


@cache
def bundled(name: str) -> dict[str, Any]:
    """Contents of ``data/<name>.yaml``. Shared by all callers: do not change it."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = resources.files("blis_core.catalog").joinpath(f"data/{name}.yaml").read_bytes()
    contents: dict[str, Any] = yaml.load(text, Loader=loader)
    return contents
