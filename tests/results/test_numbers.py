"""Layout of numbers and text in JSON and in fixed point."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_core.results.numbers import (
    fixed,
    float_text,
    json_text,
    string_text,
)
from blis_core.results.times import us_as_ms, us_as_s


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (56.0, "56"),
        (0.00001, "0.00001"),
        (0.0000015, "0.0000015"),
        (1e-6, "0.000001"),
        (-1.25e-6, "-0.00000125"),
        (9.99e-7, "9.99e-7"),
        (1e-7, "1e-7"),
        (-1e-7, "-1e-7"),
        (1.25e-10, "1.25e-10"),
        (1e-100, "1e-100"),
        (5e-324, "5e-324"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1.2345678901234568e17, "123456789012345680"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e22, "1.5e+22"),
        (-1.5e22, "-1.5e+22"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (15.697231793173275, "15.697231793173275"),
        (10.540000000000001, "10.540000000000001"),
        (0.0001, "0.0001"),
        (123456.789, "123456.789"),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert float_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_read_back_and_have_the_right_layout(value: float) -> None:
    text = float_text(value)
    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    assert ("e" in text) == (value != 0 and not 1e-6 <= abs(value) < 1e21)
    assert re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?(e[+-][1-9]\d*)?", text)


@given(st.one_of(st.integers(-(10**9), 2**63), st.integers(0, 10**7)))
def test_times_need_no_float(us: int) -> None:
    assert us_as_ms(us) == float_text(us / 1000.0)
    assert us_as_s(us) == float_text(us / 1e6)


def test_what_json_cannot_hold() -> None:
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(BlisError, match="not a finite number"):
            float_text(value)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.125, 2, "0.12"),
        (0.375, 2, "0.38"),
        (2.675, 2, "2.67"),
        (0.0, 4, "0.0000"),
        (23338.99, 2, "23338.99"),
        (math.inf, 2, "+Inf"),
        (-math.inf, 2, "-Inf"),
        (math.nan, 4, "NaN"),
    ],
)
def test_fixed_point(value: float, decimals: int, text: str) -> None:
    assert fixed(value, decimals) == text


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("request_0", '"request_0"'),
        ("", '""'),
        ("größe 模型", '"größe 模型"'),
        ("a<b>&c", r'"a\u003cb\u003e\u0026c"'),
        ("\u2028\u2029", r'"\u2028\u2029"'),
        ("\b\f\n\r\t", r'"\b\f\n\r\t"'),
        ("\x00\x1f", r'"\u0000\u001f"'),
        ('say "\\"', r'"say \"\\\""'),
        ("\x7f/", '"\x7f/"'),
        ("\udcff", '"\\ufffd"'),
    ],
)
def test_strings(text: str, encoded: str) -> None:
    assert string_text(text) == encoded


@given(st.text(st.characters(codec="utf-8")))
def test_strings_read_back(text: str) -> None:
    assert json.loads(string_text(text)) == text


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(-(2.0**53), 2.0**53),  # whole numbers beyond read back as rounded integers
        st.text(st.characters(codec="utf-8")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(json_values)
def test_json_reads_back(value: Any) -> None:
    assert json.loads(json_text(value)) == value


def test_json_layout() -> None:
    value = {"a": 1, "b": [1.0, True, None], "c": [], "d": {}, "e": {"f": ["x"]}}
    assert json_text(value) == (
        '{\n  "a": 1,\n  "b": [\n    1,\n    true,\n    null\n  ],\n  "c": [],\n  "d": {},\n'
        '  "e": {\n    "f": [\n      "x"\n    ]\n  }\n}'
    )
