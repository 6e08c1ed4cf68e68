"""Records compare, hash and print like attrs classes with methods of their own."""

from __future__ import annotations

import attrs
import pytest

from blis_core.records import Record


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Point(Record):
    x: int
    y: list[int] = attrs.field(factory=list)
    hidden: int = attrs.field(default=0, repr=False)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Other(Record):
    x: int


def test_equal_values_of_one_class_are_equal():
    assert Point(x=1, y=[2]) == Point(x=1, y=[2])
    assert Point(x=1) != Point(x=2)
    assert Point(x=1, hidden=1) != Point(x=1)
    assert Other(x=1) != Point(x=1)
    assert Other(x=1) != 1


def test_hashes_follow_equality():
    assert len({Other(x=1), Other(x=1), Other(x=2)}) == 2
    with pytest.raises(TypeError):
        hash(Point(x=1))


def test_shows_its_values_but_those_that_are_hidden():
    assert repr(Point(x=1, y=[2], hidden=3)) == "Point(x=1, y=[2])"
