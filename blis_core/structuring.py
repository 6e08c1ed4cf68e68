"""Turns plain data into typed configuration, strictly.

YAML comes from :func:`load_yaml`; JSON-like data made in Python (numbers, text, booleans) can be
structured as well. Whatever is wrong becomes a BlisError that names file and path, for example
``spec.yaml: clients[2].arrival.cv: must be a number, not fast (line 14)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import attrs

from blis_core.errors import BlisError
from blis_core.yaml_reading import (
    Scalar,
    load_yaml,
    plain,
    read_yaml,
    shown,
    to_bool,
    to_float,
    to_int,
    to_str,
)

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["Scalar", "load_yaml", "plain", "read_yaml", "structure"]

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]
"""A cattrs structure hook: (value, type) -> structured value."""


def structure(value: Any, cls: type[T], source: str) -> T:
    """``value`` as an instance of the attrs class ``cls`` (or any type of such fields).

    Nulls keep a field's default, vanish from lists, and are zero values in mappings. The YAML key
    of a field is its name, or its ``metadata["key"]``; with None there, no key sets it. Unknown and
    missing keys, and values of another kind, are BlisErrors that name ``source`` and the path.
    """
    try:
        return _converter().structure({} if value is None else value, cls)
    except _FAILURES as problem:
        path, message, line = _first_problem(problem)
        where = f"{source}: {path}: " if path else f"{source}: "
        raise BlisError(f"{where}{message}{f' (line {line})' if line else ''}") from None


class _At(Exception):
    """Adds a list index or a mapping key to the path of ``cause``."""

    def __init__(self, step: str, cause: Exception, value: Any) -> None:
        super().__init__(step)
        self.step = step
        self.cause = cause
        self.line = value.line if isinstance(value, Scalar) else 0


_FAILURES = (_At, BlisError, OverflowError, TypeError, ValueError)
"""What conversions, and the validators of attrs classes, may raise."""


@cache
def _converter() -> Converter:
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True, detailed_validation=False)
    for target, convert in ((int, to_int), (float, to_float), (bool, to_bool), (str, to_str)):
        converter.register_structure_hook(target, _ignoring_type(convert))
    converter.register_structure_hook_func(lambda t: t is Any, _ignoring_type(plain))
    converter.register_structure_hook_factory(
        lambda t: _origin(t) in (list, tuple), lambda t: _list_hook(converter, t)
    )
    converter.register_structure_hook_factory(
        lambda t: _origin(t) is dict, lambda t: _dict_hook(converter, t)
    )
    converter.register_structure_hook_factory(
        lambda t: _origin(t) is Literal, lambda t: _choice_hook(get_args(t))
    )
    converter.register_structure_hook_factory(attrs.has, lambda t: _class_hook(converter, t))
    return converter


def _origin(target: Any) -> Any:
    return get_origin(target)


def _ignoring_type(convert: Callable[[Any], Any]) -> Hook:
    return lambda value, _: convert(value)


def _choice_hook(choices: tuple[Any, ...]) -> Hook:
    """Structures ``Literal["a", "b"]``."""

    def hook(value: Any, _: Any) -> str:
        text = to_str(value)
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {shown(value)}")
        return text

    return hook


def _list_hook(converter: Converter, target: Any) -> Hook:
    """Structures ``list[X]`` and ``tuple[X, ...]``."""
    item_type, make = get_args(target)[0], get_origin(target)

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError(f"must be a list, not {shown(value)}")
        items = []
        for index, item in enumerate(value):
            if item is None:
                continue
            try:
                items.append(converter.structure(item, item_type))
            except _FAILURES as problem:
                raise _At(f"[{index}]", problem, item) from None
        return make(items)

    return hook


def _dict_hook(converter: Converter, target: Any) -> Hook:
    """Structures ``dict[str, X]``."""
    item_type = get_args(target)[1]

    def hook(value: Any, _: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"must be a mapping, not {shown(value)}")
        items = {}
        for key, item in value.items():
            try:
                if item is None:
                    items[str(key)] = _zero(item_type)
                else:
                    items[str(key)] = converter.structure(item, item_type)
            except _FAILURES as problem:
                raise _At(f".{key}", problem, item) from None
        return items

    return hook


def _zero(target: Any) -> Any:
    """What a null stands for in a mapping."""
    return target() if isinstance(target, type) else None


def _class_hook(converter: Converter, cls: Any) -> Hook:
    """Structures an attrs class from a mapping with exactly its keys."""
    fields = {field.metadata.get("key", field.name): field for field in _fields(cls)}
    types: dict[str, Any] = {key: field.type for key, field in fields.items()}
    required = [key for key, field in fields.items() if field.default is attrs.NOTHING]

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError(f"must be a mapping, not {shown(value)}")
        arguments: dict[str, Any] = {}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                raise _At("", ValueError(_unknown_key(str(key), list(fields))), key)
            if item is None:
                continue
            try:
                arguments[str(field.alias)] = converter.structure(item, types[key])
            except _FAILURES as problem:
                raise _At(f".{key}", problem, item) from None
        for key in required:
            if fields[key].alias not in arguments:
                raise ValueError(f"key {key!r} is missing")
        return cls(**arguments)

    return hook


def _fields(cls: Any) -> tuple[attrs.Attribute[Any], ...]:
    """The constructor fields of an attrs class, with their types resolved."""
    fields = attrs.fields(attrs.resolve_types(cls))
    return tuple(f for f in fields if f.init and f.metadata.get("key", f.name) is not None)


def _unknown_key(key: str, known: list[str]) -> str:
    from difflib import get_close_matches

    by_lower_case = {name.lower(): name for name in known}
    close = get_close_matches(key.lower(), by_lower_case, 1)
    hint = f"known keys: {', '.join(sorted(known))}"
    if close:
        hint = f"did you mean {by_lower_case[close[0]]!r}?"
    elif "params" in known:
        hint += " (what a type asks for stands in params)"
    return f"unknown key {key!r}; {hint}"


def _first_problem(problem: BaseException) -> tuple[str, str, int]:
    """(path, message, line) of a failure."""
    path, line = "", 0
    while isinstance(problem, _At):
        path += problem.step
        line = problem.line or line
        problem = problem.cause
    return path.removeprefix("."), str(problem) or type(problem).__name__, line
