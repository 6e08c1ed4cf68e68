"""The options of the command that is swept: their names, and how their values are read.

Names are written as on the command line (``num-instances``) or as in Python (``num_instances``).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

import click

from blis_core.api import (
    BlisError,
    ConfigCommand,
    ReplayConfig,
    RunConfig,
    SimulationConfig,
    ValueKind,
    structure,
)

Command = Literal["run", "replay"]
Options = dict[str, Any]
"""Values by option name; None = as if the option were not given."""

WRITES_A_FILE: Final = ("metrics_path", "record", "results_path", "trace_output")
WITHOUT_MEANING: Final = ("output", "log")
SEED: Final = "seed"

_TYPES: Final[Mapping[ValueKind, Any]] = {
    ValueKind.FLOAT: float,
    ValueKind.FLOATS: list[float],
    ValueKind.TEXT: str,
    ValueKind.TEXTS: list[str],
    ValueKind.BOOL: bool,
}


class OptionTable:
    """The options of ``blis run`` or ``blis replay``."""

    def __init__(self, command: Command) -> None:
        self.command: Command = command
        self.config_class: type[SimulationConfig] = RunConfig if command == "run" else ReplayConfig
        self._parser = ConfigCommand(command, self.config_class, lambda _: None, help="")
        self.specs = {spec.name: spec for spec in self._parser.specs}

    def config(self, options: Options) -> SimulationConfig:
        """The configuration that ``options`` describe, unchecked."""
        return self.config_class(**options)

    def name(self, text: str, where: str) -> str:
        """The field name of an option; BlisError, naming ``where``, if there is no such option."""
        name = str(text).strip().removeprefix("--").replace("-", "_")
        if name not in self.specs:
            close = difflib.get_close_matches(name, self.specs, n=1)
            hint = f"; did you mean {flag(close[0])}?" if close else ""
            raise BlisError(f"{where}: blis {self.command} has no option {text}{hint}")
        if name in WRITES_A_FILE:
            raise BlisError(f"{where}: {flag(name)} writes a file for one run; leave it out")
        return name

    def arguments(self, words: Sequence[str], where: str) -> Options:
        """The options that a command line gives."""
        try:
            context = self._parser.make_context(self.command, list(words))
        except click.UsageError as problem:
            raise BlisError(f"{where}: {problem.format_message()}") from None
        given = {name: v for name, v in context.params.items() if v is not None and v != ()}
        return {self.name(name, where): v for name, v in given.items()}

    def parse(self, name: str, text: str, where: str) -> Any:
        """The value of option ``name`` that ``text`` stands for on the command line."""
        return self.arguments([f"{self.specs[name].flag}={text}"], where)[name]

    def value(self, name: str, value: Any, source: str, path: str) -> Any:
        """The value of option ``name`` that stands in a file, or was made in Python.

        BlisError, naming the file (``source``) and the place in it (``path``), for one of another
        kind.
        """
        if value is None:
            return None
        kind = self.specs[name].kind
        if kind.whole:
            number = _structured(value, Any, source, path)
            if isinstance(number, bool) or not isinstance(number, int):
                whole = isinstance(number, float) and number.is_integer()
                if not whole:
                    raise BlisError(f"{source}: {path}: must be a whole number, not {number}")
                number = int(number)
            return number
        if kind in (ValueKind.FLOATS, ValueKind.TEXTS):
            if isinstance(value, str):
                return self.parse(name, value, f"{source}: {path}")
            if isinstance(value, Mapping):
                value = [f"{key}={item}" for key, item in value.items()]
            return tuple(_structured(value, _TYPES[kind], source, path))
        return _structured(value, _TYPES[kind], source, path)


@cache
def option_table(command: Command) -> OptionTable:
    """The options of a command, made once."""
    return OptionTable(command)


def flag(name: str) -> str:
    """For example ``num-instances``, as options are called in a sweep."""
    return name.rstrip("_").replace("_", "-")


def shown(value: Any) -> str:
    """The value of an option as text."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, tuple):
        return ",".join(map(shown, value))
    return str(value)


def merged(*layers: Options) -> Options:
    """``layers`` on top of one another; a None takes away what lies below."""
    found: Options = {}
    for layer in layers:
        found.update(layer)
    return {name: value for name, value in found.items() if value is not None}


def _structured(value: Any, kind: Any, source: str, path: str) -> Any:
    return structure({path: value}, dict[str, kind], source)[path]
