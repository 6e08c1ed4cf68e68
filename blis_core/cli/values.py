"""Click types for flag values in the reference's syntax."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from blis_core.go_text import parse_bool, parse_float, parse_floats, parse_int
from blis_core.option import ValueKind

__all__ = [
    "BOOL",
    "FLOAT",
    "FLOATS",
    "INT",
    "TEXT",
    "TYPES",
    "GoValue",
    "parse_bool",
    "parse_float",
    "parse_floats",
    "parse_int",
]

# Generic for type checkers of some click versions only, so it cannot be subscripted at run time.
if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType


class GoValue(_ParamType):
    """A click type around one of the parsers; values that are no text pass unchanged."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; ``click.BadParameter`` if the text is malformed."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def __repr__(self) -> str:
        return f"GoValue({self.name!r})"


INT = GoValue("int", parse_int)
FLOAT = GoValue("float", parse_float)
FLOATS = GoValue("floats", parse_floats)
BOOL = GoValue("bool", parse_bool)
TEXT = GoValue("text", str)

TYPES = {
    ValueKind.INT64: INT,
    ValueKind.INT: INT,
    ValueKind.FLOAT: FLOAT,
    ValueKind.FLOATS: FLOATS,
    ValueKind.TEXT: TEXT,
    ValueKind.TEXTS: TEXT,
    ValueKind.BOOL: BOOL,
}
"""Click type of each kind of option."""
