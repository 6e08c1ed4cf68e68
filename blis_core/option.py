"""How an option is declared: once, as a field of a configuration class.

The command line, the reference pages and the library's own checks all read the
:class:`OptionSpec` that :func:`option` leaves in the field's metadata.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

import attrs

from blis_core.errors import BlisError, did_you_mean
from blis_core.records import Record

_KEY = "option"


class ValueKind(Enum):
    """ValueKind of an option's value; the name says how its text is read on the command line."""

    INT64 = "int64"
    INT = "int"
    FLOAT = "float"
    FLOATS = "floats"
    TEXT = "text"
    TEXTS = "texts"
    """Text that may be given several times."""
    BOOL = "bool"

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return self in (ValueKind.INT64, ValueKind.INT)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OptionSpec(Record):
    """One option: its flag, how its value is read, what it means and what is allowed."""

    name: str
    """Field name; the flag is the same with dashes, without one at the end."""
    kind: ValueKind
    section: str
    """Heading under which help and reference pages list the option."""
    help: str
    default: Any
    """Value of the field when the option is not given; None = tell "not given" apart."""
    implied: Any
    """What is in effect when the option is not given (text if it depends on other things)."""
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """For example ``--num-requests``."""
        return _flag(self.name)

    @property
    def range_text(self) -> str:
        """The allowed values in words; empty if anything goes."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        bounds = [
            f"{word} {limit:g}"
            for word, limit in (
                ("at least", self.at_least),
                ("greater than", self.above),
                ("at most", self.at_most),
            )
            if limit is not None
        ]
        return " and ".join(bounds)

    def check(self, value: Any) -> None:
        """Raise BlisError unless ``value`` has the right type and lies in the allowed range."""
        self.check_type(value)
        self.check_range(value)

    def check_type(self, value: Any) -> None:
        """Raise BlisError unless ``value`` has the right type."""
        if value is None and self.default is None:
            return
        if not _TYPES[self.kind](value):
            raise BlisError(f"{self.flag}: {_NOUNS[self.kind]} is needed, not {value!r}")
        if self.kind.whole and not -(2**63) <= value < 2**63:
            raise BlisError(f"{self.flag}: {value} does not fit into 64 bits")

    def check_range(self, value: Any) -> None:
        """Raise BlisError unless ``value`` (of the right type) lies in the allowed range."""
        if value is None:
            return
        if self.choices and value not in self.choices:
            raise self.error(value)
        # Written so that NaN fails every bound.
        if (
            (self.at_least is not None and not value >= self.at_least)
            or (self.above is not None and not value > self.above)
            or (self.at_most is not None and not value <= self.at_most)
        ):
            raise self.error(value)

    def error(self, value: Any, rule: str = "") -> BlisError:
        """The error for a value outside the allowed range (or against another ``rule``)."""
        shown = repr(value) if isinstance(value, str) else f"{value}"
        hint = did_you_mean(value, self.choices) if isinstance(value, str) else ""
        return BlisError(f"{self.flag}: must be {rule or self.range_text}, got {shown}{hint}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: dict[ValueKind, Callable[[Any], bool]] = {
    ValueKind.INT64: lambda v: isinstance(v, int) and not isinstance(v, bool),
    ValueKind.INT: lambda v: isinstance(v, int) and not isinstance(v, bool),
    ValueKind.FLOAT: _is_number,
    ValueKind.FLOATS: lambda v: isinstance(v, tuple) and all(map(_is_number, v)),
    ValueKind.TEXT: lambda v: isinstance(v, str),
    ValueKind.TEXTS: lambda v: isinstance(v, tuple) and all(isinstance(t, str) for t in v),
    ValueKind.BOOL: lambda v: isinstance(v, bool),
}

_NOUNS = {
    ValueKind.INT64: "a whole number",
    ValueKind.INT: "a whole number",
    ValueKind.FLOAT: "a number",
    ValueKind.FLOATS: "a list of numbers",
    ValueKind.TEXT: "a text",
    ValueKind.TEXTS: "a list of texts",
    ValueKind.BOOL: "true or false",
}


def finite_positive(value: float) -> bool:
    """Whether ``value`` is neither NaN nor infinite, and above 0."""
    return math.isfinite(value) and value > 0


def option(
    kind: ValueKind,
    section: str,
    default: Any,
    help: str,
    *,
    implied: Any = None,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    convert: Callable[[Any], Any] | None = None,
) -> Any:
    """A field of a configuration class that is an option at the same time.

    ``implied`` is what is in effect when the option is not given, if that differs from
    ``default``. The bounds and ``choices`` are checked whenever the option has a value.
    """
    declared = {
        "kind": kind,
        "section": section,
        "help": help,
        "default": default,
        "implied": default if implied is None else implied,
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
        "choices": choices,
    }
    return attrs.field(default=default, converter=convert, metadata={_KEY: declared})


def _flag(name: str) -> str:
    return "--" + name.rstrip("_").replace("_", "-")


def flags_of(config_class: type) -> dict[str, tuple[str, ValueKind]]:
    """Name and kind of every option of a configuration class, by flag."""
    return {
        _flag(field.name): (field.name, field.metadata[_KEY]["kind"])
        for field in attrs.fields(config_class)
        if _KEY in field.metadata
    }


_known: dict[type, tuple[OptionSpec, ...]] = {}


def options_of(config_class: type) -> tuple[OptionSpec, ...]:
    """Every option of a configuration class, in order of declaration."""
    found = _known.get(config_class)
    if found is None:
        found = _known[config_class] = tuple(
            OptionSpec(name=field.name, **field.metadata[_KEY])
            for field in attrs.fields(config_class)
            if _KEY in field.metadata
        )
    return found
