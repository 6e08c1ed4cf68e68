"""The files that a simulation reads, and what stands for their contents.

They are the files that options name, those that stand beside the defaults file without being
named, and folders that a YAML file refers to with a key ``path`` (ServeGen data).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from blis_core.api import BlisError, read_yaml
from blis_sweep.options import Options

FILE_OPTIONS: Final = (
    "hardware_config",
    "latency_profile",
    "model_config_folder",
    "policy_config",
    "trace_data",
    "trace_header",
    "workload_spec",
)
"""Options that name a file or a folder to read; ``defaults_filepath`` has a usual place as well."""
_BESIDE_DEFAULTS: Final = ("hardware_config.json", "model_configs")
_YAML: Final = (".yaml", ".yml")


def with_absolute_paths(options: Options) -> Options:
    """``options`` that mean the same in whatever folder they are used."""
    found = {
        name: str(Path(value).absolute()) if name in FILE_OPTIONS and value else value
        for name, value in options.items()
    }
    defaults = _defaults_file(options)
    if options.get("defaults_filepath") or defaults.exists():  # else the built-in ones are meant
        found["defaults_filepath"] = str(defaults)
    return found


def _defaults_file(options: Options) -> Path:
    return Path(options.get("defaults_filepath") or "defaults.yaml").absolute()


class Inputs:
    """Digests of files, each read once, and whether they have changed since."""

    def __init__(self) -> None:
        self._digests: dict[Path, str] = {}
        self._states: dict[Path, object] = {}
        self._referred: dict[Path, list[Path]] = {}

    def digests(self, options: Options) -> dict[str, str]:
        """Digest by role of everything that a simulation with these options reads.

        BlisError for a YAML file that cannot be read.
        """
        found: dict[str, str] = {}
        defaults = _defaults_file(options)
        named = {name: Path(options[name]) for name in FILE_OPTIONS if options.get(name)}
        named["defaults_filepath"] = defaults
        named |= {name: defaults.with_name(name) for name in _BESIDE_DEFAULTS}
        for role, path in named.items():
            if path.exists():
                found[role] = self._digest(path)
                for number, other in enumerate(self._references(path)):
                    found[f"{role}.{number}"] = self._digest(other)
        return found

    def __contains__(self, path: Path) -> bool:
        """Whether a file has been read."""
        return path.absolute() in map(Path.absolute, self._states)

    def changed(self) -> Path | None:
        """A file that is no longer as it was when it was read; None if there is none."""
        for path, state in self._states.items():
            if _state(path) != state:
                return path
        return None

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            digest = hashlib.sha256()
            for file in _files(path):
                self._states[file] = _state(file)
                try:
                    contents = file.read_bytes()
                except OSError as problem:
                    raise BlisError(f"cannot read {file}: {problem.strerror or problem}") from None
                digest.update(f"{file.relative_to(path)} {len(contents)}\n".encode())
                digest.update(contents)
            self._digests[path] = digest.hexdigest()
        return self._digests[path]

    def _references(self, path: Path) -> list[Path]:
        """What the values of keys ``path`` in a YAML file name, if it is there."""
        if path.suffix.lower() not in _YAML or not path.is_file():
            return []
        if path not in self._referred:
            named = map(Path, _values_of_path(read_yaml(str(path), "input file")))
            self._referred[path] = [other for other in named if other.exists()]
        return self._referred[path]


def _files(path: Path) -> list[Path]:
    """A file itself, or all files in a folder."""
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _state(path: Path) -> object:
    """What changes when a file is written."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _values_of_path(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "path" and isinstance(item, str) and item:
                yield item
            yield from _values_of_path(item)
    elif isinstance(value, list):
        for item in value:
            yield from _values_of_path(item)
