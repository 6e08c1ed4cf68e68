"""The table of options: defaults, checks and their messages."""

import math
from typing import Any

import attrs
import pytest

from blis_core.config import SECTIONS, ReplayConfig, RunConfig, SimulationConfig
from blis_core.contracts import MAX_INT64
from blis_core.errors import BlisError
from blis_core.option import options_of


def run(**options: Any) -> RunConfig:
    return RunConfig(**{"model": "acme/small", **options})


def replay(**options: Any) -> ReplayConfig:
    given = {"model": "acme/small", "trace_header": "h.yaml", "trace_data": "d.csv"}
    return ReplayConfig(**{**given, **options})


def test_defaults_are_valid() -> None:
    run().check()
    replay().check()


@pytest.mark.parametrize("config_class", [RunConfig, ReplayConfig])
def test_every_field_is_a_documented_option(config_class: type[SimulationConfig]) -> None:
    specs = options_of(config_class)
    assert [spec.name for spec in specs] == [field.name for field in attrs.fields(config_class)]
    for spec in specs:
        assert spec.section in SECTIONS
        assert spec.help.endswith(".")
        assert spec.flag == "--" + spec.name.replace("_", "-")
        spec.check_type(spec.default)


def test_values_are_normalised() -> None:
    config = run(model="Qwen/Qwen2.5-7B", alpha_coeffs=[1, 2, 3], beta_coeffs=iter([4.0]))
    assert config.model == "qwen/qwen2.5-7b"
    assert config.alpha_coeffs == (1, 2, 3)
    assert config.beta_coeffs == (4.0,)
    assert config == run(model="qwen/qwen2.5-7B", alpha_coeffs=(1, 2, 3), beta_coeffs=(4.0,))


def test_repr_shows_what_was_given() -> None:
    assert repr(run(rate=2.0, block_size_in_tokens=16)) == "RunConfig(model='acme/small', rate=2.0)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log": "loud"}, "--log: must be one of trace, .*, got 'loud'"),
        ({"model": ""}, "--model: is required"),
        ({"latency_model": ""}, "--latency-model: must not be empty"),
        ({"alpha_coeffs": (1, 2, 3)}, "--alpha-coeffs: works only together with --beta-coeffs"),
        ({"beta_coeffs": (1, 2, 3)}, "--beta-coeffs: works only together with --alpha-coeffs"),
        ({"alpha_coeffs": (-1, 2), "beta_coeffs": (1,)}, "--alpha-coeffs: .* at least 0, got -1"),
        ({"alpha_coeffs": (1,), "beta_coeffs": (math.nan,)}, "--beta-coeffs: .* got nan"),
        ({"alpha_coeffs": (1,), "beta_coeffs": (math.inf,)}, "--beta-coeffs: .* got inf"),
        ({"tp": -1}, "--tp: must be at least 0"),
        ({"total_kv_blocks": 0}, "--total-kv-blocks: must be greater than 0, got 0"),
        ({"block_size_in_tokens": 0}, "--block-size-in-tokens: must be greater than 0"),
        ({"gpu_memory_utilization": 0.0}, "--gpu-memory-utilization: must be greater than 0 and"),
        ({"gpu_memory_utilization": 1.5}, "--gpu-memory-utilization: .* at most 1, got 1.5"),
        ({"gpu_memory_utilization": math.nan}, "--gpu-memory-utilization"),
        ({"max_model_len": -1}, "--max-model-len: must be at least 0"),
        ({"max_num_running_reqs": 0}, "--max-num-running-reqs: must be greater than 0"),
        ({"max_num_scheduled_tokens": 0}, "--max-num-scheduled-tokens: must be greater than 0"),
        ({"long_prefill_token_threshold": -1}, "--long-prefill-token-threshold: must be at least"),
        ({"num_instances": 0}, "--num-instances: must be at least 1, got 0"),
        ({"admission_latency": -1}, "--admission-latency: must be at least 0, got -1"),
        ({"routing_latency": -1}, "--routing-latency: must be at least 0"),
        ({"snapshot_refresh_interval": -1}, "--snapshot-refresh-interval: must be at least 0"),
        ({"cache_signal_delay": -1}, "--cache-signal-delay: must be at least 0"),
        ({"trace_level": "all"}, "--trace-level: must be one of none, decisions, got 'all'"),
        ({"counterfactual_k": -1}, "--counterfactual-k: must be at least 0"),
        ({"horizon": 0}, "--horizon: must be greater than 0"),
        ({"output": "xml"}, "--output: must be one of auto, text, table, json, got 'xml'"),
    ],
)
def test_checks_of_both_commands(options: dict[str, Any], message: str) -> None:
    for config in (run(**options), replay(**options)):
        with pytest.raises(BlisError, match=message):
            config.check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_requests": -1}, "--num-requests: must be at least 0"),
        ({"prefix_tokens": -1}, "--prefix-tokens: must be at least 0"),
        ({"rate": 0.0}, "--rate: must be finite and greater than 0"),
        ({"rate": math.inf}, "--rate: .* got inf"),
        ({"rate": math.nan}, "--rate: .* got nan"),
        ({"rate": -1.0, "workload": "chatbot"}, "--rate"),
        ({"prompt_tokens": 8000}, r"--prompt-tokens: must be between .*\(2\) and .*\(7000\)"),
        ({"output_tokens_stdev": 1, "output_tokens_min": 5}, "--output-tokens-stdev: must be betw"),
        ({"prompt_tokens_stdev": -1}, "--prompt-tokens-stdev: must be at least 0"),
        ({"prompt_tokens_min": 0}, "--prompt-tokens-min: must be at least 1"),
        ({"output_tokens_max": 0}, "--output-tokens-max: must be at least 1"),
        ({"output_tokens_min": 9000}, "--output-tokens-min: 9000 is above"),
        ({"timeout": 0}, "--timeout: must not be 0"),
        ({"num_requests": 0}, "--num-requests: the workload has no end"),
        ({"num_requests": 0, "horizon": MAX_INT64}, "--num-requests: the workload has no end"),
    ],
)
def test_checks_of_run(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BlisError, match=message):
        run(**options).check()


@pytest.mark.parametrize(
    "options",
    [
        {"num_requests": 0, "horizon": 1000},
        {"timeout": -1},
        {"prompt_tokens": 100, "prompt_tokens_stdev": 100, "prompt_tokens_min": 100},
        {"prompt_tokens_min": 700, "prompt_tokens": 1, "workload": "chatbot"},
        {"gpu_memory_utilization": 1},
        {"routing_scorers": "nonsense"},
        {"max_model_len": 0, "log": "WARNING", "admission_policy": "", "scheduler": ""},
    ],
)
def test_unusual_but_right(options: dict[str, Any]) -> None:
    run(**options).check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"saturation_detector": "x"},
            "--saturation-detector: must be one of never, utilization, concurrency, got 'x'",
        ),
        ({"dispatch_order": "lifo"}, "--dispatch-order: must be one of fifo, priority, got 'lifo'"),
        ({"dispatch_order": ""}, "--dispatch-order: must be one of fifo, priority, got ''"),
        ({"max_gateway_queue_depth": -1}, "--max-gateway-queue-depth: must be at least 0, got -1"),
        *(
            (
                {"saturation_detector": "utilization", name: value},
                f"--{name.replace('_', '-')}: must be finite and greater than 0, got",
            )
            for name in ("queue_depth_threshold", "kv_cache_util_threshold")
            for value in (0.0, -1.0, math.nan, math.inf)
        ),
        (
            {"saturation_detector": "concurrency", "max_concurrency": 0},
            "--max-concurrency: must be greater than 0, got 0",
        ),
    ],
)
def test_checks_of_flow_control(options: dict[str, Any], message: str) -> None:
    for config in (run(flow_control=True, **options), replay(flow_control=True, **options)):
        with pytest.raises(BlisError, match=message):
            config.check()
    run(**options).check()  # switched off, nobody looks


def test_flow_control_looks_only_at_what_the_detector_needs() -> None:
    useless = {"queue_depth_threshold": -1.0, "kv_cache_util_threshold": math.nan}
    for detector in ("", "never", "concurrency"):
        run(flow_control=True, saturation_detector=detector, **useless).check()
    for detector in ("", "never", "utilization"):
        run(flow_control=True, saturation_detector=detector, max_concurrency=-1).check()


def test_an_empty_trace_level_is_none() -> None:
    assert run(trace_level="") == run()
    run(trace_level="decisions", counterfactual_k=3, summarize_trace=True).check()


def test_policies_tell_given_from_default() -> None:
    names = ("admission_policy", "routing_policy", "priority_policy", "scheduler")
    figures = ("token_bucket_capacity", "token_bucket_refill_rate")
    assert [getattr(run(), name) for name in names + figures] == [None] * 6
    implied = {spec.name: spec.implied for spec in options_of(RunConfig)}
    assert [implied[name] for name in names] == ["always-admit", "round-robin", "constant", "fcfs"]
    assert [implied[name] for name in figures] == [10_000, 1000]


def test_checks_of_replay() -> None:
    with pytest.raises(BlisError, match="--trace-header: name the trace file"):
        ReplayConfig(trace_data="d.csv").check()
    with pytest.raises(BlisError, match="--trace-data: name the trace file"):
        replay(trace_data="").check()
    with pytest.raises(BlisError, match="--session-mode: must be one of fixed, closed-loop, got"):
        replay(session_mode="loop").check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": "fast"}, "--rate: a number is needed, not 'fast'"),
        ({"seed": 1.5}, "--seed: a whole number is needed, not 1.5"),
        ({"seed": True}, "--seed: a whole number"),
        ({"seed": 2**63}, "--seed: 9223372036854775808 does not fit into 64 bits"),
        ({"num_instances": None}, "--num-instances: a whole number is needed, not None"),
        ({"model": 7}, "--model: a text is needed"),
        ({"alpha_coeffs": "1,2"}, "--alpha-coeffs: a list of numbers"),
        ({"alpha_coeffs": ("1",)}, "--alpha-coeffs: a list of numbers"),
    ],
)
def test_wrong_types_from_a_library_user(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BlisError, match=message):
        run(**options).check()
