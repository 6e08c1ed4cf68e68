"""Options and profiles of a latency model: declared by the backend, checked by the core."""

from __future__ import annotations

import attrs
import pytest

from blis_core.errors import BlisError
from blis_core.latency_options import LatencyProfile, load_profile, parse_options, specs_of
from blis_core.option import ValueKind, option


@attrs.frozen(kw_only=True)
class Options:
    speed: float = option(ValueKind.FLOAT, "", 2.0, "Speed.", above=0)
    count: int = option(ValueKind.INT, "", 3, "Count.", at_least=0, at_most=9)
    kind: str = option(ValueKind.TEXT, "", "a", "Kind.", choices=("a", "b"))
    loud: bool = option(ValueKind.BOOL, "", False, "Loud.")


class Model:
    options_class = Options


def parsed(*given, profile=None, factory=Model):
    return parse_options(factory, "mine", given, profile, "profile.yaml")


def test_defaults():
    assert parsed() == Options()
    assert parsed(factory=object) is None
    assert [spec.name for spec in specs_of(Model)] == ["speed", "count", "kind", "loud"]


def test_values_are_read_by_kind_and_the_last_one_counts():
    assert parsed("speed=1e3", "count=4", "kind=b", "loud=true", "speed=4") == Options(
        speed=4.0, count=4, kind="b", loud=True
    )


def test_given_options_win_over_the_profile():
    profile = LatencyProfile(latency_model="mine", options={"speed": "5", "count": "6"})
    assert parsed("count=7", profile=profile) == Options(speed=5.0, count=7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("speed", "--latency-option speed: must have the form KEY=VALUE"),
        (
            "sped=1",
            (
                "--latency-option sped: latency model mine has no such option (it has: speed,"
                " count, kind, loud); did you mean speed?"
            ),
        ),
        ("speed=fast", "--latency-option speed: 'fast' is not a number"),
        ("speed=0", "--latency-option speed: must be greater than 0, got 0.0"),
        ("speed=nan", "--latency-option speed: must be greater than 0, got nan"),
        ("count=1.5", "--latency-option count: '1.5' is not a whole number"),
        ("count=10", "--latency-option count: must be at least 0 and at most 9, got 10"),
        ("kind=c", "--latency-option kind: must be one of a, b, got 'c'"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(BlisError) as refusal:
        parsed(given)
    assert str(refusal.value) == message


def test_a_backend_without_options():
    with pytest.raises(BlisError, match=r"latency model mine has no options$"):
        parsed("speed=1", factory=object)


def test_a_wrong_value_in_a_profile_names_the_file():
    profile = LatencyProfile(latency_model="mine", options={"speed": "-1"})
    with pytest.raises(BlisError, match=r"^profile.yaml: options.speed: must be greater than 0"):
        parsed(profile=profile)


def test_profile_files(tmp_path):
    path = tmp_path / "profile.yaml"
    path.write_text("latency_model: mine\noptions: {speed: 1.5, loud: true}\ntp: 2\n")
    profile = load_profile(str(path))
    assert profile == LatencyProfile(
        latency_model="mine", options={"speed": "1.5", "loud": "true"}, tp=2
    )
    assert parsed(profile=profile) == Options(speed=1.5, loud=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("options: {}", "latency_model: name the latency model"),
        ("latency_model: mine\nspeed: 1", "speed"),
        ("latency_model: [mine]", "latency_model"),
        ("options: [1]", "options"),
    ],
)
def test_profile_files_that_cannot_be_used(tmp_path, text, message):
    path = tmp_path / "profile.yaml"
    path.write_text(text)
    with pytest.raises(BlisError, match=message) as refusal:
        load_profile(str(path))
    assert str(path) in str(refusal.value)


def test_a_missing_profile(tmp_path):
    with pytest.raises(BlisError, match="cannot read latency profile"):
        load_profile(str(tmp_path / "none.yaml"))
