"""``blis diff``: every form in which results are saved, and what is said about two of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blis_core import log
from blis_core.cli.main import main
from blis_core.results.difference import Change, compare, pair
from blis_core.results.saved import SavedRequest, read_result

RUN = "run --model qwen/qwen3-14b --rate 30 --num-requests 40 --num-instances 2 --log error".split()
LEAST = ("--routing-policy", "least-loaded")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, saved in every form: a and b, .json, .m and .txt."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("saved")
    for name, extra in (("a", ()), ("b", LEAST)):
        for form, options in (
            ("json", ("--output", "json")),
            ("txt", ("--metrics-path", str(folder / f"{name}.m"))),
        ):
            stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
            with contextlib.redirect_stdout(stream):
                assert main([*RUN, *extra, *options]) == 0
            stream.seek(0)
            (folder / f"{name}.{form}").write_text(stream.read())
    log.set_level("warn")
    return folder


@pytest.fixture
def diff(saved: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*arguments: str) -> tuple[int, str]:
        paths = [str(saved / a) if a[:2] in ("a.", "b.") else a for a in arguments]
        code = main(["diff", *paths])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return run


def test_every_form_has_the_same_figures(saved: Path) -> None:
    forms = {form: read_result(str(saved / f"a.{form}")) for form in ("json", "m", "txt")}
    whole = forms["json"]
    for form in ("m", "txt"):
        assert forms[form].figures
        for name, value in forms[form].figures.items():
            assert whole.figures[name] == pytest.approx(value, abs=1e-4), name
        assert forms[form].settings is None
    assert forms["txt"].requests is None
    assert forms["m"].requests is not None
    paired = pair(whole.requests or {}, forms["m"].requests)
    assert paired.same == paired.of_a == paired.of_b == 40
    assert all(times.faster == times.slower == 0 for times in paired.times)


def test_two_routings(diff: Callable[..., tuple[int, str]]) -> None:
    code, text = diff("a.json", "b.json")
    assert code == 0
    assert "routing_policy   -   least-loaded" in text
    assert "ttft_p99_ms" in text
    assert "Both have the same 40 requests." in text
    assert "of 40 are faster in B" in text
    assert "still_queued" not in text
    assert "still_queued" in diff("a.json", "b.json", "--all")[1]


@pytest.mark.parametrize("form", ["json", "m", "txt"])
def test_a_result_equals_itself(diff: Callable[..., tuple[int, str]], form: str) -> None:
    code, text = diff(f"a.{form}", f"a.{form}", "--exit-code")
    assert code == 0
    assert "\n0 of " in text
    assert diff(f"a.{form}", f"b.{form}", "--exit-code")[0] == 1
    assert diff(f"a.{form}", f"b.{form}")[0] == 0


def test_tolerance(diff: Callable[..., tuple[int, str]]) -> None:
    assert diff("a.m", "b.m", "--exit-code", "--tolerance", "100000")[0] == 0
    assert "by more than 2 %" in diff("a.m", "b.m", "--tolerance", "2")[1]
    assert diff("a.m", "b.m", "--tolerance=-1")[0] == 1


def test_as_json(diff: Callable[..., tuple[int, str]]) -> None:
    document = json.loads(diff("a.json", "b.json", "--output", "json")[1])
    assert {"name": "routing_policy", "a": None, "b": "least-loaded"} in document["settings"]
    figures = {entry["name"]: entry for entry in document["figures"]}
    ttft = figures["ttft_mean_ms"]
    assert ttft["difference"] == pytest.approx(ttft["b"] - ttft["a"])
    assert ttft["percent"] == pytest.approx(100 * ttft["difference"] / ttft["a"])
    assert figures["completed_requests"]["differs"] is False
    assert document["requests"]["same"] == 40


def test_other_requests(
    diff: Callable[..., tuple[int, str]], saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved / "seed.m"
    assert main([*RUN, "--seed", "1", "--metrics-path", str(path)]) == 0
    log.set_level("warn")
    capsys.readouterr()
    text = diff("a.m", str(path))[1]
    assert "The requests differ: 0 are the same, of 40 in A and 40 in B." in text


def test_distributions_and_classes(tmp_path: Path) -> None:
    times = {"mean": 2000.0, "p50": 1000.0, "p95": 3000.0, "p99": 4000.0, "count": 5}
    entry = {"ttft": times, "e2e": times}
    document: dict[str, Any] = {
        "cluster": {"completed_requests": 5, "instance_id": "cluster"},
        "per_slo": [{"name": name, **entry} for name in ("batch", "critical")],
        "per_model": [{"name": "only", **entry}],
        "pd": {"transfer": times, "contention": False, "peak_transfers": 2},
        "fleet": None,
        "warnings": ["saturated: oh"],
    }
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    result = read_result(str(path))
    assert result.figures["per_slo.batch.ttft_p99_ms"] == 4.0
    assert result.figures["pd.transfer_mean_ms"] == 2.0
    assert result.figures["pd.peak_transfers"] == 2
    assert not any(name.startswith("per_model") for name in result.figures)
    assert result.warnings == ("saturated: oh",)


def test_warnings_of_one_side(diff: Callable[..., tuple[int, str]], saved: Path) -> None:
    document = json.loads((saved / "a.json").read_text())
    document["warnings"].append("saturated: oh [no]")
    changed = saved / "changed.json"
    changed.write_text(json.dumps(document))
    text = diff("a.json", str(changed))[1]
    assert "Only B: saturated: oh [no]" in text
    assert "Only A" not in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no result; name a file made by blis run or blis replay"),
        ("[1, 2]", "is JSON, but no result"),
        ('{"cluster": 5}', "is JSON, but no result"),
        ('=== Simulation Metrics ===\n{"a": ', "the block of figures is cut off"),
        ("\xff\x00", "is no result"),
    ],
)
def test_what_is_no_result(
    diff: Callable[..., tuple[int, str]], tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content.encode("latin-1"))
    code, text = diff("a.json", str(path))
    assert code == 1
    assert f"{path}: " in text
    assert message in text


@pytest.mark.parametrize("arguments", [[], ["a.json"], ["a.json", "b.json", "a.json"]])
def test_two_results_are_needed(diff: Callable[..., tuple[int, str]], arguments: list[str]) -> None:
    code, text = diff(*arguments)
    assert code == 2
    assert f"diff compares two results, not {len(arguments)}" in text


def test_a_file_that_is_not_there(diff: Callable[..., tuple[int, str]]) -> None:
    code, text = diff("a.json", "missing.json")
    assert code == 1
    assert "cannot read missing.json: No such file" in text


def test_changes() -> None:
    assert Change(name="x", a=0, b=5).percent is None
    assert Change(name="x", a=None, b=5).difference is None
    assert Change(name="x", a=None, b=5).exceeds(1e9)
    assert not Change(name="x", a=100, b=101).exceeds(1)
    assert Change(name="x", a=100, b=102).exceeds(1)
    assert not Change(name="x", a=0, b=0).exceeds(0)


def test_requests_in_pairs() -> None:
    def timed(ttft: float | None, arrival: int = 0) -> SavedRequest:
        return SavedRequest(
            arrival_us=arrival, prompt_tokens=1, output_tokens=1, ttft_us=ttft, e2e_us=None
        )

    a = {"r1": timed(100), "r2": timed(100), "r3": timed(None), "r4": timed(1), "r5": timed(1)}
    b = {"r1": timed(50), "r2": timed(3100), "r3": timed(5), "r4": timed(1, 99)}
    paired = pair(a, b)
    assert (paired.same, paired.of_a, paired.of_b) == (3, 5, 4)
    (ttft,) = paired.times
    assert (ttft.pairs, ttft.faster, ttft.slower) == (2, 1, 1)
    assert ttft.median_change_ms == pytest.approx(1.475)


def test_results_without_anything_in_common(tmp_path: Path) -> None:
    paths = []
    for name in ("x", "y"):
        paths.append(tmp_path / f"{name}.m")
        paths[-1].write_text(json.dumps({"completed_requests": 0, name: 1}))
    found = compare(*(read_result(str(path)) for path in paths))
    assert [(c.name, c.a, c.b) for c in found.figures] == [
        ("completed_requests", 0, 0),
        ("x", 1, None),
        ("y", None, 1),
    ]
    assert found.settings is None
