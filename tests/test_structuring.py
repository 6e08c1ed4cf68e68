"""YAML scalars mean what their field's type says; everything else is a clear error."""

from __future__ import annotations

import math
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_core.structuring import load_yaml, plain, structure
from blis_core.yaml_reading import _loader_class


@attrs.frozen(kw_only=True)
class Arrival:
    process: str = ""
    cv: float | None = None


@attrs.frozen(kw_only=True)
class Client:
    id: str = "none"
    count: int = 0
    rate: float = 0.0
    on: bool = False
    maybe: bool | None = None
    arrival: Arrival = attrs.field(factory=Arrival)
    params: dict[str, float] = attrs.field(factory=dict)
    counts: dict[str, int] = attrs.field(factory=dict)
    sizes: tuple[int, ...] = ()
    mode: Literal["fast", "slow"] = "fast"
    extra: Any = None
    group: str = attrs.field(default="", metadata={"key": "GROUP"})


@attrs.frozen(kw_only=True)
class Spec:
    clients: list[Client] = attrs.field(factory=list)
    needed: int


def client(text):
    return structure(load_yaml(text, "spec.yaml"), Client, "spec.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0012", "0012"),
        ("on", "on"),
        ("2", "2"),
        ("1e6", "1e6"),
        ("true", "true"),
        ("2024-01-01", "2024-01-01"),
        ("'x: y'", "x: y"),
        ('"null"', "null"),
        ("!!str 7", "7"),
        ('""', ""),
        ("!custom 7", "7"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_text(text, expected):
    found = client(f"id: {text}").id
    assert found == expected
    assert type(found) is str


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("0x1F", 31),
        ("-0x1f", -31),
        ("0o17", 15),
        ("0b101", 5),
        ("017", 15),
        ("08", 8),
        ("00", 0),
        ("1_000", 1000),
        ("2.7", 2),
        ("-2.9", -2),
        ("1e6", 1_000_000),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ('!!int "7"', 7),
        ("!!float 7", 7),
    ],
)
def test_integers(text, expected):
    found = client(f"count: {text}").count
    assert found == expected
    assert type(found) is int


@pytest.mark.parametrize(
    "text",
    [
        *('"7"', "'7'", "true", "9223372036854775808", "1e19", ".inf", "-.inf", ".nan", "1:30"),
        *("x", "0x", "0b2", "[1]", "{a: 1}", "_1", "1 2", "!!str 7", "2024-01-01", "|\n  7\n"),
    ],
)
def test_refused_integers(text):
    with pytest.raises(BlisError, match=r"^spec\.yaml: count: "):
        client(f"count: {text}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1.0),
        ("1e1", 10.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1_0.5", 10.5),
        ("0x10", 16.0),
        ("18446744073709551615", 18446744073709551615.0),
        ("1e400_", None),
        (".inf", math.inf),
        ("+.Inf", math.inf),
        ("-.INF", -math.inf),
        ("1e-400", 0.0),
        ('!!float "2.5"', 2.5),
    ],
)
def test_floats(text, expected):
    if expected is None:
        with pytest.raises(BlisError, match="rate: must be a number"):
            client(f"rate: {text}")
    else:
        found = client(f"rate: {text}").rate
        assert found == expected
        assert type(found) is float


def test_not_a_number():
    assert math.isnan(client("rate: .NaN").rate)


@pytest.mark.parametrize("text", ['"1.5"', "true", "1e400", "1.2.3", "inf", "nan", "[]"])
def test_refused_floats(text):
    with pytest.raises(BlisError, match=r"^spec\.yaml: rate: must be a number"):
        client(f"rate: {text}")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ("true True TRUE y Y yes Yes YES on On ON 'on' \"Y\" !!bool 'true'", True),
        ("false False FALSE n N no No NO off Off OFF 'no'", False),
    ],
)
def test_booleans(texts, expected):
    for text in texts.replace("!!bool ", "!!bool_").split():
        assert client(f"on: {text.replace('_', ' ')}").on is expected


@pytest.mark.parametrize("text", ['"true"', "1", "0", "tRUE", "yEs", "t", "{}"])
def test_refused_booleans(text):
    with pytest.raises(BlisError, match=r"on: must be true or false"):
        client(f"on: {text}")


@pytest.mark.parametrize("null", ["null", "~", "", "Null", "NULL", "!!null ''"])
def test_null_keeps_the_default(null):
    keys = ("id", "count", "rate", "on", "maybe", "arrival", "params", "sizes", "mode", "extra")
    assert client("".join(f"{key}: {null}\n" for key in keys)) == Client()


def test_null_in_collections():
    found = client("sizes: [1, ~, 2]\nparams: {a: ~, b: 2}\ncounts: {a: null}")
    assert found.sizes == (1, 2)
    assert found.params == {"a": 0.0, "b": 2.0}
    assert found.counts == {"a": 0}


def test_renamed_choices_and_untyped_fields():
    found = client("GROUP: g\nmode: slow\nextra: {a: [1, 2.5, 'x', on, true, ~, .inf]}")
    assert found.group == "g"
    assert found.mode == "slow"
    assert found.extra == {"a": [1, 2.5, "x", "on", True, None, math.inf]}
    with pytest.raises(BlisError, match="mode: must be one of fast, slow, not quick"):
        client("mode: quick")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "needed: 1\nclients:\n- id: a\n- id: b\n- arrival:\n    cv: fast",
            r"^s\.yaml: clients\[2\]\.arrival\.cv: must be a number, not fast \(line 6\)$",
        ),
        ("clients: []", r"^s\.yaml: key 'needed' is missing$"),
        ("needed: ~", r"^s\.yaml: key 'needed' is missing$"),
        ("needed: 1\nclients: {}", r"^s\.yaml: clients: must be a list, not a mapping$"),
        ("needed: 1\nclients: [3]", r"clients\[0\]: must be a mapping, not 3 \(line 2\)$"),
        (
            "needed: 1\nclients:\n- Id: a",
            r"clients\[0\]: unknown key 'Id'; did you mean 'id'\? \(line 3\)$",
        ),
        ("[1]", r"^s\.yaml: must be a mapping, not a list$"),
        ("text", r"must be a mapping, not text"),
        ("needed: 1\nclients: [{params: {p: x}}]", r"clients\[0\]\.params\.p: must be a number"),
        ("needed: 1\nzzz: 2", r"unknown key 'zzz'; known keys: clients, needed \(line 2\)$"),
    ],
)
def test_errors_name_the_path(text, message):
    with pytest.raises(BlisError, match=message):
        structure(load_yaml(text, "s.yaml"), Spec, "s.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml: the file is empty"),
        ("# c\n", "s.yaml: the file is empty"),
        ("a: 1\nb: 2\na: 3", "s.yaml, line 3: key 'a' is given twice"),
        ("a: [1", "s.yaml, line 2: YAML syntax error"),
        ("a: b: c", "s.yaml, line 1: YAML syntax error"),
        ("a: *nope", "YAML syntax error"),
        ("? [1]\n: 2", "a key must be plain text"),
        ("a: &a [*a]", "an alias must not contain itself"),
        ("<<: 3", "merges mappings only"),
        (b"a: \xff", "YAML syntax error"),
        ("a: \x07", "YAML syntax error"),
    ],
)
def test_unreadable_yaml(text, message):
    with pytest.raises(BlisError) as refusal:
        load_yaml(text, "s.yaml")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_aliases_merges_and_first_document():
    text = """
base: &base {id: a, count: 1}
one: {<<: *base, count: 2}
two: {<<: [{id: z}, *base]}
same: *base
---
another: document: which is not even read
"""
    loaded = plain(load_yaml(text, "s.yaml"))
    assert loaded["one"] == {"count": 2, "id": "a"}
    assert loaded["two"] == {"id": "z", "count": 1}
    assert loaded["same"] == loaded["base"]


def test_null_document_is_all_defaults():
    assert client("~") == Client()


def test_json_like_data():
    data = {"id": "x", "count": 2.9, "rate": 3, "on": True, "sizes": (1, 2), "params": {"a": 1}}
    found = structure(data, Client, "config")
    assert (found.count, found.rate, found.sizes) == (2, 3.0, (1, 2))
    for wrong in ({"id": 3}, {"count": "3"}, {"count": True}, {"rate": "x"}, {"on": "yes"}):
        with pytest.raises(BlisError, match=r"^config: "):
            structure(wrong, Client, "config")


def test_checks_of_a_class_are_user_errors():
    @attrs.frozen
    class Positive:
        value: int = attrs.field(validator=attrs.validators.gt(0))

    with pytest.raises(BlisError, match=r"^s: 'value' must be > 0"):
        structure({"value": 0}, Positive, "s")


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(-(2**63), 2**63 - 1)))
def test_integers_survive(values):
    text = "".join(f"{key}: {value}\n" for key, value in values.items()) or "{}"
    assert plain(load_yaml(text, "s")) == values


def test_works_without_libyaml(monkeypatch):
    text = "a: &x {n: 0x10, t: 'on'}\nb: [*x, !!str 3, ~]"
    fast = plain(load_yaml(text, "s"))
    monkeypatch.setattr("yaml.__with_libyaml__", False)
    _loader_class.cache_clear()
    try:
        assert plain(load_yaml(text, "s")) == fast
        with pytest.raises(BlisError, match="line 2"):
            load_yaml("a: 1\n[", "s")
    finally:
        _loader_class.cache_clear()
