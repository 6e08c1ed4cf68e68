"""Reads JSON on a single line, which is YAML, too, several times faster than a YAML parser does.

Programs write their files that way. The result is what :func:`blis_core.yaml_reading.load_yaml`
makes of the same text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_LONGEST_KEY = 500  # YAML has a limit, too


def load(text: bytes, scalar: Callable[[str, bool, int], str]) -> dict[str, Any] | None:
    """The mapping ``text``, with ``scalar(text, quoted, line)`` for each scalar.

    None if it is anything else, or anything that the two formats may not agree about: escapes,
    tabs, other characters than ASCII, keys that repeat.
    """
    text = text.strip(b"\n")
    if not text.startswith(b"{") or b"\\" in text or b"\t" in text or b"\n" in text:
        return None
    if b"\r" in text or b"\x7f" in text or not text.isascii():
        return None

    def plain(number: str) -> str:
        return scalar(number, False, 1)

    try:
        return _Document(scalar).mapping(
            json.loads(
                text,
                parse_int=plain,
                parse_float=plain,
                parse_constant=_refuse,
                object_pairs_hook=_Pairs,
            )
        )
    except (ValueError, RecursionError):
        return None


class _Pairs(list[tuple[str, Any]]):
    """Members of an object, to be told from a list."""


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


class _Document:
    """Turns what the parser found into plain data."""

    def __init__(self, scalar: Callable[[str, bool, int], str]) -> None:
        self._scalar = scalar

    def mapping(self, pairs: _Pairs) -> dict[str, Any]:
        """An object; ValueError if a key repeats or is too long."""
        value = {self._scalar(key, False, 1): self._value(item) for key, item in pairs}
        if len(value) < len(pairs) or any(len(key) > _LONGEST_KEY for key in value):
            raise ValueError("not a mapping of YAML")
        return value

    def _value(self, item: Any) -> Any:
        if isinstance(item, _Pairs):
            return self.mapping(item)
        if isinstance(item, list):
            return [self._value(part) for part in item]
        if isinstance(item, bool):
            return self._scalar("true" if item else "false", False, 1)
        if item is None:
            return None
        # the parser gave numbers their form already
        return item if type(item) is not str else self._scalar(item, True, 1)
