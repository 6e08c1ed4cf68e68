"""Observe against serve: what is measured is what was simulated.

The machine that runs the tests may be busy, so bounds are wide where clocks are involved. What must
hold on any machine: nothing is lost, no token comes before its simulated time, and the workload
that arrives is the one that was meant.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from blis_core.cli.main import main
from plugins.blis_observe.tests.serving import serving
from plugins.blis_observe.tests.test_serve import metrics

INSTANCE = ("--model", "qwen/qwen3-14b", "--latency-model", "trained-physics")
WORKLOAD = """\
version: "2"
seed: 7
aggregate_rate: 20
num_requests: 80
clients:
  - id: chat
    rate_fraction: 0.7
    streaming: true
    arrival: {process: poisson}
    input_distribution: {type: gaussian, params: {mean: 300, std_dev: 100, min: 20, max: 800}}
    output_distribution: {type: gaussian, params: {mean: 40, std_dev: 20, min: 4, max: 90}}
  - id: batch
    rate_fraction: 0.3
    arrival: {process: gamma, cv: 2.0}
    input_distribution: {type: constant, params: {value: 500}}
    output_distribution: {type: constant, params: {value: 10}}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "day.yaml").write_text(WORKLOAD)


def observe(url, *options):
    """Rows of the trace, by request id."""
    argv = ["observe", "--server-url", url, "--model", "qwen/qwen3-14b", *options]
    assert main([*argv, "--trace-header", "t.yaml", "--trace-data", "t.csv"]) == 0
    with Path("t.csv").open(newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: int(row["request_id"]))


def test_run_serve_observe_replay_calibrate(capsys):
    assert main(["run", *INSTANCE, "--workload-spec", "day.yaml", "--output", "json"]) == 0
    expected = json.loads(capsys.readouterr().out)["cluster"]
    with serving(model=INSTANCE) as url:
        rows = observe(url, "--workload-spec", "day.yaml", "--record-itl", "--skip-empty-chunks")
    assert {row["status"] for row in rows} == {"ok"}
    capsys.readouterr()
    trace = ("--trace-header", "t.yaml", "--trace-data", "t.csv")
    replay = ["replay", *INSTANCE, *trace, "--results-path", "sim.json", "--output", "json"]
    assert main(replay) == 0
    replayed = json.loads(capsys.readouterr().out)["cluster"]
    # workload: what was recorded is, as far as a simulation can tell, what was meant
    assert replayed == expected
    calibrate = ["calibrate", *trace, "--sim-results", "sim.json", "--report", "report.json"]
    assert main([*calibrate, "--itl-data", "t.itl.csv"]) == 0
    report = json.loads(Path("report.json").read_text())
    assert report["trace_info"]["matched_pairs"] == 80
    assert report["trace_info"]["token_mismatches"] == 0
    whole = report["metrics"]["e2e"]
    assert whole["request_level"]["pearson_r"] > 0.9
    # step time and queue
    assert report["metrics"]["itl"]["workload_level"]["mean_percent_error"] < 0.3
    assert report["metrics"]["ttft"]["workload_level"]["mean_error"] < 0  # HTTP takes its time
    assert whole["workload_level"]["mean_percent_error"] < 0.3


def test_prefixes_are_found_by_the_server():
    """The texts of a group begin alike, so the simulated cache hits as in a simulation."""
    with serving() as url:
        observe(url, "--rate", "200", "--num-requests", "20", "--prefix-tokens", "320",
                "--prompt-tokens", "50", "--prompt-tokens-stdev", "5", "--output-tokens", "3",
                "--output-tokens-stdev", "2", "--output-tokens-max", "5")  # fmt: skip
        assert metrics(url)["vllm:prefix_cache_hit_rate",] > 0.6


def test_tokens_per_word_are_measured():
    """A server that counts 1.6 tokens in a word gets so many words fewer."""
    with serving("--tokens-per-word", "1.6") as url:
        rows = observe(url, "--workload-spec", "day.yaml", "--num-requests", "30")
    for row in rows:
        assert abs(int(row["server_input_tokens"]) - int(row["input_tokens"])) <= 3


def test_users_and_sessions():
    """Users wait for their answers: never more requests in flight than users."""
    with serving() as url:
        rows = observe(url, "--concurrency", "4", "--num-requests", "40", "--output-tokens", "6",
                       "--output-tokens-stdev", "3", "--output-tokens-max", "9")  # fmt: skip
    assert len(rows) == 40
    assert {row["status"] for row in rows} == {"ok"}
    events = sorted(
        event
        for row in rows
        for event in ((int(row["last_chunk_time_us"]), -1), (int(row["send_time_us"]), 1))
    )
    in_flight = most = 0
    for _, change in events:
        in_flight += change
        most = max(most, in_flight)
    assert most == 4


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="memory is looked up in /proc")
def test_hundreds_of_streams_at_once():
    """No error, a chunk for every token, flat memory, and nothing before its time."""
    options = ("--max-num-running-reqs", "400", "--time-scale", "2")
    with serving(*options, model=INSTANCE) as url:
        sizes = []
        for round_ in range(2):
            before = metrics(url)
            rows = observe(url, "--concurrency", "400", "--num-requests", "400", "--record-itl",
                           "--prompt-tokens", "40", "--prompt-tokens-stdev", "10",
                           "--output-tokens", "12", "--output-tokens-stdev", "4",
                           "--output-tokens-max", "20", "--seed", str(round_))  # fmt: skip
            sizes.append(memory_of(url))
            assert len(rows) == 400
            assert {row["status"] for row in rows} == {"ok"}
            for row in rows:
                assert int(row["num_chunks"]) == int(row["output_tokens"]) + 1  # and the usage
            after = metrics(url)
            for name, column in (("time_to_first_token", "first"), ("e2e_request_latency", "last")):
                simulated = grown(before, after, f"vllm:{name}_seconds_sum")
                seen = sum(
                    int(row[f"{column}_chunk_time_us"]) - int(row["send_time_us"]) for row in rows
                )
                assert seen / 1e6 > simulated * 0.98
    assert sizes[1] < sizes[0] * 1.2


def grown(before, after, name):
    return after[name,] - before[name,]


def memory_of(url):
    """Resident memory in pages of the process that listens at ``url``."""
    port = f":{urlsplit(url).port:04X} "
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    sockets = {line.split()[9] for line in lines if port in line[:30] and line.split()[3] == "0A"}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            if any(f"socket:[{inode}]" == str(link.readlink()) for link in folder.iterdir()
                   for inode in sockets):  # fmt: skip
                return int((folder.parent / "statm").read_text().split()[1])
        except OSError:
            continue
    raise AssertionError("no such process")
