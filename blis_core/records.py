"""Value semantics of attrs classes, without code made for each of them."""

from __future__ import annotations

from typing import Any


class Record:
    """Base of attrs classes that are declared with ``eq=False, repr=False``.

    They compare, hash and print by value like any other attrs class. That attrs compiles methods
    of their own for a hundred classes would be a tenth of the time that a short run takes.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash((type(self), *_values(self)))

    def __repr__(self) -> str:
        names = [field.name for field in _fields(self) if field.repr]
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({shown})"


def _fields(record: object) -> Any:
    return getattr(type(record), "__attrs_attrs__")  # noqa: B009


def _values(record: object) -> list[Any]:
    return [getattr(record, field.name) for field in _fields(record) if field.eq]
