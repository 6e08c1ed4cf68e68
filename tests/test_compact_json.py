"""JSON on one line gives what the YAML parser makes of it, or is left to that parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blis_core import compact_json
from blis_core.errors import BlisError
from blis_core.structuring import load_yaml
from blis_core.yaml_reading import Scalar

texts = st.text(st.characters(min_codepoint=32, max_codepoint=127), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)
documents = st.dictionaries(texts, values, max_size=5)


def parts(value: Any) -> Any:
    """A value with everything that a scalar says, to be compared."""
    if isinstance(value, Scalar):
        return str(value), value.quoted, value.line
    if isinstance(value, dict):
        return [(parts(key), parts(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [parts(item) for item in value]
    return value


@given(documents, st.sampled_from([None, (",", ":")]))
@example({"a": 1.5, "b": [True, None, -0.0, 1e300, 10**30], "": {"c": "on", "<<": {}}}, None)
def test_equals_yaml(document: dict[str, Any], separators: tuple[str, str] | None) -> None:
    text = json.dumps(document, separators=separators)
    found = compact_json.load(text.encode(), Scalar)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact_json, "load", lambda *_: None)
        by_yaml = load_yaml(text, "x")
    if found is None:  # escapes, numbers that are not JSON
        assert "\\" in text or "\x7f" in text or "NaN" in text or "Infinity" in text
    else:
        assert parts(found) == parts(by_yaml)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        '{"a": "\\u00e9"}',
        '{"a": "é"}',
        '{"a":\t1}',
        '{"a": 1,\n"b": 2}',
        '{"a": 1}\r\n',
        '{"a": NaN}',
        '{"a": 01}',
        '{"a": 1,}',
        '{"a": 1} # note',
        "{a: 1}",
        '["a"]',
        '{"' + "k" * 1000 + '": 1}',
        "{" * 5000,
        "",
    ],
)
def test_anything_else_is_left_to_the_yaml_parser(text: str) -> None:
    assert compact_json.load(text.encode(), Scalar) is None


def test_a_repeated_key_is_an_error_all_the_same() -> None:
    with pytest.raises(BlisError, match=r"x, line 1: key 'a' is given twice; remove one"):
        load_yaml('{"a": 1, "a": 2}', "x")
