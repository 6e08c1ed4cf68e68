"""Random runs of all kinds: recording changes nothing, and parts add up to latencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from blis_core.api import PARTS, BlisError, Outcome, Phase, Recording, Results, simulate
from blis_core.results.as_json import render

ALPHA = (400.0, 2.0, 150.0)
BETA = (3000.0, 20.0, 90.0)
TOKEN_US = 150
"""What a token takes beyond its step with these coefficients."""

BASE: dict[str, Any] = {
    "model": "qwen/qwen3-14b",
    "hardware": "H100",
    "tp": 1,
    "latency_model": "blackbox",
    "alpha_coeffs": ALPHA,
    "beta_coeffs": BETA,
    "log": "error",
}


def lengths(prompt: int, output: int) -> dict[str, int]:
    """Options for requests of one size."""
    given = {}
    for side, mean in (("prompt", prompt), ("output", output)):
        for suffix in ("", "_stdev", "_min", "_max"):
            given[f"{side}_tokens{suffix}"] = mean
    return given


def spread(prompt: int, output: int) -> dict[str, int]:
    """Options for requests of all sizes up to twice the given ones."""
    given = {}
    for side, mean in (("prompt", prompt), ("output", output)):
        values = (mean, (mean + 1) // 2, 1, 2 * mean)
        for suffix, value in zip(("", "_stdev", "_min", "_max"), values, strict=True):
            given[f"{side}_tokens{suffix}"] = value
    return given


runs = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "num_requests": st.integers(1, 30),
        "rate": st.sampled_from([20.0, 400.0, 5000.0]),
        "lengths": st.tuples(st.integers(1, 150), st.integers(1, 40)),
        "prefix_tokens": st.sampled_from([0, 0, 64, 200]),
        "total_kv_blocks": st.sampled_from([12, 20, 20, 40, 4000]),
        "max_num_running_reqs": st.sampled_from([2, 5, 256]),
        "max_num_scheduled_tokens": st.sampled_from([3, 64, 2048]),
        "long_prefill_token_threshold": st.sampled_from([0, 0, 50]),
        "semantics": st.sampled_from(
            [
                "reference",
                "vllm",
                "vllm,-recompute",
                "reference,+recompute",
                "reference,+late-first-token",
                "vllm,-schedule-lag",
            ]
        ),
        "scheduler": st.sampled_from(["fcfs", "sjf"]),
        "num_instances": st.sampled_from([1, 1, 3]),
        "admission_latency": st.sampled_from([0, 700]),
        "routing_latency": st.sampled_from([0, 300]),
        "horizon": st.sampled_from([None, None, 200_000]),
        "timeout": st.sampled_from([30, 1]),
        "flow_control": st.booleans(),
        "kv_cpu_blocks": st.sampled_from([0, 0, 30]),
    }
)
pools = st.fixed_dictionaries(
    {
        "prefill_instances": st.integers(1, 2),
        "decode_instances": st.integers(1, 2),
        "pd_decider": st.sampled_from(["always", "always", "prefix-threshold"]),
        "pd_transfer_contention": st.booleans(),
    }
)


def options(run: dict[str, Any]) -> dict[str, Any]:
    """What ``simulate`` is given."""
    given = dict(run)
    given |= spread(*given.pop("lengths"))
    if given["flow_control"]:
        given |= {"saturation_detector": "concurrency", "max_concurrency": 4}
    return BASE | given


def recorded(given: dict[str, Any]) -> tuple[Results, Recording]:
    """The results of a run, checked to be those of the same run without a recording."""
    try:
        plain = simulate(**given)
    except BlisError:
        assume(False)
    results = simulate(**given, keep_recording=True)
    assert render(results) == render(plain)
    assert results.recording is not None
    return results, results.recording


def check(results: Results, recording: Recording, given: dict[str, Any]) -> None:
    """What holds for every recording."""
    columns, parts, lost = recording.requests, recording.parts(), recording.parts("lost")
    spans, rows = recording.spans, len(recording.ids)
    e2e, ended = columns["e2e"], columns["outcome"] != Outcome.UNFINISHED
    assert (np.diff(columns["arrival"]) >= 0).all()
    # every phase lasts, and the phases of a request reach from its arrival to its end
    assert (spans["duration"] > 0).all()
    assert (np.diff(spans["request"]) >= 0).all()
    lasted = np.bincount(spans["request"], spans["duration"], minlength=rows).astype(np.int64)
    assert (lasted == columns["end"] - columns["arrival"]).all()
    on_clock = sum(parts[name] + lost[name] for name in PARTS if name != "output")
    assert (on_clock == lasted).all()
    # the parts of an end-to-end latency are that latency, to the microsecond
    finished = e2e >= 0
    assert (sum(parts.values())[finished] == e2e[finished]).all()
    assert not lost["output"].any()
    assert all((part >= 0).all() for part in lost.values())
    assert all((part >= 0).all() for name, part in parts.items())
    assert not parts["output"][~finished].any()
    # and those of the results
    known = {request.id: request for request in results.requests}
    for row, name in enumerate(recording.ids):
        if name in known:
            assert (columns["ttft"][row], e2e[row]) == (known[name].ttft, known[name].e2e)
            assert ended[row] == (known[name].state in ("completed", "timed_out"))
    assert sum(columns["outcome"] == Outcome.COMPLETED) == results.cluster.completed_requests
    assert int(recording.itl[1].sum()) == sum(int(metrics) for metrics in [recording.itl[1].sum()])
    # steps come in order, and what was preempted is in the table
    for index in range(len(recording.instances)):
        mine = recording.steps["instance"] == index
        assert (np.diff(recording.steps["begin"][mine]) > 0).all()
        assert (recording.steps["used_blocks"][mine] <= given["total_kv_blocks"]).all()
    assert columns["preemptions"].sum() >= (spans["phase"] == Phase.PREEMPTED).sum()
    assert columns["preemptions"].sum() == sum(
        block.preemption_count for block in results.instances or [results.cluster]
    )


@settings(max_examples=50, suppress_health_check=[HealthCheck.filter_too_much])
@given(runs)
def test_parts_add_up_on_single_instances(run):
    given = options(run)
    results, recording = recorded(given)
    check(results, recording, given)
    columns, parts = recording.requests, recording.parts()
    rules, completed = given["semantics"], columns["outcome"] == Outcome.COMPLETED
    event(f"preempted: {bool(columns['preemptions'].any())}")
    # what the engine does beside its steps: something per token since it last looked at the clock
    tokens = 1 + columns["itl_count"]
    output = parts["output"] - TOKEN_US * tokens
    recompute = "-recompute" not in rules and (rules.startswith("vllm") or "+recompute" in rules)
    looked = completed & (
        (columns["preemptions"] == 0) | (not (recompute and "-recompute" not in rules))
    )
    assert not output[looked].any()
    assert not (parts["output"][completed] % TOKEN_US).any()
    # the first token, of those that came through without a preemption
    smooth = completed & (columns["preemptions"] == 0)
    before = sum(parts[name] for name in ("routing", "gateway", "intake", "queue", "prefill"))
    assert (before[smooth] + TOKEN_US == columns["ttft"][smooth]).all()
    assert not recording.parts("lost")["preemption"][smooth].any()


@settings(max_examples=50, suppress_health_check=[HealthCheck.filter_too_much])
@given(runs, pools)
def test_parts_add_up_across_pools(run, pools):
    given = options(run) | pools | {"num_instances": 5}
    results, recording = recorded(given)
    check(results, recording, given)
    moved = recording.requests["prefill_instance"] >= 0
    event(f"disaggregated: {bool(moved.any())}")
    parts = recording.parts()
    assert not (parts["transfer"][~moved]).any()


@pytest.mark.parametrize("semantics", ["reference", "vllm"])
@pytest.mark.parametrize("prompt", [1, 100, 5000])
@pytest.mark.parametrize("output", [1, 2, 80])
@pytest.mark.parametrize("in_pools", [False, True])
def test_a_request_alone_takes_as_long_as_its_baseline(semantics, prompt, output, in_pools):
    given = (
        BASE
        | lengths(prompt, output)
        | {
            "num_requests": 1,
            "semantics": semantics,
            "total_kv_blocks": 4000,
            "max_num_scheduled_tokens": 512,
            "long_prefill_token_threshold": 200,
            "admission_latency": 20,
            "routing_latency": 30,
        }
    )
    if in_pools:
        given |= {"num_instances": 2, "prefill_instances": 1, "decode_instances": 1}
        given |= {"pd_decider": "always"}
    recording = simulate(**given, keep_recording=True).recording
    parts, alone = recording.parts(), recording.parts("alone")
    assert {name: parts[name].tolist() for name in PARTS} == {
        name: alone[name].tolist() for name in PARTS
    }
    assert sum(parts.values()) == recording.requests["e2e"] > 0


def test_a_prefix_hit_has_a_baseline_with_the_same_hit():
    given = BASE | lengths(50, 20) | {"num_requests": 4, "rate": 0.5, "prefix_tokens": 160}
    recording = simulate(**given, keep_recording=True).recording
    assert recording.requests["cached_tokens"].tolist() == [0, 160, 160, 160]
    assert (recording.parts()["prefill"] == recording.parts("alone")["prefill"]).all()
    assert recording.parts()["prefill"][1] < recording.parts()["prefill"][0]
