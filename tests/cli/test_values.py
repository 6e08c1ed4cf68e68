"""Numbers and truth values in the reference's syntax: what is accepted, and as what."""

import math

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.cli.values import FLOATS, INT, parse_bool, parse_float, parse_floats, parse_int


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("5", 5),
        ("+3", 3),
        ("-7", -7),
        ("0x5", 5),
        ("-0X1f", -31),
        ("0b101", 5),
        ("0B1", 1),
        ("0o17", 15),
        ("010", 8),
        ("00", 0),
        ("0_7", 7),
        ("1_0", 10),
        ("1_000_000", 1_000_000),
        ("0x_ff", 255),
        ("0o_7", 7),
        ("0b_1", 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0x7fff_ffff_ffff_ffff", 2**63 - 1),
        ("0" * 100 + "7", 7),
    ],
)
def test_whole_numbers(text: str, value: int) -> None:
    assert parse_int(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", "abc", "1.0", "1e3", " 5", "5 ", "08", "0_8", "0x", "0b", "0b2", "0x1g"),
        *("--5", "+-5", "_1", "1_", "1__0", "0x1_", "0x__1", "0_", "٣"),
        *("9223372036854775808", "-9223372036854775809", "1" * 5000),
    ],
)
def test_malformed_whole_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"whole number|64 bits|wrong place"):
        parse_int(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_in_every_base(number: int) -> None:
    for form in ("d", "#x", "#o", "#b", "_d", "#_x"):
        assert parse_int(format(number, form)) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("+.5", 0.5),
        ("-2.5e-3", -0.0025),
        ("1E+3", 1000.0),
        ("010", 10.0),
        ("1_0", 10.0),
        ("1.5_0", 1.5),
        ("1e1_0", 1e10),
        ("0x1p3", 8.0),
        ("0X1.8P1", 3.0),
        ("0x.8p1", 1.0),
        ("0x1.p2", 4.0),
        ("0x_1p3", 8.0),
        ("-0x1p1_0", -1024.0),
        ("1e-400", 0.0),
        ("0x1p-99999", 0.0),
        ("inf", math.inf),
        ("+Inf", math.inf),
        ("-INFINITY", -math.inf),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert parse_float(text) == value


def test_not_a_number_is_a_number_to_the_parser() -> None:
    assert math.isnan(parse_float("NaN"))
    assert math.isnan(parse_float("nan"))


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "e1", "1e", "1e+", "abc", "1 ", " 1", "--1", "+nan", "infinit", "i_nf"),
        *("1,5", "٣", "0x10", "0x1p", "0x.p1", "0xp1", "0x1_p3"),
        *("1_", "_1", "1__0", "1_.5", "1._5", "1_e5", "1e_5", "1e400", "-1e400", "0x1p99999"),
    ],
)
def test_malformed_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a number|too large|wrong place"):
        parse_float(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_round_trip(number: float) -> None:
    assert parse_float(repr(number)) == number
    assert parse_float(number.hex()) == number


def test_lists() -> None:
    assert parse_floats("1500.5,3.25,900.75") == (1500.5, 3.25, 900.75)
    assert parse_floats("-1") == (-1.0,)
    for text in ("", "1,", ",1", "1, 2", "1;2"):
        with pytest.raises(ValueError, match="not a number"):
            parse_floats(text)


def test_truth_values() -> None:
    assert all(parse_bool(text) for text in ("1", "t", "T", "true", "True", "TRUE"))
    assert not any(parse_bool(text) for text in ("0", "f", "F", "false", "False", "FALSE"))
    for text in ("", "yes", "tRUE", "on", "2"):
        with pytest.raises(ValueError, match="neither true nor false"):
            parse_bool(text)


def test_click_types() -> None:
    assert INT.convert("0x10", None, None) == 16
    assert INT.convert(16, None, None) == 16
    assert FLOATS.convert((1.0, 2.0), None, None) == (1.0, 2.0)
    with pytest.raises(click.BadParameter, match="'abc' is not a whole number"):
        INT.convert("abc", None, None)
