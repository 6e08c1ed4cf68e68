"""Plan files: the options of ``blis plan``, one key each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from blis_core.api import BlisError, ValueKind, read_yaml, structure

_TYPES: Final[Mapping[ValueKind, Any]] = {
    ValueKind.INT: int | None,
    ValueKind.INT64: int | None,
    ValueKind.FLOAT: float | None,
    ValueKind.TEXT: str | None,
    ValueKind.BOOL: bool | None,
    ValueKind.FLOATS: tuple[float, ...] | None,
    ValueKind.TEXTS: Any,
}


def read_plan(path: str, specs: Sequence[Any], lists: Sequence[str]) -> dict[str, Any]:
    """The options in the file ``path``, by name.

    ``specs`` declare the options that there are. Those in ``lists`` are texts in which several
    values stand; the file may have a list or a mapping instead. BlisError, naming key and line, for
    unknown keys and for values of another kind.
    """
    fields = {
        spec.name: attrs.field(
            default=None,
            kw_only=True,
            metadata={"key": spec.name.rstrip("_")},
            type=Any if spec.name in lists else _TYPES[spec.kind],
        )
        for spec in specs
    }
    contents: type[Any] = attrs.make_class("Plan", fields, frozen=True)
    given = attrs.asdict(structure(read_yaml(path, "plan file"), contents, path), recurse=False)
    return {
        name: _joined(path, name.rstrip("_"), value) if name in lists else value
        for name, value in given.items()
        if value is not None
    }


def _joined(path: str, key: str, value: Any) -> str:
    """A text for a list or a mapping."""
    if isinstance(value, Mapping):
        parts = [f"{_single(path, key, k)}={_single(path, key, v)}" for k, v in value.items()]
    elif isinstance(value, list | tuple):
        parts = [_single(path, key, item) for item in value]
    else:
        return _single(path, key, value)
    if not parts:
        raise BlisError(f"{path}: {key}: is empty; give at least one value, or leave it out")
    return ",".join(parts)


def _single(path: str, key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BlisError(f"{path}: {key}: must be a text, a number or a list of them, not {value!r}")
    return f"{value:g}" if isinstance(value, float) else str(value)
