"""Clients made of ServeGen data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.errors import BlisError
from blis_core.workload.servegen import load_clients, with_servegen
from blis_core.workload.spec import Arrival, Client, Distribution, ServegenData, WorkloadSpec

SMALL = Path(__file__).parents[1] / "data" / "servegen_small"
LENGTHS = {"input_tokens": "{3: 1}", "output_tokens": "{4: 1}"}


def chunk(folder: Path, name: str, trace: str, windows: Any = None) -> None:
    """Write the two files of a chunk."""
    (folder / f"chunk-{name}-trace.csv").write_text(trace, newline="")
    content = windows if isinstance(windows, str) else json.dumps(windows or {"0": LENGTHS})
    (folder / f"chunk-{name}-dataset.json").write_text(content)


def load(folder: Path, start: int = 0, end: int = 0) -> tuple[Client, ...]:
    return load_clients(ServegenData(path=str(folder), span_start=start, span_end=end))


def empirical(**params: float) -> Distribution:
    return Distribution(type="empirical", params={k.strip("_"): v for k, v in params.items()})


def test_recorded_folder(capsys: pytest.CaptureFixture[str]) -> None:
    ten, two = load(SMALL)
    assert ten == Client(
        id="servegen-chunk-10",
        tenant_id="chunk-10",
        rate_fraction=3.0,
        arrival=Arrival(process="weibull", cv=1.2),
        input_distribution=empirical(_7=1.0),
        output_distribution=empirical(_7=1.0),
    )
    assert two == Client(
        id="servegen-chunk-2",
        tenant_id="chunk-2",
        rate_fraction=2.0,
        arrival=Arrival(process="poisson"),
        input_distribution=empirical(_3=1.0, _9=1.0),
        output_distribution=empirical(_4=1.0),
    )
    # The header line of a trace; the time of a dataset that is no number was not reached.
    assert capsys.readouterr().err.count("[warning]") == 1


TRACE = """0,0.5,1.2,Gamma,1,2
600,2.0,0.9,Weibull,1,2
1200,2.0,3.3,Gamma,1,2
x,1,2,Gamma,1,2
1800,0.1,1.0,,0,0
"""
WINDOWS = {
    "0": {"input_tokens": "{}", "output_tokens": "{}"},
    "1000": {"input_tokens": "{100: 0.5, 200.0: 3e-1, 50: 0.2,}", "output_tokens": "{ 10: 1.0 }"},
    "600": {"input_tokens": "{7: 1}", "output_tokens": "{8: 1}"},
    "abc": {"input_tokens": "{1:1}", "output_tokens": "{1:1}"},
}


def test_example_of_the_specification(tmp_path: Path) -> None:
    chunk(tmp_path, "0", TRACE, WINDOWS)
    chunk(tmp_path, "10", "0,1.5,1.2,weird,1,2\n")
    chunk(tmp_path, "2", "0,0,1.2,Gamma,1,2\n600,-1,1.2,Gamma,1,2\n", "no JSON, and never read")
    first, second = load(tmp_path)
    assert first.arrival == Arrival(process="weibull", cv=0.9)
    assert first.rate_fraction == 2.0
    assert first.input_distribution.params == {"50": 0.2, "100": 0.5, "200": 0.3}
    assert first.output_distribution.params == {"10": 1.0}
    assert (second.id, second.arrival) == ("servegen-chunk-10", Arrival(process="poisson"))
    (tmp_path / "chunk-10-trace.csv").unlink()
    (inside,) = load(tmp_path, 700, 1500)
    assert inside.arrival == Arrival(process="gamma", cv=3.3)


def test_the_specification_takes_the_clients_in() -> None:
    spec = WorkloadSpec(aggregate_rate=5.0, servegen_data=ServegenData(path=str(SMALL)))
    before = attrs.evolve(spec)
    filled = with_servegen(spec)
    assert spec == before
    assert len(filled.clients) == 2
    assert (filled.aggregate_rate, filled.servegen_data) == (5.0, None)
    assert with_servegen(filled) is filled


def test_times_without_both_lengths_are_passed_over(tmp_path: Path) -> None:
    windows = {
        "1": {"output_tokens": "{4: 1}"},
        "2": {"input_tokens": None, "output_tokens": "{4: 1}"},
        "3": None,
        "4": {"input_tokens": "{3: 1}", "output_tokens": "{}"},
        "x": LENGTHS,
        "5": LENGTHS,
    }
    chunk(tmp_path, "a", "0,1,1,\n", windows)
    assert load(tmp_path)[0].input_distribution == empirical(_3=1.0)
    with pytest.raises(BlisError, match="no time in the span has both"):
        load(tmp_path, 0, 5)


def test_lengths_are_truncated_and_the_last_of_equal_ones_counts(tmp_path: Path) -> None:
    texts = {"input_tokens": " {5.9: 1, 5: 2.5e-1,,} ", "output_tokens": "{1_000: inf, -2: -1}"}
    chunk(tmp_path, "a", "0,1,1,\n", {"0": texts})
    (client,) = load(tmp_path)
    assert client.input_distribution.params == {"5": 0.25}
    assert client.output_distribution.params == {"1000": float("inf"), "-2": -1.0}


def test_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk(tmp_path, "a", 'start,rate,cv,pattern\r\n\r\n1,nan,1,x\r\n" 2 ", 7 ,2.5," gAMMA "\r\n')
    (client,) = load(tmp_path)
    assert (client.rate_fraction, client.arrival) == (7.0, Arrival(process="gamma", cv=2.5))
    assert capsys.readouterr().err.count("rows=1") == 1


def test_rows_that_are_too_short_are_skipped(tmp_path: Path) -> None:
    chunk(tmp_path, "a", "0,1,1\n1,2,3\n")
    with pytest.raises(BlisError, match="has a rate above 0 in the span"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("trace", "windows", "message"),
    [
        ("0,1,1,\n0,1,1\n", None, r"chunk-a-trace\.csv, line 2: 3 fields, but 4 in the first row"),
        ('0,1,1,"x\n', None, r"chunk-a-trace\.csv, line 1: unexpected end of data"),
        ("0,1,1,\n", "{", r"chunk-a-dataset\.json: not valid JSON"),
        ("0,1,1,\n", "[]", "must be an object of times"),
        ("0,1,1,\n", {"0": {"other": 1}}, "'0': must be an object of times"),
        ("0,1,1,\n", "null", "no time in the span has both"),
        (
            "0,1,1,\n",
            {"0": {**LENGTHS, "input_tokens": "3: 1"}},
            "'0': input_tokens must be of the",
        ),
        ("0,1,1,\n", {"0": {**LENGTHS, "input_tokens": "{"}}, "input_tokens must be of the form"),
        (
            "0,1,1,\n",
            {"0": {**LENGTHS, "output_tokens": "{ }"}},
            "output_tokens must list at least",
        ),
        ("0,1,1,\n", {"0": {**LENGTHS, "input_tokens": "{3}"}}, "input_tokens: '3' has no ':'"),
        (
            "0,1,1,\n",
            {"0": {**LENGTHS, "input_tokens": "{a: 1}"}},
            "input_tokens: 'a' is not a num",
        ),
        ("0,1,1,\n", {"0": {**LENGTHS, "input_tokens": "{1: 1e400}"}}, "too large for a double"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, trace: str, windows: Any, message: str) -> None:
    chunk(tmp_path, "a", trace, windows)
    with pytest.raises(BlisError, match=message) as problem:
        load(tmp_path)
    assert "\n" not in str(problem.value)


def test_absent_files(tmp_path: Path) -> None:
    with pytest.raises(BlisError, match=r"cannot read servegen_data\.path .*none: No such file"):
        load(tmp_path / "none")
    (tmp_path / "chunk-trace.csv").write_text("0,1,1,\n")
    with pytest.raises(BlisError, match=r"has no file chunk-<id>-trace\.csv"):
        load(tmp_path)
    (tmp_path / "chunk-1-trace.csv").write_text("0,1,1,\n")
    with pytest.raises(BlisError, match=r"cannot read .*chunk-1-dataset\.json"):
        load(tmp_path)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.booleans()), max_size=6),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_the_busiest_row_in_the_span_counts(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, bool]],
    start: int,
    end: int,
) -> None:
    folder = tmp_path_factory.mktemp("chunks")
    lines = [
        f"{t},{r},{i + 1},{'Gamma' if gamma else ''}\n" for i, (t, r, gamma) in enumerate(rows)
    ]
    chunk(folder, "a", "".join(lines), {str(time): LENGTHS for time in range(10)})
    kept = [
        (-rate, index)
        for index, (time, rate, _) in enumerate(rows)
        if rate > 0 and (start <= 0 or time >= start) and (end <= 0 or time < end)
    ]
    if not kept:
        with pytest.raises(BlisError, match="in the span"):
            load(folder, start, end)
        return
    rate, index = min(kept)
    (client,) = load(folder, start, end)
    assert client.rate_fraction == -rate
    gamma = rows[index][2]
    assert client.arrival == (
        Arrival(process="gamma", cv=index + 1.0) if gamma else Arrival(process="poisson")
    )
