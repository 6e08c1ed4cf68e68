"""YAML as it is written: the layout of the reference, and text that reads back as it was."""

from __future__ import annotations

import math
import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.structuring import load_yaml, plain
from blis_core.yaml_reading import Scalar, resolve
from blis_core.yaml_writing import dump_yaml, float_text, scalar_text, sorted_keys


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.25, "0.25"),
        (-3.75, "-3.75"),
        (123456.0, "123456"),
        (999999.5, "999999.5"),
        (1e6, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (1e21, "1e+21"),
        (1e300, "1e+300"),
        (0.0001, "0.0001"),
        (0.00012345, "0.00012345"),
        (1e-05, "1e-05"),
        (2.5e-07, "2.5e-07"),
        (5e-324, "5e-324"),
        (0.1 + 0.2, "0.30000000000000004"),
        (math.inf, ".inf"),
        (-math.inf, "-.inf"),
        (math.nan, ".nan"),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert float_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_read_back(value: float) -> None:
    assert float(float_text(value)) == value
    assert resolve(Scalar(float_text(value))) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain text", "plain text"),
        ("é", "é"),
        ("a#b", "a#b"),
        ("k:v", "k:v"),
        ("a,[b]", "a,[b]"),
        ("-a", "-a"),
        ("sess_123", "sess_123"),
        *(
            (word, f'"{word}"')
            for word in (
                *("", "~", "null", "true", "FALSE", "y", "on", "Off", "2", "64", "-1", "1e3"),
                *(".5", "0x1F", "0o7", "0b1", "007", "1_000", "1:30", "2001-01-01", ".nan", "<<"),
                *("-.inf", "2001-1-2 10:20:30", "2001-01-01T10:20:30.5Z"),
            )
        ),
        ("2001-13-01", "2001-13-01"),  # no such month
        ("a: b", "'a: b'"),
        ("a:", "'a:'"),
        ("a #b", "'a #b'"),
        (" a", "' a'"),
        ("a ", "'a '"),
        ("'q", "'''q'"),
        ("@x", "'@x'"),
        ("- x", "'- x'"),
        ("---", "'---'"),
        ("-", "'-'"),
        ("[x]", "'[x]'"),
        ("a\tb", '"a\\tb"'),
        ("\x00\x7f\u2028", '"\\0\\x7F\\L"'),
        ("\U0001f600", '"\\U0001F600"'),
        ('say "hi"', 'say "hi"'),
        ('"hi"\r', '"\\"hi\\"\\r"'),
        (7, "7"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_scalars(value: object, text: str) -> None:
    assert scalar_text(value) == text


def test_layout() -> None:
    document = {
        "version": "2",
        "clients": [
            {
                "id": "a\nb",
                "arrival": {"process": "poisson", "cv": 1.5},
                "input": {"params": {"50": 1.0, "100": 2.0}},
                "windows": {"windows": [{"start_us": 0, "end_us": 5}, {"start_us": 7}]},
                "nothing": None,
            },
            {"id": "c"},
        ],
        "none": [],
        "empty": {},
    }
    assert dump_yaml(document) == (
        'version: "2"\n'
        "clients:\n"
        "    - id: |-\n"
        "        a\n"
        "        b\n"
        "      arrival:\n"
        "        process: poisson\n"
        "        cv: 1.5\n"
        "      input:\n"
        "        params:\n"
        '            "50": 1\n'
        '            "100": 2\n'
        "      windows:\n"
        "        windows:\n"
        "            - start_us: 0\n"
        "              end_us: 5\n"
        "            - start_us: 7\n"
        "    - id: c\n"
        "none: []\n"
        "empty: {}\n"
    )


WORDS = ["a", "b", " ", ":", "#", "-", "'", '"', "\n", "\t", "1", "0", "e", "_", ".", "?", "{", "é"]
TEXT = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=7).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)


@settings(max_examples=400)
@given(st.dictionaries(TEXT, TEXT, max_size=4), st.lists(TEXT, max_size=3))
def test_any_text_reads_back(mapping: dict[str, str], items: list[str]) -> None:
    document = {"of": {"mapping": mapping}, "items": [{"text": item} for item in items]}
    written = dump_yaml(document)
    assert plain(load_yaml(written, "test")) == document
    # and another reader, whose own guesses at types do not matter here, finds the same texts
    other = yaml.load(written, Loader=yaml.BaseLoader)
    assert other == document


@pytest.mark.parametrize(
    "keys",
    [
        ["50", "100", "200", "1000"],
        ["b3", "b12", "c1"],
        ["", "-5", "-10", "1e3", "5", "5a", "7", "007", "10"],
        ["a1", "a01", "a2", "a b", "ab"][:3],
        ["x.5", "x5"],
        ["105", "1005"],
    ],
)
def test_order_of_keys(keys: list[str]) -> None:
    shuffled = keys[:]
    random.Random(1).shuffle(shuffled)
    assert sorted_keys(shuffled) == keys


@given(st.sets(st.integers(0, 10**6)))
def test_numbers_are_ordered_by_value(numbers: set[int]) -> None:
    assert sorted_keys([str(n) for n in numbers]) == [str(n) for n in sorted(numbers)]
