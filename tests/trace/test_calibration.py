"""Calibration, against the reports of the reference, and what the reference does not do."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blis_core.cli.main import main
from blis_core.errors import BlisError
from blis_core.results import calibration_file
from blis_core.trace import statistics
from blis_core.trace.calibration import Calibration, CalibrationOptions, calibrate
from blis_core.trace.chunk_times import ChunkTime
from blis_core.trace.rows import TraceRow, TraceRows
from blis_core.trace.simulated import SimulatedRequest
from blis_core.trace.tracev2 import NetworkInfo, Trace, TraceHeader

DATA = Path(__file__).parents[1] / "data" / "trace"
ITL = ["--itl-data", str(DATA / "calibrate/itl.csv")]
REPORTS = {
    "default": [],
    "rtt0": ["--network-rtt-us", "0"],
    "warm0_rtt500_bw10": (
        "--warmup-requests 0 --network-rtt-us 500 --network-bandwidth-mbps 10".split()
    ),
    "itl": ITL,
    "warm12": ["--warmup-requests", "12"],
    "warm13": ["--warmup-requests", "13", *ITL],
}


def command(folder: Path, results: str, report: Path) -> list[str]:
    argv = ["calibrate", "--trace-header", str(folder / "trace.yaml")]
    argv += ["--trace-data", str(folder / "trace.csv"), "--sim-results", str(folder / results)]
    return [*argv, "--report", str(report)]


def compared(report: Path) -> Any:
    """A report without the texts, which are our own."""
    document = json.loads(report.read_text())
    document.pop("known_limitations", None)
    return document


@pytest.mark.parametrize("name", REPORTS)
def test_reports_of_the_reference(name: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    argv = command(DATA / "calibrate", "sim_results.json", report)
    assert main([*argv, *REPORTS[name]]) == 0
    assert compared(report) == compared(DATA / f"calibrate/{name}.report.json")
    assert len(json.loads(report.read_text())["known_limitations"]) == 3


def test_a_recorded_server(tmp_path: Path) -> None:
    folder, report = DATA / "observe_chain", tmp_path / "report.json"
    argv = command(folder, "fixed.results.json", report)
    assert main([*argv, "--itl-data", str(folder / "itl.csv")]) == 0
    assert compared(report) == compared(folder / "report.json")


def test_a_recorded_server_is_replayed_as_by_the_reference(tmp_path: Path) -> None:
    folder, results = DATA / "observe_chain", tmp_path / "r.json"
    argv = (
        "replay --model qwen/qwen3-14b --latency-model blackbox --hardware H100 --tp 1 "
        "--beta-coeffs 5000,15,10 --alpha-coeffs 200,1,5 --total-kv-blocks 2000"
    ).split()
    argv += ["--trace-header", str(folder / "trace.yaml")]
    argv += ["--trace-data", str(folder / "trace.csv"), "--results-path", str(results)]
    assert main(argv) == 0
    known = json.loads((folder / "fixed.results.json").read_text())
    assert json.loads(results.read_text()) == known


# ------------------------------------------------------------------------------------------- rules


def row(number: int, ttft: int = 100, e2e: int = 1000, **fields: Any) -> TraceRow:
    given = {"input_tokens": 10, "output_tokens": 5, "send_time_us": 10**15, "status": "ok"}
    given |= {"first_chunk_time_us": 10**15 + ttft, "last_chunk_time_us": 10**15 + e2e}
    return TraceRow(number, **(given | fields))


def result(number: int, ttft: float = 110, e2e: float = 1100, **fields: Any) -> SimulatedRequest:
    return SimulatedRequest(number, ttft, e2e, **{"input_tokens": 10, "output_tokens": 5, **fields})


def outcome(
    rows: list[TraceRow],
    results: list[SimulatedRequest],
    chunks: list[ChunkTime] | None = None,
    header: TraceHeader | None = None,
    **options: Any,
) -> Calibration:
    trace = Trace(header or TraceHeader(trace_version=2, time_unit="us"), TraceRows(rows))
    return calibrate(trace, results, CalibrationOptions(**options), chunks or ())


def test_a_good_simulation_gives_no_warning() -> None:
    made = outcome([row(i) for i in range(3)], [result(i) for i in range(3)])
    assert made.warnings == ()
    assert made.counts.requests == made.counts.matched == 3
    assert made.metrics["ttft"].workload_level.mean_error == 10


def test_the_last_of_equal_ids_counts() -> None:
    made = outcome([row(0)], [result(0, 5, 5), result(0, 107, 1000)])
    assert made.metrics["ttft"].workload_level.sim_mean == 107


@pytest.mark.parametrize(
    ("rows", "results", "words"),
    [
        ([row(0, status="timeout"), row(1)], 2, ["1 of 2 compared requests", "(timeout)"]),
        ([row(0, status=""), row(1, status="error")], 2, ["2 of 2 compared", "(error, none)"]),
        ([row(0, input_tokens=9), row(1)], 2, ["1 of 2 matched requests have other numbers"]),
        ([row(0, output_tokens=4)], 1, ["1 of 1 matched requests have other numbers"]),
        (
            [row(0, input_tokens=7, prefix_group="g", prefix_length=3)],
            1,
            ["for 1 of them because input_tokens of the trace leaves out the prefix"],
        ),
        (
            [row(0), row(1, first_chunk_time_us=0, last_chunk_time_us=0)],
            2,
            ["1 of 2 matched requests are left out", "different origins"],
        ),
        ([row(0, send_time_us=0)], 1, ["more than a day", "different origins"]),
        (
            [row(0), row(1, send_time_us=0, first_chunk_time_us=0, last_chunk_time_us=0)],
            2,
            ["1 of 2 compared requests have no times"],
        ),
    ],
)
def test_doubts(rows: list[TraceRow], results: int, words: list[str]) -> None:
    (warning,) = outcome(rows, [result(i) for i in range(results)]).warnings
    assert all(word in warning for word in words), warning


def test_doubts_about_the_header() -> None:
    header = TraceHeader(trace_version=3, time_unit="ms")
    version, unit = outcome([row(0)], [result(0)], header=header).warnings
    assert "version 3" in version
    assert "'ms'" in unit


def test_doubts_reach_the_user(tmp_path: Path, capsys: Any) -> None:
    assert main(command(DATA / "calibrate", "sim_results.json", tmp_path / "report.json")) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "1 of 10 compared requests have a status other than ok (error)" in shown.err
    assert "1 of 11 matched requests have other numbers of tokens" in shown.err
    assert "different origins" in shown.err


def test_failed_requests_can_be_left_out() -> None:
    rows = [row(0), row(1, 900, 9000, status="error"), row(2, status="incomplete")]
    results = [result(i) for i in range(3)]
    assert outcome(rows, results).counts.matched == 3
    made = outcome(rows, results, only_ok=True)
    assert (made.counts.matched, made.counts.failed, made.counts.requests) == (1, 2, 1)
    assert made.warnings == ()
    with pytest.raises(BlisError, match="2 are left out because they failed"):
        outcome(rows[1:], results, only_ok=True)


@pytest.mark.parametrize(
    ("header", "option", "excluded"),
    [(2, None, 2), (2, 0, 0), (2, 5, 3), (-4, None, 0), (0, -3, 0)],
)
def test_warm_up(header: int, option: int | None, excluded: int) -> None:
    rows = [row(i) for i in (0, 1, 4, 7)]
    made = outcome(
        rows,
        [result(i) for i in range(9)],
        header=TraceHeader(trace_version=2, warm_up_requests=header),
        warmup_requests=option,
    )
    assert made.counts.excluded == excluded
    assert made.counts.requests == 4


@pytest.mark.parametrize(
    ("ms", "option", "rtt"),
    # a float times 1000 may fall short of the whole number: reference quirk 05a-10
    [(1.001, None, 1000), (-2.0, None, 0), (math.nan, None, 0), (1.5, 7, 7), (1.5, 0, 0)],
)
def test_round_trip_time(ms: float, option: int | None, rtt: int) -> None:
    header = TraceHeader(trace_version=2, network=NetworkInfo(measured_rtt_ms=ms))
    made = outcome([row(0)], [result(0)], header=header, network_rtt_us=option)
    assert made.metrics["ttft"].workload_level.sim_mean == 110 + rtt


def test_times_between_tokens() -> None:
    chunks = [ChunkTime(0, i, t) for i, t in ((2, 30), (0, 0), (1, 20), (3, 25))]
    chunks += [ChunkTime(1, 0, 5), ChunkTime(1, 1, 4)]  # never advances
    chunks += [ChunkTime(2, 0, 5)]  # no second one
    made = outcome([row(i) for i in range(3)], [result(i) for i in range(3)], chunks)
    assert made.metrics["itl"].count == 1
    assert made.metrics["itl"].workload_level.real_mean == 15
    assert made.metrics["itl"].workload_level.sim_mean == (1100 - 110) / 4
    assert made.counts.itl_dropped == 1
    assert "1 requests have chunk times that never advance" in made.warnings[0]


@pytest.mark.parametrize(
    ("rows", "results", "options", "message"),
    [
        ([row(0)], [result(1)], {}, "no request of the trace is in the results"),
        ([row(0)], [result(0)], {"warmup_requests": 3}, "1 are left out as warm-up"),
        ([], [result(0)], {}, "no request of the trace is in the results"),
        ([row(0, -5, -5)], [result(0)], {}, "none of the 1 matched requests has usable times"),
        ([row(0)], [result(0)], {"network_rtt_us": -2}, "--network-rtt-us: must be at least 0"),
        ([row(0)], [result(0)], {"network_bandwidth_mbps": math.inf}, "must be finite, got inf"),
        ([row(0)], [result(0)], {"network_bandwidth_mbps": math.nan}, "must be finite, got nan"),
    ],
)
def test_nothing_to_compare(
    rows: list[TraceRow], results: list[SimulatedRequest], options: Any, message: str
) -> None:
    with pytest.raises(BlisError, match=message):
        outcome(rows, results, **options)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sim-results", ""], "--sim-results: is required"),
        (["--report", ""], "--report: is required"),
        (["--trace-data", "none.csv"], "cannot read none.csv"),
        (["--itl-data", "none.csv"], "cannot read none.csv"),
        (["--report", "no/such/folder.json"], "--report: folder no/such does not exist"),
        (["--network-bandwidth-mbps", "x"], "--network-bandwidth-mbps"),
        (["--network-rtt-us", "-2"], "--network-rtt-us"),
    ],
)
def test_wrong_options(flags: list[str], message: str, tmp_path: Path, capsys: Any) -> None:
    report = tmp_path / "report.json"
    assert main([*command(DATA / "calibrate", "sim_results.json", report), *flags]) != 0
    assert message in capsys.readouterr().err
    assert not report.exists()


def test_the_report_must_not_replace_what_is_read(capsys: Any) -> None:
    argv = command(DATA / "calibrate", "sim_results.json", DATA / "calibrate/trace.csv")
    assert main(argv) == 1
    assert "is the file of --trace-data" in capsys.readouterr().err


# -------------------------------------------------------------------------------------- statistics


def test_a_correlation_that_is_not_defined_is_zero() -> None:
    """Rounding makes the variance of equal values negative; the reference aborts."""
    equal = [1000.1] * 3
    n, total = 3, statistics.total(equal)
    assert n * statistics.total(v * v for v in equal) - total * total < 0
    assert statistics.pearson([1.0, 2.0, 4.0], equal) == 0
    rows = [row(0), row(1, 200), row(2, 400)]
    made = outcome(rows, [result(i, 1000.1) for i in range(3)])
    assert '"pearson_r": 0,' in calibration_file.render(made)


def test_figures_beyond_double_are_an_error() -> None:
    made = outcome([row(0), row(1)], [result(0, 1e308), result(1, 1e308)])
    with pytest.raises(BlisError, match="not a finite number"):
        calibration_file.render(made)


POSITIVE = st.floats(0, 1e9, allow_subnormal=False)


@settings(max_examples=100)
@example([(306828409.703125, 107779038.375), (306828411.703125, 107779039.375),
          (306828408.75, 107779040.375)])  # fmt: skip
@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=30))
def test_laws_of_a_comparison(pairs: list[tuple[float, float]]) -> None:
    real, sim = [r for r, _ in pairs], [s for _, s in pairs]
    made = statistics.compare(real, sim)
    level, single = made.workload_level, made.request_level
    assert made.count == len(pairs)
    for values, p50, p90, p99 in (
        (real, level.real_p50, level.real_p90, level.real_p99),
        (sim, level.sim_p50, level.sim_p90, level.sim_p99),
    ):
        slack = 1e-9 * max(values)
        assert min(values) - slack <= p50 <= p90 + slack
        assert p90 <= p99 + slack
        assert p99 <= max(values) + slack
    assert single.mape >= 0
    # the formula of the reference loses all its digits to values that hardly differ
    if all(max(values) - min(values) > 1e-3 * max(values) for values in (real, sim)):
        assert abs(single.pearson_r) < 1 + 1e-6
    assert (single.bias_direction == "") == (not any(real))
    assert single.quality in ("excellent", "good", "fair", "poor")
    same = statistics.compare(real, real)
    assert same.workload_level.mean_error == 0
    assert same.request_level.mape == 0
    assert same.request_level.bias_direction in ("neutral", "")


@pytest.mark.parametrize(
    ("mape", "r", "name"),
    [
        (0.09, 0.96, "excellent"),
        (0.10, 0.96, "good"),
        (0.09, 0.95, "good"),
        (0.20, 0.99, "fair"),
        (0.19, 0.85, "fair"),
        (0.35, 0.99, "poor"),
        (0.01, 0.70, "poor"),
    ],
)
def test_quality(mape: float, r: float, name: str) -> None:
    assert statistics.quality(mape, r) == name
