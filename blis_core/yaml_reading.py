"""Reads YAML without guessing at types.

What a scalar means is decided later, by the type of the field it lands in, as in Go's yaml.v3 and
not by its looks: ``on`` is text in a text field and true in a boolean one, ``0012`` keeps its zeros
in a text field. So :func:`load_yaml` returns every scalar as a :class:`Scalar`, and the ``to_*``
functions convert one (or a plain Python value).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from blis_core import compact_json
from blis_core.errors import BlisError

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_YES = frozenset(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"))
_NO = frozenset(("n", "N", "no", "No", "NO", "off", "Off", "OFF"))
_INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN = frozenset((".nan", ".NaN", ".NAN"))
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)", re.ASCII)
_MAX_INT = 2**63 - 1

_TAG = "tag:yaml.org,2002:"
_TEXT_TAG = _TAG + "str"
_NULL_TAG = _TAG + "null"
_MERGE_TAG = _TAG + "merge"
_TYPED_TAGS = frozenset(_TAG + name for name in ("int", "float", "bool"))


class Scalar(str):
    """The text of a YAML scalar, which is also its value in a text field."""

    __slots__ = ("line", "quoted")

    quoted: bool
    """Written as text (quotes, block style or ``!!str``), so never a number."""
    line: int
    """1-based line in the source; 0 = unknown."""

    def __new__(cls, text: str, quoted: bool = False, line: int = 0) -> Scalar:
        scalar = super().__new__(cls, text)
        scalar.quoted = quoted
        scalar.line = line
        return scalar


# ------------------------------------------------------------------------------------- loading


def load_yaml(text: str | bytes, source: str) -> Any:
    """The first document of ``text`` as dicts, lists, :class:`Scalar` and None.

    BlisError, naming ``source`` and the line, for a syntax error, a duplicate key, a key that is
    not a scalar, or an empty document.
    """
    encoded = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    compact = compact_json.load(encoded, Scalar)
    if compact is not None:
        return compact
    import yaml

    try:
        loader = _loader_class()(text)
        try:
            node = loader.get_node() if loader.check_node() else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        where = f", line {mark.line + 1}" if mark else ""
        what = " ".join(part for part in (problem.context, problem.problem) if part)
        raise BlisError(f"{source}{where}: YAML syntax error: {what}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        reason = " ".join(str(problem).split())
        raise BlisError(f"{source}: YAML syntax error: {reason}") from None
    if node is None:
        raise BlisError(f"{source}: the file is empty; write at least one key")
    return _Builder(source).build(node)


def read_yaml(path: str, what: str) -> Any:
    """:func:`load_yaml` of a file; ``what`` says in an error what kind of file it is."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as problem:
        raise BlisError(f"cannot read {what} {path}: {problem.strerror or problem}") from None
    return load_yaml(text, path)


@cache
def _loader_class() -> Any:
    """A node loader without YAML 1.1's guesses at types; libyaml's where there is one."""
    import yaml

    class Unresolved:
        """Leaves the tag of an untagged plain scalar empty."""

        def resolve(self, kind: type, value: Any, implicit: Any) -> str | None:
            plain = kind is yaml.ScalarNode and implicit[0]
            return None if plain else _TEXT_TAG

        def descend_resolver(self, parent: Any, index: Any) -> None:
            """Nothing to keep track of."""

        def ascend_resolver(self) -> None:
            """Nothing to keep track of."""

    if yaml.__with_libyaml__:
        from yaml._yaml import CParser

        class FastLoader(Unresolved, CParser):
            """libyaml's parser and composer."""

            def dispose(self) -> None:
                """Nothing to free by hand."""

        return FastLoader

    from yaml.composer import Composer
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class SlowLoader(Unresolved, Reader, Scanner, Parser, Composer):
        """The same in Python."""

        def __init__(self, stream: Any) -> None:
            Reader.__init__(self, stream)
            Scanner.__init__(self)
            Parser.__init__(self)
            Composer.__init__(self)

    return SlowLoader


class _Builder:
    """Turns YAML nodes into plain data."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._done: dict[int, Any] = {}  # by node, because aliases share nodes
        self._open: set[int] = set()

    def build(self, node: Any) -> Any:
        """The value of ``node``."""
        if node.id == "scalar":
            return self._scalar(node)
        key = id(node)
        if key in self._done:
            return self._done[key]
        if key in self._open:
            raise self._error(node, "an alias must not contain itself")
        self._open.add(key)
        value: Any
        if node.id == "sequence":
            value = [self.build(item) for item in node.value]
        else:
            value = self._mapping(node)
        self._open.remove(key)
        self._done[key] = value
        return value

    def _scalar(self, node: Any) -> Scalar | None:
        tag, text = node.tag, node.value
        if (tag is None and text in _NULLS) or tag == _NULL_TAG:
            return None
        return Scalar(text, tag is not None and tag not in _TYPED_TAGS, node.start_mark.line + 1)

    def _mapping(self, node: Any) -> dict[str, Any]:
        value: dict[str, Any] = {}
        merges = []
        for key, item in node.value:
            if key.id != "scalar":
                raise self._error(key, "a key must be plain text")
            if key.value == "<<" and key.tag in (None, _MERGE_TAG):
                merges.append(item)
                continue
            if key.value in value:
                raise self._error(key, f"key {key.value!r} is given twice; remove one")
            value[Scalar(key.value, line=key.start_mark.line + 1)] = self.build(item)
        for item in merges:
            for part in item.value if item.id == "sequence" else [item]:
                merged = self.build(part)
                if not isinstance(merged, dict):
                    raise self._error(part, "'<<' merges mappings only")
                for name, inherited in merged.items():
                    value.setdefault(name, inherited)
        return value

    def _error(self, node: Any, problem: str) -> BlisError:
        return BlisError(f"{self._source}, line {node.start_mark.line + 1}: {problem}")


# --------------------------------------------------------------------------- scalar conversion


def resolve(scalar: Scalar) -> str | int | float | bool | None:
    """What an untyped reader makes of ``scalar``: the Go rules, without a target type."""
    text = str(scalar)
    if scalar.quoted:
        return text
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    digits = text.replace("_", "") if text[:1] in "+-0123456789" else text
    if _INTEGER.fullmatch(digits):
        whole = _to_integer(digits)
        if -(2**63) <= whole < 2**64:
            return whole
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        return text if math.isinf(value) else value
    if infinite := _INFINITE.fullmatch(text):
        return -math.inf if infinite[1] == "-" else math.inf
    return math.nan if text in _NAN else text


def _to_integer(digits: str) -> int:
    body = digits.lstrip("+-")
    octal = len(body) > 1 and body[0] == "0" and body[1].isdigit()
    whole = int(body, 8) if octal else int(body, 0)
    return -whole if digits[0] == "-" else whole


def plain(value: Any) -> Any:
    """``value`` with every :class:`Scalar` resolved without a target type."""
    if isinstance(value, Scalar):
        return resolve(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def to_int(value: Any) -> int:
    """An int64: integers, and floats without their fraction. ValueError otherwise."""
    number = resolve(value) if isinstance(value, Scalar) else value
    if isinstance(number, float) and math.isfinite(number):
        number = int(number)
    if isinstance(number, int) and not isinstance(number, bool):
        if abs(number) <= _MAX_INT or number == -_MAX_INT - 1:
            return number
        raise ValueError(f"{shown(value)} is beyond the range of a 64-bit integer")
    raise ValueError(f"must be a whole number, not {shown(value)}")


def to_float(value: Any) -> float:
    """A float: integers and floats, ``.inf`` and ``.nan`` included. ValueError otherwise."""
    number = resolve(value) if isinstance(value, Scalar) else value
    if isinstance(number, int | float) and not isinstance(number, bool):
        return float(number)
    raise ValueError(f"must be a number, not {shown(value)}")


def to_bool(value: Any) -> bool:
    """A boolean: true/false unquoted, yes/no/on/off and the like quoted or not. ValueError
    otherwise."""
    truth = resolve(value) if isinstance(value, Scalar) else value
    if isinstance(truth, bool):
        return truth
    if isinstance(value, Scalar) and (value in _YES or value in _NO):
        return value in _YES
    raise ValueError(f"must be true or false, not {shown(value)}")


def to_str(value: Any) -> str:
    """Text, exactly as written. ValueError for anything but a scalar."""
    if isinstance(value, str):
        return str(value)
    raise ValueError(f"must be text, not {shown(value)}")


def shown(value: Any) -> str:
    """``value`` for an error message."""
    if isinstance(value, Scalar):
        return f'"{value}" (text)' if value.quoted else f"{value!s:.60}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "nothing" if value is None else repr(value)
