"""Entry points of the installed distributions, as importlib.metadata finds them, but sooner.

Importing importlib.metadata brings email, zipfile and socket with it and would be the largest part
of the start-up of ``blis``. The files that it reads are a documented format, so for ordinary
directories on ``sys.path`` they are read here; for anything else it is asked after all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from typing import NamedTuple


class EntryPoint(NamedTuple):
    """One line of a distribution's ``entry_points.txt``."""

    name: str
    value: str
    distribution: str
    version: str

    def load(self) -> object:
        """Import what the entry point refers to."""
        module, _, attributes = self.value.partition("[")[0].partition(":")
        if not module.strip():
            raise ValueError(f"malformed entry point {self.name!r}")
        target: object = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            target = getattr(target, attribute)
        return target


def normalise(name: str) -> str:
    """A distribution's name in the form in which names are compared."""
    name = name.strip().lower().replace("_", "-").replace(".", "-")
    while "--" in name:
        name = name.replace("--", "-")
    return name


def entry_points(group: str) -> list[EntryPoint]:
    """Entry points of ``group``; a distribution earlier on the path hides a later namesake."""
    # Directories only, and no import hook that brings distributions of its own.
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    ordinary = finders == [PathFinder] and not any(os.path.isfile(path) for path in sys.path)
    return list(_from_directories(group) if ordinary else _from_metadata(group))


def _from_directories(group: str) -> Iterator[EntryPoint]:
    seen = set()
    for path in sys.path:
        try:
            names = os.listdir(path or ".")
        except OSError:
            continue  # importing ignores such places as well
        for name in sorted(n for n in names if n.endswith((".dist-info", ".egg-info"))):
            stem, _, version = name.rpartition(".")[0].partition("-")
            if (key := normalise(stem)) in seen:
                continue
            seen.add(key)
            folder = os.path.join(path, name)
            points = _parse(_read(os.path.join(folder, "entry_points.txt")), group)
            if points:
                headers = _read(os.path.join(folder, "METADATA")) or _read(
                    os.path.join(folder, "PKG-INFO")
                )
                distribution = _header(headers, "Name") or stem
                version = _header(headers, "Version") or version.partition("-")[0]
                for point, value in points:
                    yield EntryPoint(point, value, distribution, version)


def _from_metadata(group: str) -> Iterator[EntryPoint]:
    from importlib.metadata import distributions

    seen = set()
    for distribution in distributions():
        name = distribution.metadata["Name"] or ""
        if normalise(name) in seen:
            continue
        seen.add(normalise(name))
        for point, value in _parse(distribution.read_text("entry_points.txt") or "", group):
            yield EntryPoint(point, value, name, distribution.version)


def _parse(text: str, group: str) -> list[tuple[str, str]]:
    """(name, value) of the lines in a section; a line without ``=`` has an empty value."""
    found = []
    section = ""
    if f"[{group}]" in text:  # few distributions have any
        for line in map(str.strip, text.splitlines()):
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1].strip()
            elif section == group and line and not line.startswith("#"):
                name, _, value = line.partition("=")
                found.append((name.strip(), value.strip()))
    return found


def _header(text: str, name: str) -> str:
    for line in text.partition("\n\n")[0].split("\n"):
        if line.startswith(f"{name}:"):
            return line[len(name) + 1 :].strip(" \t\r")
    return ""


def _read(path: str) -> str:
    """Contents of a file, "" if it cannot be read."""
    if not os.access(path, os.R_OK):  # the common case, and sooner said than an error is raised
        return ""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
