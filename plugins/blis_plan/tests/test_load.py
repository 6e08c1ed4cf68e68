"""Loads whose rate can be chosen."""

from __future__ import annotations

import attrs
import pytest

from blis_core.api import BlisError, read_trace, simulate
from blis_core.cli.main import main
from blis_plan.load import make_load, with_rate

CLIENT = """
- &one
  id: one
  rate_fraction: 1
  arrival: {process: poisson}
  input_distribution: {type: constant, params: {value: 50}}
  output_distribution: {type: constant, params: {value: 5}}
"""
FILE = f"version: '2'\nseed: 3\naggregate_rate: 8.0\nnum_requests: 40\nclients:{CLIENT}"
WINDOW = "  lifecycle: {windows: [{start_us: 0, end_us: 5_000_000}]}\n"


@pytest.fixture
def load_of(tmp_path, make_config):
    """The load of some options, and a function that simulates it."""
    number = iter(range(10))

    def make(text="", **options):
        if text:
            path = tmp_path / f"work-{next(number)}.yaml"
            path.write_text(text)
            options["workload_spec"] = str(path)
        config = make_config(**options)
        folder = tmp_path / f"copies-{next(number)}"
        folder.mkdir()
        load = make_load(config, folder)

        def run(rate, seed=None, requests=None):
            wanted = requests or load.fixed_requests(rate, seed) or 40
            return simulate(load.config(config.shared, rate, seed, wanted)).requests

        return load, run

    return make


def times(requests):
    return [request.arrival for request in requests]


def test_options_are_a_plain_run(load_of):
    load, run = load_of(rate=5.0, seed=9)
    assert (load.rate, load.steady) == (5.0, True)
    plain = simulate(
        model="qwen/qwen3-14b",
        output_tokens=20,
        output_tokens_stdev=5,
        rate=7.0,
        seed=9,
        num_requests=30,
    )
    assert [(r.arrival, r.prompt_len, r.e2e) for r in run(7.0, requests=30)] == [
        (r.arrival, r.prompt_len, r.e2e) for r in plain.requests
    ]


def test_a_horizon_bounds_arrivals_and_cuts_nothing(load_of):
    load, run = load_of(horizon=2_000_000)
    assert load.fixed_requests(10.0, None) == 20
    assert all(r.e2e >= 0 for r in run(10.0))
    load, run = load_of(FILE.replace("num_requests: 40", "horizon: 2_000_000"))
    requests = run(10.0)
    assert len(requests) == load.fixed_requests(10.0, None)
    assert max(times(requests)) < 2_000_000
    assert all(r.e2e >= 0 for r in requests)


def test_a_file_is_scaled_by_its_rate(load_of):
    load, run = load_of(FILE)
    assert load.rate == 8.0
    assert load.fixed_requests(8.0, None) is None  # as many as the SLOs need
    slow, fast = run(8.0), run(16.0)
    assert [r.prompt_len for r in slow] == [r.prompt_len for r in fast]
    assert times(fast)[-1] == pytest.approx(times(slow)[-1] / 2, rel=1e-3)


def test_a_file_at_its_own_rate_is_a_plain_run(load_of, tmp_path):
    _, run = load_of(FILE)
    plain = simulate(model="qwen/qwen3-14b", workload_spec=str(tmp_path / "work-0.yaml"))
    assert times(run(8.0)) == times(plain.requests)


@pytest.mark.parametrize(
    "text",
    [
        FILE,
        FILE.replace("aggregate_rate: 8.0\n", "") + "aggregate_rate: 8  # at the end\n",
        FILE + "- {<<: *one, id: '012', timeout: 1_000_000, slo_class: \"on\"}\n",
    ],
)
def test_nothing_but_the_rate_changes(text, tmp_path):
    from blis_core.workload.spec import load_spec, parse_spec

    path = tmp_path / "w.yaml"
    path.write_text(text)
    changed = parse_spec(with_rate(text.encode(), 2.5), "changed")
    assert changed == attrs.evolve(load_spec(str(path)), aggregate_rate=2.5)


def test_the_time_that_a_changing_load_covers_stays(load_of):
    timed = FILE + WINDOW
    load, run = load_of(timed)
    assert not load.steady
    assert load.fixed_requests(16.0, None) == 80
    assert times(run(16.0))[-1] == pytest.approx(times(run(8.0))[-1], rel=0.3)
    assert any("changes with time" in text for text in load.remarks)


TALK = "  reasoning: {multi_turn: {max_rounds: 3, think_time_us: 100_000}}\n"


def test_sessions_are_scaled_by_their_starts(load_of, make_config):
    load, run = load_of(FILE + TALK)
    assert (load.steady, load.closed) == (True, True)
    assert any("later rounds" in text for text in load.remarks)
    assert {r.round_index for r in run(8.0)} == {0, 1, 2}
    load, run = load_of(FILE.replace("num_requests: 40", "horizon: 3_000_000") + TALK)
    assert load.fixed_requests(8.0, None) == 0
    assert run(8.0, requests=0 or None)
    assert any("unfinished at the horizon" in text for text in load.remarks)


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (FILE.replace("8.0", "0"), {}, "aggregate_rate"),
        (
            FILE.replace("rate_fraction: 1", "concurrency: 4").replace("8.0", "0"),
            {},
            "users with concurrency",
        ),
        (FILE.replace("num_requests: 40\n", "") + WINDOW, {}, "its rate changes with time"),
        ("version: '2'\ninference_perf: {}\n", {}, "inference_perf"),
        ("[1]", {}, "is a mapping"),
        (FILE.replace("poisson", "posson"), {}, "posson"),
        (FILE.replace("poisson", "posson"), {"arrivals": "poisson"}, "--arrivals"),
        ("", {"concurrency": 4}, "--concurrency"),
        ("", {"trace_header": "h.yaml"}, "--trace-data"),
        ("", {"trace_header": "h.yaml", "trace_data": "d.csv", "num_requests": 5}, "--num-req"),
        ("", {"trace_header": "h.yaml", "trace_data": "d.csv"}, "h.yaml"),
        ("", {"arrivals": "random"}, "--arrivals random"),
        ("", {"num_requests": 0}, "--horizon"),
        ("", {"workload": "chatbott", "arrivals": "poisson"}, "chatbott"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(load_of, make_config, tmp_path, text, options, problem):
    def everything():
        make_config(**options).check()
        load_of(**options)[1](8.0)

    if text:
        (tmp_path / "given.yaml").write_text(text)
        options = {**options, "workload_spec": str(tmp_path / "given.yaml")}
    with pytest.raises(BlisError, match=problem):
        everything()


@pytest.mark.parametrize("workload", ["distribution", "chatbot"])
def test_gaps_may_be_drawn(load_of, workload):
    equal_load, equal = load_of(workload=workload, rate=10.0)
    drawn_load, drawn = load_of(workload=workload, rate=10.0, arrivals="poisson")
    assert drawn_load.rate == equal_load.rate
    gaps = {b - a for a, b in zip(times(equal(10.0)), times(equal(10.0))[1:], strict=False)}
    assert len(gaps) == 1
    assert (
        len({b - a for a, b in zip(times(drawn(10.0)), times(drawn(10.0))[1:], strict=False)}) > 9
    )
    few, many = drawn(10.0, requests=20), drawn(10.0, requests=200)
    assert times(few) == times(many)[:20]
    mean = sum(r.prompt_len for r in many) / 200
    assert mean == pytest.approx(
        sum(r.prompt_len for r in equal(10.0, requests=200)) / 200, rel=0.2
    )
    assert {r.deadline - r.arrival for r in many} == {300_000_000}


@pytest.fixture
def trace(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--rate", "10", "--num-requests", "60", "--output-tokens", "20"]
    options += ["--output-tokens-stdev", "5", "--timeout", "7", "--trace-output", "day"]
    assert main(["run", "--model", "qwen/qwen3-14b", *options]) == 0
    capsys.readouterr()
    return {"trace_header": "day.yaml", "trace_data": "day.csv"}


def test_a_trace_is_played_faster(load_of, trace):
    load, run = load_of(**trace)
    assert load.rate == pytest.approx(10.0, rel=1e-3)
    assert load.fixed_requests(20.0, None) == 60
    as_recorded, fast = run(load.rate), run(2 * load.rate)
    assert times(as_recorded) == list(
        read_trace("day.yaml", "day.csv").rows.column("arrival_time_us")
    )
    assert times(fast) == [round(time / 2) for time in times(as_recorded)]
    assert [r.prompt_len for r in fast] == [r.prompt_len for r in as_recorded]
    assert {r.deadline - r.arrival for r in fast} == {7_000_000}  # patience is not scaled
    assert all(r.e2e >= 0 for r in run(50 * load.rate))  # nor does the trace end too early


def test_a_trace_without_a_rate(load_of, trace, tmp_path):
    lines = (tmp_path / "day.csv").read_text().splitlines(keepends=True)
    (tmp_path / "one.csv").write_text("".join(lines[:2]))
    with pytest.raises(BlisError, match="at least two requests"):
        load_of(trace_header="day.yaml", trace_data="one.csv")
