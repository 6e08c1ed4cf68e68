"""What decides the result of a run, and a key that stands for all of it.

Two runs with the same key have the same result: the key covers the resolved configuration, the
contents of the files it reads, and the code that simulates.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import attrs

from blis_core.api import Deployment, SimulationConfig, loaded_plugins, plugin_settings
from blis_sweep import __version__

FORMAT: Final = 1
"""Of what is kept of a run; another one makes all that was kept worthless."""
_NOT_SIMULATED: Final = ("command", "importer")
"""Kinds of extension that have no part in a simulation."""
_IGNORED: Final = ("log", "metrics_path", "output", "results_path", "trace_output")
_FILES_BY_CONTENT: Final = "defaults_filepath"


def code_identity() -> str:
    """A digest of the code that simulates here: of the core and of the plugins in use.

    It covers the contents of their files, not only their versions, so that a plugin under
    development is a new one after each change.
    """
    digest = hashlib.sha256(f"blis-sweep {__version__} {FORMAT}\n".encode())
    for record in loaded_plugins():
        kinds = {extension.kind for extension in record.extensions}
        origin = record.origin
        if not origin.distribution or not kinds - set(_NOT_SIMULATED):
            continue  # plugin files come last, by content
        digest.update(f"{origin.distribution} {origin.version}\n".encode())
        packages = {_package(extension.factory) for extension in record.extensions}
        for package in sorted(packages):
            digest.update(f"{package} {_package_digest(package)}\n".encode())
    for path in map(Path, plugin_settings()["files"]):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def run_key(
    code: str, config: SimulationConfig, deployment: Deployment, files: dict[str, str]
) -> str:
    """The key of a run. ``files`` are digests by role; options that name a file count by those."""
    options = {
        name: value
        for name, value in attrs.asdict(config).items()
        if name not in _IGNORED and name not in files and name != _FILES_BY_CONTENT
    }
    parts = {
        "code": code,
        "command": "replay" if config.replays else "run",
        "options": options,
        "files": files,
        "deployment": attrs.asdict(deployment, filter=lambda field, _: field.name != "resolution"),
    }
    text = json.dumps(parts, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _package(factory: Any) -> str:
    """The top-level package of an extension."""
    address = factory if isinstance(factory, str) else getattr(factory, "__module__", "") or ""
    return address.partition(":")[0].partition(".")[0]


@cache
def _package_digest(package: str) -> str:
    """A digest of all files of an installed package."""
    found = find_spec(package)
    digest = hashlib.sha256()
    if found is None:
        return ""
    roots = [Path(folder) for folder in found.submodule_search_locations or ()]
    files = [(file, file.relative_to(root)) for root in roots for file in root.rglob("*")]
    if not roots and found.origin is not None:
        files = [(Path(found.origin), Path(found.name))]
    for file, name in sorted(files):
        if file.is_file() and "__pycache__" not in name.parts:
            contents = file.read_bytes()
            digest.update(f"{name.as_posix()} {len(contents)}\n".encode() + contents)
    return digest.hexdigest()
