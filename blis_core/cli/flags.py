"""Flags as the reference reads them, apart from click: importing that takes a tenth of a short run.

The rules (specification 08, section 1) are those of Go's pflag: complete names only, booleans take
a value only with ``=``, every other flag takes the next token whatever it looks like, the last
occurrence wins, lists collect, surplus arguments are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from blis_core.go_text import parse_bool, parse_float, parse_floats, parse_int
from blis_core.option import ValueKind, flags_of

if TYPE_CHECKING:
    from blis_core.cli.options import ConfigCommand

PARSERS: Mapping[ValueKind, Callable[[str], Any]] = {
    ValueKind.INT64: parse_int,
    ValueKind.INT: parse_int,
    ValueKind.FLOAT: parse_float,
    ValueKind.FLOATS: parse_floats,
    ValueKind.TEXT: str,
    ValueKind.TEXTS: str,
    ValueKind.BOOL: parse_bool,
}
"""What reads the text of each kind of option; ValueError if it is malformed."""


class Flag(NamedTuple):
    """What is to be known of a flag to find its values."""

    name: str
    """Under which its values are noted."""
    parse: Callable[[str], Any]
    """Checks one value; ValueError with the reason if it is malformed."""
    switch: bool = False
    """Whether the flag alone means true, so that a value needs ``=``."""
    collects: bool = False
    """Whether all occurrences count."""


class FlagError(ValueError):
    """Something is wrong with the arguments."""


class FlagReader:
    """One pass over the arguments of a command. ``flags`` by what stands on the command line."""

    def __init__(self, flags: Mapping[str, Flag]) -> None:
        self._flags = flags
        self.given: dict[str, list[str]] = {}
        """Texts by name, of the occurrences that count."""
        self.arguments: list[str] = []
        """What is left when flags and their values are taken away."""

    def read(self, args: Sequence[str]) -> None:
        """Take all of ``args``; FlagError at the first thing that is wrong."""
        rest = list(reversed(args))
        while rest:
            token = rest.pop()
            if token == "--":
                self.arguments += reversed(rest)
                return
            if token.startswith("--"):
                self._long(token, rest)
            elif token.startswith("-") and len(token) > 1:
                self._short(token, rest)
            else:
                self.arguments.append(token)

    def _long(self, token: str, rest: list[str]) -> None:
        name, equals, text = token.partition("=")
        if name in ("--", "---") or name.startswith("---"):
            raise FlagError(f"{token!r} is not a flag")
        self._take(name, text if equals else None, rest)

    def _short(self, token: str, rest: list[str]) -> None:
        """One-letter flags, which may be joined (``-ab``)."""
        letters = token[1:]
        while letters:
            name, letters = f"-{letters[0]}", letters[1:]
            flag = self._flags.get(name)
            if letters.startswith("="):
                self._take(name, letters[1:], rest)
                return
            if letters and flag is not None and not flag.switch:
                self._take(name, letters, rest)
                return
            self._take(name, None, rest)

    def _take(self, name: str, text: str | None, rest: list[str]) -> None:
        """Record one occurrence of flag ``name``; without a ``text`` it may use up one of rest."""
        flag = self._flags.get(name)
        if flag is None:
            raise FlagError(f"unknown flag {name}{self._suggestion(name)}")
        if text is None:
            if flag.switch:
                text = "true"
            elif rest:
                text = rest.pop()
            else:
                raise FlagError(f"{name} needs a value")
        # Every occurrence must be well-formed, also one that a later one overrides.
        try:
            flag.parse(text)
        except ValueError as error:
            raise FlagError(f"{name}: {error}") from None
        if flag.collects:
            self.given.setdefault(flag.name, []).append(text)
        else:
            self.given[flag.name] = [text]

    def _suggestion(self, name: str) -> str:
        import difflib

        # without dashes, which would make short names look alike
        names = {known.lstrip("-"): known for known in self._flags if known.startswith("--")}
        bare = name.lstrip("-")
        close = [known for known in names if known.startswith(bare)] if len(bare) > 2 else []
        close = close or difflib.get_close_matches(bare, names, n=1)
        return f"; did you mean {names[close[0]]}?" if close else ""


_Config = TypeVar("_Config")


class QuickCommand(NamedTuple, Generic[_Config]):
    """A command whose options are the fields of a configuration class, and that can do without
    click unless something is to be explained."""

    name: str
    config_class: type[_Config]
    action: Callable[[_Config], int | None]
    """As that of ConfigCommand."""
    help: str

    def __call__(self) -> ConfigCommand[_Config]:
        """The click command, for help and mistakes."""
        from blis_core.cli.options import ConfigCommand

        return ConfigCommand(self.name, self.config_class, self.action, self.help)

    def configuration(self, args: Sequence[str]) -> _Config | None:
        """What ``args`` describe; None if they ask for help, or are not quite right."""
        kinds = flags_of(self.config_class)
        reader = FlagReader(
            {
                flag: Flag(
                    name,
                    PARSERS[kind],
                    kind is ValueKind.BOOL,
                    kind in (ValueKind.TEXTS, ValueKind.FLOATS),
                )
                for flag, (name, kind) in kinds.items()
            }
        )
        try:
            reader.read(args)
        except FlagError:
            return None
        if reader.arguments:
            return None
        values: dict[str, Any] = {}
        for name, kind in kinds.values():
            texts = reader.given.get(name)
            if texts is None:
                continue
            if kind is ValueKind.TEXTS:
                values[name] = tuple(texts)
            else:
                values[name] = PARSERS[kind](",".join(texts))
        return self.config_class(**values)
