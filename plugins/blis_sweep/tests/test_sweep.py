"""``blis sweep`` from end to end, in small."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pytest
from pyarrow import parquet

from blis_core.api import BlisError, simulate
from blis_sweep.metrics import measure
from blis_sweep.sweep import sweep as sweep_from_python
from blis_sweep.worker import Setup, Task, run_task
from plugins.blis_sweep.tests.sweeping import InThisProcess

MODES = "latency-option=mode=;mode=a;step_us=20000"


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_grid_over_seeds(marked_elsewhere, folder, starts):
    arguments = ["--grid", "num-instances=1,2", "--grid", MODES, "--seeds", "3"]
    arguments += ["--out", "runs.csv", "--summary", "means.csv"]
    code, out, err = marked_elsewhere(*arguments)
    assert (code, len(starts())) == (0, 18)
    assert err.startswith("blis: sweep: 18 runs: 18 simulated, in ")
    head, units, _, first, *_ = out.splitlines()
    assert units.split() == ["requests/s", "ms", "ms", "ms"]
    assert head.split()[:3] == ["num-instances", "latency-option", "runs"]
    assert "p99 TTFT" in head
    assert first.split()[:3] == ["1", "mode=", "3"]
    assert out.endswith("Means over 3 seeds ± 95 % intervals of the mean.\n")

    found = rows(folder / "runs.csv")
    assert [row["seed"] for row in found[:6]] == ["42", "43", "44"] * 2
    assert Counter(row["point"] for row in found)["num-instances=2, latency-option=mode=a"] == 3
    assert {row["status"] for row in found} == {"ok"}
    # a simulation of its own says the same
    last = found[-1]
    assert last["latency_option"] == "step_us=20000"
    own = measure(
        simulate(
            model="acme/small",
            latency_model="marked",
            latency_option=("step_us=20000",),
            total_kv_blocks=1000,
            num_requests=5,
            output_tokens=4,
            output_tokens_stdev=2,
            num_instances=2,
            seed=44,
        )
    )
    assert {name: float(last[name]) for name in own} == own
    # with the same seed all points got the same requests
    assert len({(row["seed"], row["traffic"]) for row in found}) == 3

    means = rows(folder / "means.csv")
    (row,) = (r for r in means if r["metric"] == "ttft_p99_ms" and r["point"] == last["point"])
    values = [float(r["ttft_p99_ms"]) for r in found[-3:]]
    assert float(row["mean"]) == pytest.approx(sum(values) / 3)
    assert float(row["low"]) <= float(row["mean"]) <= float(row["high"])
    assert (row["unit"], row["seeds"]) == ("ms", "3")

    # again: nothing is simulated, and everything is the same
    written = (folder / "runs.csv").read_bytes()
    code, again, err = marked_elsewhere(*arguments)
    assert (code, again, len(starts())) == (0, out, 18 + 1)  # the one of this test
    assert err == "blis: sweep: 18 runs: 0 simulated, 18 known before\n"
    assert (folder / "runs.csv").read_bytes() == written
    # more seeds: only those that are new
    marked_elsewhere(*arguments[:4], "--seeds", "4")
    assert len(starts()) == 25
    # no cache: all over again
    marked_elsewhere("--grid", "num-instances=1,2", "--no-cache")
    assert len(starts()) == 27


def test_a_changed_file_is_simulated_again(marked, folder, starts):
    (folder / "p.yaml").write_text("scheduler: fcfs\n")
    arguments = ["--grid", "policy-config=p.yaml"]
    marked(*arguments)
    marked(*arguments)
    assert len(starts()) == 1
    (folder / "p.yaml").write_text("scheduler: sjf\n")
    marked(*arguments)
    assert len(starts()) == 2
    # the plugin's file counts, too
    with (folder / "marked.py").open("a") as file:
        file.write("# another version\n")
    marked(*arguments)
    assert len(starts()) == 3


def test_failures_are_isolated(marked, folder, starts):
    arguments = ["--grid", "latency-option=mode=a;mode=fail;mode=b;mode=c", "--seeds", "2"]
    code, out, err = marked(*arguments, "--out", "runs.csv", "--compare", "latency-option=mode=a")
    assert code == 1
    assert "8 simulated, 2 failed" in err
    found = rows(folder / "runs.csv")
    failed = [row for row in found if row["status"] == "failed"]
    assert [row["error"] for row in failed] == ["RuntimeError: no luck"] * 2
    assert {row["latency_option"] for row in failed} == {"mode=fail"}
    assert all(row["ttft_p99_ms"] == "" for row in failed)
    assert all(float(row["ttft_p99_ms"]) > 0 for row in found if row not in failed)
    assert "Runs that failed\n  latency-option=mode=fail, seed 42: RuntimeError: no luck" in out
    assert "mode=b and latency-option=mode=a are equal" in out
    assert "mode=fail" not in out.partition("Compared")[2].partition("Runs that failed")[0]
    # what failed is tried again, what did not is not
    before = len(starts())
    marked(*arguments)
    assert [mode for _, mode in starts()[before:]] == ["fail", "fail"]


def test_everything_failed(marked):
    code, out, _ = marked(
        "--grid", "latency-option=mode=fail", "--compare", "latency-option=mode=fail"
    )
    assert code == 1
    assert out.splitlines()[3].split() == ["mode=fail", "0", "-", "-", "-", "-"]
    assert "Nothing can be compared" in out


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("scheduler=fcfs,fifo", "point scheduler=fifo: --scheduler: unknown scheduler"),
        ("num-instances=1,0", "point num-instances=0: --num-instances: must be at least 1, got 0"),
        ("latency-option=mode=;mod=a", "point latency-option=mod=a: --latency-option mod: latency"),
        (
            "latency-model=marked,mark",
            "point latency-model=mark: --latency-model: unknown",
        ),
        ("workload-spec=;w.yaml", "point workload-spec=w.yaml: cannot read workload spec"),
        ("policy-config=;p.yaml", "point policy-config=p.yaml: cannot read policy file p.yaml"),
        (
            "workload=distribution,chats",
            "point workload=chats: --workload: unknown",
        ),
    ],
)
def test_a_wrong_point_is_found_before_anything_is_simulated(marked, starts, grid, message):
    code, out, err = marked("--grid", grid, "--seeds", "2")
    assert (code, out, starts()) == (1, "", [])
    assert err.startswith(f"blis: error: {message}")
    assert err.count("\n") == 1
    assert "--skip-invalid" in err


def test_several_wrong_points(marked):
    _, _, err = marked("--grid", "scheduler=fcfs,a,b")
    assert "(2 of 3 points cannot be simulated); --skip-invalid leaves" in err
    _, _, err = marked("--grid", "scheduler=a,b")
    assert err.endswith("(2 of 2 points cannot be simulated)\n")
    _, _, err = marked("--seeds", "2", base=["--scheduler", "a"])
    assert err.startswith("blis: error: --scheduler: unknown scheduler 'a'")


def test_wrong_points_can_be_left_out(marked, folder):
    code, out, err = marked("--grid", "scheduler=fcfs,fifo", "--skip-invalid", "--out", "r.csv")
    assert code == 0
    assert [row["status"] for row in rows(folder / "r.csv")] == ["ok", "invalid"]
    assert (
        "Points that cannot be simulated\n  scheduler=fifo: --scheduler: unknown scheduler" in out
    )
    assert "sweep: 1 run: 1 simulated" in err
    code, _, err = marked("--grid", "scheduler=fifo", "--skip-invalid")
    assert code == 1
    assert "unknown scheduler" in err


def test_equal_points_are_simulated_once(marked, folder, starts):
    points = ["--point", "a:", "--point", "b: --scheduler fcfs", "--point", "c: --num-instances 1"]
    code, out, err = marked(*points, "--compare", "a", "--out", "runs.csv")
    assert code == 0
    assert len(rows(folder / "runs.csv")) == 3
    assert len(starts()) == 2  # c is a, said in other words
    assert "c and a are equal on p99 TTFT, with one seed" in out
    assert "3 runs: 2 simulated" in err


def test_a_comparison(marked):
    options = ["--point", "slow: --latency-option step_us=30000", "--point", "fast:"]
    code, out, _ = marked(*options, "--compare", "slow", "--seeds", "3", "--metrics", "e2e_p99_ms")
    assert code == 0
    assert "\n  fast beats slow on p99 E2E by " in out
    assert out.rstrip().endswith("3 seeds")
    assert "same requests" not in out
    _, out, _ = marked("--grid", "rate=1,5", "--compare", "rate=1", "--seeds", "2")
    assert "rate=5 beats rate=1 on throughput by " in out
    assert "but not the same requests" in out


def test_json(marked):
    options = ["--grid", "num-instances=1,2", "--compare", "num-instances=1", "--output", "json"]
    code, out, _ = marked(*options)
    found = json.loads(out)
    assert code == 0
    assert [run["num_instances"] for run in found["runs"]] == [1, 2]
    assert found["seeds"] == [42]
    assert {row["metric"] for row in found["summary"]} >= {"ttft_p99_ms", "cache_hit_rate"}
    assert all(row["low"] is None for row in found["summary"])
    comparison = found["comparisons"][0]
    assert comparison["difference"]["low"] is None
    assert comparison["same_traffic"] is True
    assert comparison["sentence"]
    _, out, _ = marked(*options, "--seeds", "2")
    assert all(row["low"] <= row["mean"] <= row["high"] for row in json.loads(out)["summary"])


def test_parquet_holds_what_csv_holds(marked, folder):
    grid = ["--grid", "rate=0.5,4", "--grid", "latency-option=mode=a;mode=fail", "--seeds", "2"]
    marked(*grid, "--out", "runs.parquet", "--summary", "means.parquet")
    marked(*grid, "--out", "runs.csv", "--summary", "means.csv")
    for name in ("runs", "means"):
        table = parquet.read_table(folder / f"{name}.parquet")
        listed = rows(folder / f"{name}.csv")
        assert table.column_names == list(listed[0])
        assert table.num_rows == len(listed)
        for column in table.column_names:
            for value, text in zip(table[column].to_pylist(), listed, strict=True):
                if value is None:
                    assert text[column] == ""
                else:
                    assert type(value)(text[column]) == value
    table = parquet.read_table(folder / "runs.parquet")
    assert [str(table[name].type) for name in ("rate", "seed", "status", "ttft_p99_ms")] == [
        "double",
        "int64",
        "string",
        "double",
    ]


def test_a_dry_run(marked, starts):
    marked("--grid", "num-instances=1")
    code, out, err = marked("--grid", "num-instances=1,2", "--seeds", "2", "--dry-run")
    assert (code, err) == (0, "")
    assert out == (
        "num-instances=1\nnum-instances=2\n\n"
        "2 points, seeds 42, 43: 4 runs, 1 of them known already\n"
    )
    assert len(starts()) == 1


def test_what_is_incomplete_gets_a_column(marked):
    _, out, _ = marked("--grid", "admission-policy=always-admit,reject-all")
    assert "incomplete requests" in out.splitlines()[0]
    _, out, _ = marked("--grid", "num-instances=1")
    assert "incomplete" not in out


def test_what_a_plugin_prints_is_no_result(marked_elsewhere):
    code, out, _ = marked_elsewhere("--grid", "latency-option=mode=print", "--output", "json")
    assert code == 0
    assert json.loads(out)["runs"][0]["status"] == "ok"


def test_a_warning_is_given_once(sweep):
    options = ["--grid", "rate=1,2", "--dry-run", "--", "run", "--model", "qwen/qwen3-14b"]
    _, _, err = sweep(*options, "--total-kv-blocks", "1500")
    assert err.count("does not fit into 1500 KV blocks") == 1
    assert "(point" not in err
    grid = ["--grid", "total-kv-blocks=1500,5000", "--grid", "tp=1,2"]
    _, _, err = sweep(*grid, *options)
    assert "(point total-kv-blocks=1500, tp=1, rate=1 and 3 others)" in err


def test_an_input_that_changes_meanwhile(folder, in_this_process, monkeypatch):
    (folder / "p.yaml").write_text("scheduler: fcfs\n")
    document = {
        "base": {"model": "qwen/qwen3-14b", "num-requests": 3, "policy-config": "p.yaml"},
        "seeds": 2,
    }

    original = InThisProcess.run

    def run(self, setup, tasks):
        for outcome in original(self, setup, tasks):
            yield outcome
            (folder / "p.yaml").write_text("scheduler: sjf\n")

    monkeypatch.setattr(InThisProcess, "run", run)
    report = sweep_from_python(document)
    assert [o.finished is not None for o in report.outcomes] == [True, False]
    assert "p.yaml has changed while the sweep was running" in report.outcomes[1].error
    assert len(list((folder / "cache").rglob("*.json"))) == 1


def test_a_worker_with_other_code_is_found(in_this_process):
    task = Task(index=0, replays=False, options={"model": "qwen/qwen3-14b"})
    outcome = run_task(Setup(code="another"), task)
    assert outcome.finished is None
    assert "other versions of blis-core or of plugins" in outcome.error


def test_from_python(folder):
    report = sweep_from_python(
        {
            "base": {"model": "qwen/qwen3-14b", "num_requests": 5},
            "grid": {"num_instances": [1, 2]},
            "seeds": [1, 2],
            "compare": {"baseline": "num_instances=1", "metrics": ["ttft_mean_ms"]},
        },
        cache=None,
        jobs=2,
    )
    listed = list(report.rows())
    assert [(row["num_instances"], row["seed"]) for row in listed] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    (comparison,) = report.comparisons()
    assert comparison.difference.count == 2
    assert not (folder / "cache").exists()
    with pytest.raises(BlisError, match="sweep: unknown key 'gird'"):
        sweep_from_python({"gird": {}})


def test_a_replay(sweep, folder, in_this_process):
    base = ["run", "--model", "qwen/qwen3-14b", "--num-requests", "5", "--trace-output", "t"]
    from blis_core.cli.main import main

    assert main(base) == 0
    replay = ["replay", "--model", "qwen/qwen3-14b", "--trace-header", "t.yaml"]
    replay += ["--trace-data", "t.csv"]
    code, out, err = sweep(
        "--grid", "num-instances=1,2", "--compare", "num-instances=1", "--", *replay
    )
    assert code == 0, err
    assert "num-instances=2" in out
    assert "same requests" not in out
    code, out, err = sweep("--out", "t.csv", "--", *replay)
    assert (code, out) == (2, "")
    assert "--out: t.csv is read by the simulations" in err
