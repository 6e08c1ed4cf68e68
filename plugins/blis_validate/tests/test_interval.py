"""Shorter and longer steps: ``blis interval`` and ``blis validate --interval``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blis_core.api import BlisError, RunConfig, simulate
from blis_validate.stretching import factors, stretched

RUN = ["--model", "qwen/qwen3-14b", "--rate", "6", "--num-requests", "40"]
KERNELS = [*RUN, "--latency-model", "kernels"]


def itl(*options, profile=""):
    config = RunConfig(
        model="qwen/qwen3-14b",
        rate=6.0,
        num_requests=40,
        latency_model=None if profile else "kernels",
        latency_profile=profile,
        latency_option=options,
    )
    return lambda factor=1.0: simulate(stretched(config, factor)).cluster.itl_mean_ms


def test_a_factor_on_top_of_the_users_own(tmp_path):
    assert itl("scale=1.1")(1.2) == itl("scale=1.32")() == itl("scale=3", "scale=1.1")(1.2)
    profile = tmp_path / "p.yaml"
    profile.write_text("latency_model: kernels\noptions: {scale: 1.1}\n")
    assert itl(profile=str(profile))(1.2) == itl("scale=1.32")()
    assert factors(8) == pytest.approx((0.92, 1.08))


def test_a_latency_model_without_such_a_factor():
    config = RunConfig(model="qwen/qwen3-14b")
    assert stretched(config, 1.0) is config
    with pytest.raises(BlisError, match="roofline has no option scale"):
        stretched(config, 1.1)


def test_the_figures_are_those_of_three_runs(blis):
    code, out, err = blis("interval", *KERNELS, "--percent", "10", "--output", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["step_percent"] == 10
    for name, scale in (("low", "0.9"), ("predicted", "1"), ("high", "1.1")):
        _, single, _ = blis(
            "run", *KERNELS, "--latency-option", f"scale={scale}", "--output", "json"
        )
        cluster = json.loads(single)["cluster"]
        for metric in ("itl_mean_ms", "e2e_mean_ms"):
            assert document["figures"][metric][name] == cluster[metric]
    assert document["figures"]["e2e_mean_ms"]["covered_percent"] is None  # known for 8 % only


def test_how_much_such_an_interval_has_held(blis):
    _, out, _ = blis("interval", *KERNELS)
    assert out.startswith("Steps 8 % shorter to longer\n")
    assert "measured inside" in out
    assert "not compared: no run of qwen/qwen3-14b on H100" in out
    _, out, _ = blis("interval", *KERNELS, "--percent", "5")
    assert "measured inside" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (RUN, 1, "roofline has no option scale"),
        ([*KERNELS, "--percent", "0"], 1, "--percent"),
        ([*KERNELS, "--horizon", "10"], 1, "no request completed"),
        ([*KERNELS, "--trace-output", "t"], 2, "unknown flag --trace-output"),
    ],
)
def test_what_is_refused(blis, arguments, code, message):
    found, out, err = blis("interval", *arguments)
    assert (found, out) == (code, "")
    assert message in err


@pytest.fixture
def measured(blis, make_record, write_dataset):
    """A data set with what a simulation says whose steps are longer by this factor."""

    def make(factor):
        path = write_dataset(make_record())
        option = ["--latency-option", f"scale={factor}"]
        record = json.loads(blis("validate", path, *option, "--output", "json")[1])["records"][0]
        values = record["simulated"]
        figures = {
            f"{kind}_ms": {"mean": values[f"{kind}_mean"]} for kind in ("ttft", "e2e", "itl")
        }
        return write_dataset(make_record(measured=figures))

    return make


@pytest.mark.parametrize(("factor", "share"), [(1.0, 100.0), (1.07, 100.0), (1.12, 0.0)])
def test_what_was_measured_lies_inside_or_not(blis, measured, factor, share):
    path = measured(factor)
    _, out, _ = blis("validate", path, "--interval", "8", "--output", "json", "--index", "i.json")
    document = json.loads(out)
    covered = {"ttft_mean": share, "e2e_mean": share, "itl_mean": share}
    assert document["interval"] == {"step_percent": 8.0, "runs": 1, "covered_percent": covered}
    low, high = document["records"][0]["interval_percent"]["itl_mean"]
    error = document["records"][0]["errors_percent"]["simulated"]["itl_mean"]
    assert low < error < high
    assert json.loads(Path("i.json").read_text())["interval"] == document["interval"]
    _, out, _ = blis("validate", path, "--interval", "8")
    assert "with steps 8 % shorter to longer" in out


def test_an_interval_with_several_seeds(blis, measured):
    arguments = ["--interval", "8", "--seeds", "2", "--output", "json"]
    one = blis("validate", path := measured(1.0), *arguments, "--jobs", "1")
    assert one == blis("validate", path, *arguments, "--jobs", "2")
    record = json.loads(one[1])["records"][0]
    assert len(record["seeds"]) == 2
    low, high = record["interval_percent"]["e2e_mean"]
    assert low < record["errors_percent"]["simulated"]["e2e_mean"] < high


def test_without_one_there_is_none(blis, measured):
    document = json.loads(blis("validate", measured(1.0), "--output", "json")[1])
    assert document["interval"] is None
    assert document["records"][0]["interval_percent"] == {}


def test_an_interval_of_a_model_without_the_factor(blis, measured):
    arguments = ["--interval", "8", "--latency-model", "roofline", "--output", "json"]
    code, out, err = blis("validate", measured(1.0), *arguments)
    assert (code, out) == (1, "")
    assert err.startswith("blis: error: --interval: latency model roofline has no option scale")
