"""Numbers and tables for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_sweep.text import aligned, number


@pytest.mark.parametrize(
    ("value", "like", "text"),
    [
        (0, None, "0.00"),
        (-0.0, None, "0.00"),
        (5, None, "5.00"),
        (0.65, None, "0.650"),
        (-0.00144, None, "-0.00144"),
        (1e-12, None, "0.000000"),
        (12.34, None, "12.3"),
        (1234.5, None, "1,234"),
        (0.31, 8.8, "0.31"),
        (0.02, 16799.4, "0"),
        (12.5, 0.5, "12.500"),
    ],
)
def test_numbers(value, like, text):
    assert number(value, like) == text


@given(st.floats(-1e9, 1e9))
def test_numbers_are_near_their_values(value):
    shown = float(number(value).replace(",", ""))
    assert shown == pytest.approx(value, rel=0.006, abs=5e-7)
    assert number(-value).lstrip("-") == number(value).lstrip("-")


def test_a_table():
    rows = [["a", "1"], ["bcd", "22.5"]]
    assert aligned([["name", "x"], ["", "ms"]], rows, words=1) == (
        "name     x\n        ms\n──────────\na        1\nbcd   22.5"
    )
