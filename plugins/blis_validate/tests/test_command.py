"""``blis validate`` from end to end, on data that a simulation has made."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path

import pytest

from blis_core.api import simulate
from blis_core.cli.main import main
from blis_validate.dataset import load_dataset
from blis_validate.runner import run_record
from blis_validate.scenario import Settings, configure, prompt_length


@pytest.fixture
def blis(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()  # what making the data set has said
        code = main(["validate", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def simulated(make_record, write_dataset, tmp_path):
    """A data set whose measurements are what the simulation says, times a factor."""

    def make(factor=1.0, **changes):
        record = make_record(**changes)
        (read,) = load_dataset(write_dataset(record)).experiments
        settings = Settings(options={"latency_model": "kernels", "semantics": "vllm"})
        outcome = run_record(read, prompt_length(read, [read]), tmp_path, settings)
        values = {name: value * factor for name, value in outcome.figures.values.items()}
        record["measured"] = {
            f"{kind}_ms": {
                name.partition("_")[2]: value
                for name, value in values.items()
                if name.startswith(kind)
            }
            for kind in ("ttft", "e2e", "itl")
        }
        record["measured"]["throughput"] = {"requests_per_s": values["throughput"]}
        return record

    return make


def test_a_simulation_agrees_with_itself(blis, simulated, write_dataset):
    path = write_dataset(simulated())
    code, out, err = blis(path, "--output", "json", "--max", "e2e_mean=0.001")
    assert (code, err) == (0, "")
    document = json.loads(out)
    for statistics in document["summary"]["simulated"].values():
        assert statistics["worst"] == pytest.approx(0.0, abs=1e-9)
    assert set(document["summary"]["simulated"]) >= {"ttft_p99", "e2e_mean", "itl_mean"}
    assert document["records"][0]["completed"] == 140


def test_errors_are_relative_to_what_was_measured(blis, simulated, write_dataset):
    path = write_dataset(simulated(factor=1.25))
    code, out, err = blis(path, "--output", "csv", "--max", "e2e_mean=19", "--max", "itl_mean=21")
    assert code == 1
    assert err == "blis: validate: limit exceeded: e2e_mean.mean=19: it is 20.00 %\n"
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["metric"] for row in rows} >= {"ttft_mean", "throughput"}
    assert all(float(row["error_percent"]) == pytest.approx(-20.0) for row in rows)


def test_text(blis, simulated, write_dataset):
    other = simulated(id="small-2", workload__stages=[{"rate_rps": 1.0, "duration_s": 20}])
    other["reference_predictions"] = {"somebody": {"e2e_ms": {"mean": 1.0}}}
    refused = simulated(id="small-3")
    refused["dp"] = 2
    path = write_dataset(simulated(factor=2.0), other, refused)
    code, out, _ = blis(path, "--jobs", "2")
    assert code == 0
    for part in (
        "By model: mean / median / worst",
        "Qwen/Qwen3-14B",
        "somebody",
        "-50.0",
        "Kept apart",
        "data parallel engines are simulated with expert",
        "KV blocks",
    ):
        assert part in out


def test_one_process_or_many_give_the_same(blis, simulated, write_dataset):
    path = write_dataset(simulated(), simulated(id="small-2", workload__output_tokens=20))
    outputs = {blis(path, "--output", "json", "--jobs", jobs)[1] for jobs in ("1", "2")}
    assert len(outputs) == 1


def test_an_overload_is_kept_apart(blis, simulated, write_dataset):
    hopeless = simulated(
        max_num_seqs=1, workload__stages=[{"rate_rps": 20.0, "duration_s": 60}], overload=True
    )
    code, out, _ = blis(write_dataset(hopeless), "--output", "json", "--max", "e2e_mean=1")
    document = json.loads(out)
    assert document["records"][0]["overload_simulated"] is True
    assert document["records"][0]["compared"] is False
    assert document["exceeded"] == ["e2e_mean.mean=1: no record can be compared"]
    assert code == 1


def test_what_a_latency_model_refuses_is_said(blis, simulated, write_dataset):
    record = simulated()
    record["hardware"] = "X1"
    code, out, _ = blis(write_dataset(record))
    assert code == 0
    assert "unknown GPU 'X1'" in out


def test_options_reach_the_latency_model(blis, simulated, write_dataset):
    path = write_dataset(simulated())
    for arguments in (["--latency-option", "scale=2"], ["--option-for", "small*:scale=2"]):
        _, out, _ = blis(path, "--output", "json", *arguments)
        errors = json.loads(out)["records"][0]["errors_percent"]["simulated"]
        assert errors["itl_mean"] == pytest.approx(100.0, rel=0.2)
    _, out, _ = blis(path, "--output", "json", "--option-for", "other:scale=2")
    assert json.loads(out)["records"][0]["errors_percent"]["simulated"]["itl_mean"] == 0.0


@pytest.fixture
def requests_listed(blis, write_dataset, tmp_path):
    """A burst that was measured request by request; steps last 1.25 times as long as simulated."""
    lengths = [(50 + 40 * i, 30 + 25 * (i % 4)) for i in range(12)]
    head = "arrival_s,input_tokens,output_tokens"
    rows = [f"{0.05 * i},{prompt},{output}" for i, (prompt, output) in enumerate(lengths)]
    (tmp_path / "burst.csv").write_text("\n".join([head, *rows]) + "\n")
    record = {
        "id": "burst",
        "model": "Qwen/Qwen3-14B",
        "hardware": "H100",
        "tp": 1,
        "workload": {"generator": "per-request trace", "trace": "burst.csv"},
        "measured": {"e2e_ms": {"mean": 1000}},
        "latency_options": {"measured_at": "engine"},
    }
    path = write_dataset(record)
    (read,) = load_dataset(path).experiments
    settings = Settings(
        options={
            "latency_model": "kernels",
            "semantics": "vllm",
            "latency_option": ("scale=1.25",),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        config = configure(read, 0.0, tmp_path, Path(folder), settings)
        done = {int(r.id.rpartition("_")[2]): r for r in simulate(config).requests}
    times = [
        f"{row},{(done[i].arrival + done[i].ttft) / 1e6},{(done[i].arrival + done[i].e2e) / 1e6}"
        for i, row in enumerate(rows)
    ]
    head += ",first_token_s,last_token_s"
    (tmp_path / "burst.csv").write_text("\n".join([head, *times]) + "\n")
    return path


def test_request_by_request(blis, requests_listed):
    same = ["--latency-option", "scale=1.25"]
    limits = ["--max", "request_e2e=0.01", "--min", "rank_e2e=0.999"]
    code, out, err = blis(requests_listed, *same, *limits, "--output", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)["records"][0]["requests"]
    assert (found["count"], found["missing"]) == (12, 0)
    assert found["e2e_mean"] == pytest.approx(0.0, abs=0.01)
    assert found["rank_e2e"] == found["rank_ttft"] == pytest.approx(1.0)

    code, out, err = blis(requests_listed, *limits, "--output", "csv")
    assert code == 1
    assert "limit exceeded: request_e2e.mean=0.01: it is" in err
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(out))}
    assert float(rows["request_e2e"]["error_percent"]) == pytest.approx(20, abs=3)
    assert float(rows["rank_e2e"]["predicted"]) > 0.99
    assert rows["rank_e2e"]["measured"] == rows["rank_e2e"]["error_percent"] == ""

    _, out, _ = blis(requests_listed)
    assert "Request by request: absolute errors, and rank correlation" in out


def test_a_rank_correlation_that_is_too_low(blis, requests_listed, tmp_path):
    table = tmp_path / "burst.csv"
    head, *rows = table.read_text().splitlines()
    cells = [row.split(",") for row in rows]
    last = [float(row[4]) - float(row[0]) for row in cells]
    for row, e2e in zip(cells, sorted(last, reverse=True), strict=True):
        row[4] = str(float(row[0]) + e2e)
    table.write_text("\n".join([head, *(",".join(row) for row in cells)]) + "\n")
    code, _, err = blis(requests_listed, "--min", "rank_e2e=0.9")
    assert code == 1
    assert "limit exceeded: rank_e2e=0.9: it is" in err
    assert err.endswith("in burst\n")


def test_ranks_that_nobody_measured(blis, simulated, write_dataset):
    code, _, err = blis(write_dataset(simulated()), "--min", "rank_ttft=0.5")
    assert code == 1
    assert "rank_ttft=0.5: no record can be compared" in err


def test_a_gpu_of_the_users(blis, simulated, write_dataset, tmp_path):
    record = simulated()
    record["hardware"] = "X1"
    figures = {"TFlopsPeak": 989, "BwPeakTBs": 3.35, "MemoryGiB": 80}
    (tmp_path / "gpus.json").write_text(json.dumps({"X1": figures}))
    code, out, _ = blis(
        *(write_dataset(record), "--hardware-config", "gpus.json", "--output", "json"),
        *("--option-for", "small-1:constants_of=H100"),
    )
    assert code == 0
    (found,) = json.loads(out)["records"]
    assert found["errors_percent"]["simulated"]["itl_mean"] == pytest.approx(0.0, abs=1e-9)
    assert "stand in for those of X1" in found["warnings"][0]


def test_a_block_count_without_its_share_of_memory_is_not_compared(blis, simulated, write_dataset):
    path = write_dataset(simulated(gpu_memory_utilization=None))
    _, out, _ = blis(path, "--output", "json")
    assert json.loads(out)["records"][0]["kv_blocks_error_percent"] is None


def test_only_some_records(blis, simulated, write_dataset):
    path = write_dataset(simulated(), simulated(id="other", set="second"))
    for pattern in ("other", "sec*"):
        _, out, _ = blis(path, "--output", "json", "--only", pattern)
        assert [record["id"] for record in json.loads(out)["records"]] == ["other"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max", "e2e=5"], "--max e2e=5: expected METRIC=PERCENT"),
        (["--max", "e2e_mean.mode=5"], "expected METRIC=PERCENT"),
        (["--max", "e2e_mean=much"], "not a number"),
        (["--max", "e2e_mean=nan"], "not a number"),
        (["--min", "e2e_mean=1"], "--min e2e_mean=1: expected METRIC=VALUE"),
        (["--min", "rank_e2e=2"], "not a number from -1 to 1"),
        (["--min", "rank_e2e=high"], "not a number from -1 to 1"),
        (["--only", "none"], "no record has such an id"),
        (["--option-for", "x"], "must have the form"),
    ],
)
def test_usage(blis, make_record, write_dataset, arguments, message):
    code, out, err = blis(write_dataset(make_record()), *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_keys_that_are_not_read_are_named(blis, simulated, write_dataset):
    record = simulated()
    record["colour"] = "red"
    code, _, err = blis(write_dataset(record))
    assert code == 0
    assert err.endswith("runs.json: not read: experiments.colour\n")


def test_inferred_blocks_are_no_measurement(blis, simulated, write_dataset):
    record = simulated()
    record["total_kv_blocks_source"] = "estimated"
    _, out, _ = blis(write_dataset(record), "--output", "json")
    assert json.loads(out)["records"][0]["kv_blocks_error_percent"] is None


def test_a_missing_data_set(blis):
    code, out, err = blis("none.json")
    assert (code, out) == (1, "")
    assert err.startswith("blis: error: cannot read data set none.json")
