"""Both commands from end to end."""

from __future__ import annotations

import csv
import io
import json
import shlex

import pytest

from blis_plan.load import make_load
from blis_plan.plan_command import PlanConfig
from blis_plan.plan_search import front, search
from blis_plan.probing import try_rate

FAST = [
    *("--model", "qwen/qwen3-14b", "--prompt-tokens", "400", "--output-tokens", "20"),
    *("--output-tokens-stdev", "5", "--num-requests", "400", "--seeds", "1"),
]
SATURATE = ["saturate", *FAST, "--slo", "ttft_p90=300ms"]
PLAN = ["plan", *FAST, "--jobs", "1", "--slo", "ttft_p90=300ms,e2e_mean=1s", "--rate", "100"]


def row(out, name):
    """What a listing says behind ``name``, lines joined."""
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"  {name} "))
    found = [lines[at].removeprefix(f"  {name}")]
    for line in lines[at + 1 :]:
        if not line.startswith("    "):
            break
        found.append(line)
    return " ".join(" ".join(found).split())


# --------------------------------------------------------------------------------------- saturate


def test_the_answer_holds_when_it_is_checked(blis):
    """The command that is shown gives the figures that are shown."""
    code, out, err = blis(*SATURATE, "--output", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["binding"] in ("ttft_p90", "load")
    assert found["rate"] < found["first_failing_rate"] <= found["rate"] * 1.021
    best = next(p for p in found["probes"] if p["rate"] == found["rate"])
    code, out, _ = blis(*SATURATE)
    assert code == 0
    assert f"Up to {found['rate']:g} requests/s within ttft_p90 <= 300 ms" in out
    command = shlex.split(row(out, "Check"))
    assert command[:2] == ["blis", "run"]
    _, out, _ = blis(*command[1:], "--output", "json")
    assert json.loads(out)["cluster"]["ttft_p90_ms"] == best["slos"]["ttft_p90"]["value"]


def test_it_repeats(blis):
    assert blis(*SATURATE) == blis(*SATURATE)


def test_another_seed_says_about_the_same(blis):
    options = [*SATURATE, "--output", "json", "--num-requests", "2000"]
    rates = [json.loads(blis(*options, "--seed", seed)[1])["rate"] for seed in "123"]
    assert max(rates) < 1.15 * min(rates)


def test_a_table_of_trials(blis):
    _, out, _ = blis(*SATURATE, "--output", "csv", "--precision", "10%")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [r["rate"] for r in rows[:3]] == ["1", "2", "4"]
    assert {r["met"] for r in rows} == {"true", "false"}
    for r in rows:
        assert (float(r["ttft_p90"]) <= 300) or r["met"] == "false"


def test_never(blis):
    code, out, err = blis(*SATURATE[:-1], "ttft_p90=1ms")
    assert (code, err) == (1, "")
    assert "No rate from 0.01 requests/s on meets ttft_p90 <= 1 ms" in out
    assert json.loads(blis(*SATURATE[:-1], "ttft_p90=1ms", "--output", "json")[1])["rate"] is None


def test_always(blis):
    code, out, _ = blis(*SATURATE, "--max-rate", "3")
    assert code == 0
    assert "At least 3 requests/s within ttft_p90 <= 300 ms: that is the highest rate" in out


def test_saturated_short_runs_are_pointed_out(blis):
    long = ["--output-tokens", "300", "--num-requests", "100"]
    code, out, _ = blis(*SATURATE[:-1], "ttft_p90=9s", *long)
    assert code == 0
    assert "the SLOs are met only because the run ends" in row(out, "Warning")
    assert row(out, "Binding") == "length of the run"


def test_rejected_requests_are_no_success(blis):
    """A gate that lets through what meets the SLO, and nothing else."""
    gate = ["--admission-policy", "token-bucket", "--token-bucket-refill-rate", "5000"]
    gate += ["--token-bucket-capacity", "2000"]
    _, out, _ = blis(*SATURATE, *gate, "--output", "json")
    found = json.loads(out)
    assert found["rate"] == pytest.approx(5000 / 400, rel=0.3)
    assert found["binding"] == "failed requests"
    failing = [p for p in found["probes"] if p["rate"] > 2 * found["rate"]]
    assert all(p["slos"]["ttft_p90"]["value"] is None for p in failing)


def test_a_trace(blis):
    assert blis("run", *FAST[:-2], "--rate", "5", "--trace-output", "day")[0] == 0
    code, out, _ = blis(*SATURATE[:9], "--seeds", "3", *("--slo", "ttft_p90=300ms"),
                        "--trace-header", "day.yaml", "--trace-data", "day.csv")  # fmt: skip
    assert code == 0
    assert "times the recorded traffic" in out


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--precision", "0"], 2, "--precision"),
        (["--precision", "0.01%"], 2, "at least 0.1%"),
        (["--min-rate", "3", "--max-rate", "2"], 2, "above --max-rate"),
        (["--min-rate", "0"], 1, "--min-rate"),
        (["--max-rate", "inf"], 2, "finite"),
        (["--slo", "nonsense"], 2, "--slo"),
        (["--seeds", "0"], 1, "--seeds"),
        (["--model", ""], 1, "--model"),
        (["--hardware", "H1000"], 1, "H1000"),
        (["--workload-spec", "missing.yaml"], 1, "missing.yaml"),
        (["--trace-output", "x"], 2, "--trace-output"),
        (["--output", "table"], 1, "--output"),
        (
            ["--model", "meta-llama/llama-3.1-70b-instruct", "--hardware", "H100", "--tp", "1"],
            1,
            "cannot be sized",
        ),
    ],
)
def test_mistakes_are_one_line(blis, arguments, code, problem):
    found, out, err = blis(*SATURATE, *arguments)
    assert (found, out) == (code, "")
    assert problem in err
    assert "Traceback" not in err


# ------------------------------------------------------------------------------------------- plan


def test_the_cheapest(blis):
    code, out, err = blis(*PLAN, "--tp", "1,2", "--price", "H100=2", "--output", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert {c["tp"] for c in found["candidates"]} == {1, 2}
    best = found["candidates"][0]
    assert best["status"] == "best"
    assert best["cost"] == 2.0 * best["gpus"] == 2.0 * best["tp"] * best["instances"]
    costs = [c["cost"] for c in found["candidates"] if c["status"] == "best"]
    assert costs == sorted(costs)
    for candidate in found["candidates"]:
        probes = {int(n): p["met"] for n, p in candidate["probes"].items()}
        assert all(met == (n >= candidate["instances"]) for n, met in probes.items())


def test_what_is_shown(blis):
    code, out, _ = blis(*PLAN, "--price", "H100=2", "--highest-rate")
    assert code == 0
    (line,) = [line for line in out.splitlines() if " x H100 " in line and "/s" in line]
    assert "up to" in out
    assert "Cheapest: " in out
    assert "headroom in" in out
    command = shlex.split(row(out, "Check"))
    assert "--num-instances" in command
    assert "--max-num-running-reqs" not in command
    _, checked, _ = blis(*command[1:], "--output", "json")
    shown = json.loads(checked)["cluster"]["ttft_p90_ms"]
    assert f"{shown:.3g} ms" in line or f"{shown:.0f} ms" in line


def test_gpus_are_counted_without_prices(blis):
    _, out, _ = blis(*PLAN, "--hardware", "H100,L40S")
    assert "Fewest GPUs: " in out
    assert "GPUs of different kinds count the same" in " ".join(out.split())


def test_how_many_processes_makes_no_difference(blis):
    several = ["--tp", "1,2", "--max-num-running-reqs", "8,256"]
    one = blis(*PLAN, *several)
    assert blis(*PLAN, *several, "--jobs", "2") == one
    assert one[0] == 0


def test_one_row_for_each_group(blis):
    _, out, _ = blis(*PLAN, "--tp", "1,2", "--hardware", "H100,H1000", "--output", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [r["status"] for r in rows].count("impossible") == 2
    assert all("H1000" in r["why"] for r in rows if r["status"] == "impossible")
    best = rows[0]
    assert (best["status"], best["why"]) == ("best", "")
    assert float(best["ttft_p90"]) <= 300


def test_nothing_is_good_enough(blis):
    code, out, _ = blis(*PLAN, "--num-instances", "1", "--rate", "1000")
    assert code == 1
    assert "Nothing that was tried carries 1000 requests/s" in out
    assert "1 instance does not carry it" in out


def test_a_model_that_fits_nowhere(blis):
    model = ["--model", "meta-llama/llama-3.1-70b-instruct"]
    code, out, _ = blis(*PLAN, *model, "--hardware", "L40S", "--tp", "1,8")
    assert code in (0, 1)
    assert "weights and activations need" in " ".join(out.split())


FILE = """
model: qwen/qwen3-14b
slo: {ttft_p90: 300ms, e2e_mean: 1s}
rate: 100
prompt_tokens: 400
output_tokens: 20
output_tokens_stdev: 5
num_requests: 400
seeds: 1
jobs: 1
hardware: [H100]
tp: [1, 2]
num_instances: 1-16
price: {H100: 2}
"""


def test_a_file_says_the_same_as_options(blis, tmp_path):
    (tmp_path / "plan.yaml").write_text(FILE)
    found = blis("plan", "--plan-file", "plan.yaml")
    assert found == blis(*PLAN, "--hardware", "H100", "--tp", "1,2", "--price", "H100=2")
    assert blis("plan", "--plan-file", "plan.yaml", "--price", "H100=4") != found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("modell: x", "did you mean 'model'?"),
        ("rate: fast", "plan.yaml: rate: must be a number, not fast (line 1)"),
        ("slo: {ttft_p90: 300}", "write 500ms"),
        ("tp: []", "tp: is empty"),
        ("tp: [true]", "tp: must be a text"),
        ("num_instances: {1: 2}", "--num-instances"),
        ("plan_file: other.yaml", "unknown key 'plan_file'"),
        ("rate: 1\nrate: 2", "given twice"),
        ("", "plan.yaml"),
    ],
)
def test_a_wrong_file(blis, tmp_path, text, problem):
    (tmp_path / "plan.yaml").write_text(text)
    code, out, err = blis(*PLAN[:1], "--slo", "ttft_p90=1s", "--model", "m/m", "--plan-file",
                          "plan.yaml") if "slo" not in text else blis(
        "plan", "--model", "m/m", "--plan-file", "plan.yaml")  # fmt: skip
    assert (code != 0, out) == (True, "")
    assert problem in err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--tp", "0"], "--tp"),
        (["--num-instances", "4-1"], "--num-instances"),
        (["--price", "L40S=1"], "none for H100"),
        (["--prefill-instances", "1", "--decode-instances", "1"], "plan chooses"),
        (["--concurrency", "5"], "--concurrency"),
        (["--rate", "0"], "--rate"),
        (["--rate", "nan", "--workload-spec", "any.yaml"], "--rate"),
        (["--plan-file", "missing.yaml"], "missing.yaml"),
    ],
)
def test_mistakes_in_plans_are_one_line(blis, arguments, problem):
    options = PLAN if "--concurrency" not in arguments else PLAN[:-2]
    code, out, err = blis(*options, *arguments)
    assert (code != 0, out) == (True, "")
    assert problem in err
    assert "Traceback" not in err


def test_a_plan_needs_a_load(blis):
    code, out, err = blis(*PLAN[:-2])
    assert (code, out) == (1, "")
    assert "--rate: is required" in err


def test_simulated_plans_lose_nothing_by_pruning(tmp_path):
    """All combinations and numbers of instances, tried one by one."""
    config = PlanConfig(
        model="qwen/qwen3-14b",
        slo=("ttft_p90=200ms", "e2e_mean=600ms"),
        rate=120.0,
        prompt_tokens=400,
        output_tokens=20,
        output_tokens_stdev=5,
        num_requests=300,
        seeds=1,
        tp_="1,2",
        max_num_running_reqs_="16,256",
        num_instances_="1-6",
    )
    trials = config.trials(make_load(config, tmp_path))
    made = {}

    def attempts(tries):
        for group, n in tries:
            if (group, n) not in made:
                options = {**group.options, "num_instances": n}
                made[group, n] = try_rate(trials, options, config.rate)
        return [made[attempt] for attempt in tries]

    groups = config.groups()
    found = search(groups, attempts)
    tried = len(made)
    attempts([(group, n) for group in groups for n in group.instances])
    assert tried < len(made) == 24
    fewest = {}
    for group in groups:
        met = [n for n in group.instances if made[group, n].met]
        assert met == list(range(min(met, default=7), 7))  # more instances carry no less
        if met:
            fewest[group] = (group.cost(met[0]), made[group, met[0]].headroom)
    best = {
        group
        for group, (cost, room) in fewest.items()
        if not any(c <= cost and r >= room and (c, r) != (cost, room) for c, r in fewest.values())
    }
    assert {progress.group for progress in front(found)} == best


def test_a_fleet_that_changes_is_refused(blis, tmp_path):
    (tmp_path / "fleet.yaml").write_text(
        "node_pools:\n- {name: a, gpu_type: H100, gpus_per_node: 8, gpu_memory_gib: 80,"
        " initial_nodes: 1, max_nodes: 1}\n"
    )
    code, out, _ = blis(*PLAN, "--policy-config", "fleet.yaml")
    assert code == 1
    assert "the fleet changes by itself" in " ".join(out.split())
