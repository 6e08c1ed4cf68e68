"""Rows of bars."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blis_core.results.sparks import BARS, bars, distribution, time_line


def test_bars() -> None:
    assert bars([0, 1, 2, 4, 8]) == " ▁▂▄█"
    assert bars([0, 0]) == "  "
    assert bars([]) == ""


def test_a_distribution_ends_with_p99() -> None:
    assert distribution([1, 1, 1, 2], 4) == "█  ▃"
    assert distribution([5], 3) == "█  "
    assert distribution([], 3) == ""
    many = [*range(1000), 10**9]
    assert distribution(many, 5) == "█████"
    assert distribution([1, 2, 3], 2, weights=[1, 0, 3]) == "▃█"
    assert distribution([1], 2, weights=[0]) == ""


def test_a_time_line() -> None:
    assert time_line([0.5, 1.5, 1.6, 3.9, 4.0], 4.0, 4) == "▄█ █"
    assert time_line([], 4.0, 4) == time_line([1], 0.0, 4) == ""


@given(st.lists(st.integers(0, 10**12), min_size=1), st.integers(1, 40))
def test_any_values_fit(values: list[int], width: int) -> None:
    for text in (distribution(values, width), time_line(values, 10.0**12, width)):
        assert len(text) == width
        assert set(text) <= {*BARS, " "}
        assert "█" in text
    weights = np.ones(len(values), dtype=np.int64)
    assert distribution(values, width, weights) == distribution(values, width)
