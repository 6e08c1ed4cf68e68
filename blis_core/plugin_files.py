"""Plugins that are single files, for a policy that has no package yet (``--plugin FILE.py``)."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from blis_core.errors import BlisError


def resolve(files: Iterable[str | Path]) -> tuple[Path, ...]:
    """Absolute paths of existing files. BlisError for one that does not exist."""
    paths = tuple(Path(file).absolute() for file in files)
    for path in paths:
        if not path.is_file():
            raise BlisError(f"--plugin {path}: no such file")
    return paths


def load(index: int, path: Path) -> ModuleType:
    """Import a file as a module of its own, apart from others of the same name (``index``)."""
    name = f"blis_plugin_file_{index}_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that pickle and "module:name" addresses find it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
