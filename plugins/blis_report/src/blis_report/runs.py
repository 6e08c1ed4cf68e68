"""The recordings that a command is given, by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs

from blis_core.api import BlisError, Recording, read_recording


@attrs.frozen(eq=False)
class Run:
    """A recorded run."""

    name: str
    """As it is called in the report."""
    path: str
    recording: Recording


def load_runs(arguments: Iterable[str]) -> list[Run]:
    """The runs of some arguments, ``FILE`` or ``NAME=FILE`` each.

    A file without a name is called like itself. BlisError if two names are equal.
    """
    named: dict[str, str] = {}
    for argument in arguments:
        name, path = split_name(argument)
        if name in named:
            raise BlisError(
                f"{argument}: there is a run called {name} already ({named[name]}); name them, as"
                f" in one={named[name]} two={path}"
            )
        named[name] = path
    return [Run(name, path, read_recording(path)) for name, path in named.items()]


def split_name(argument: str) -> tuple[str, str]:
    """Name and path of a run."""
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).exists():
        return Path(argument).stem, argument
    if not name or not path:
        raise BlisError(f"{argument}: expected FILE or NAME=FILE")
    return name, path
