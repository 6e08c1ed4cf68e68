"""Options that change nothing are named, with the reason; the others are not."""

from typing import Any

import pytest

from blis_core.config import ReplayConfig, RunConfig
from blis_core.policies.choice import resolve_policies
from blis_core.policies.no_effect import idle_options


def idle(instances: int = 2, **options: Any) -> list[str]:
    kind = ReplayConfig if "trace_header" in options else RunConfig
    config = kind(model="acme/small", num_instances=instances, **options)
    return idle_options(config, resolve_policies(config), instances)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"instances": 1, "routing_policy": "least-loaded"}, "one instance only"),
        ({"instances": 1, "cache_signal_delay": 0}, "one instance only"),
        ({"token_bucket_capacity": 5.0}, "is always-admit, not token-bucket"),
        ({"priority_policy": "slo-based"}, "fcfs does not look at priorities"),
        ({"priority_policy": "slo-based", "scheduler": "sjf"}, "sjf does not look at priorities"),
        ({"saturation_detector": "concurrency"}, "without --flow-control"),
        ({"max_gateway_queue_depth": 5}, "without --flow-control"),
        (
            {"flow_control": True, "saturation_detector": "utilization", "max_concurrency": 3},
            "only --saturation-detector concurrency looks at it",
        ),
        ({"gpu_memory_utilization": 0.5, "total_kv_blocks": 9}, "--total-kv-blocks is given"),
        ({"kv_transfer_bandwidth": 5.0}, "no CPU tier"),
        ({"kv_offload_threshold": 0.5}, "no CPU tier"),
        ({"summarize_trace": True}, "--trace-level decisions"),
        ({"counterfactual_k": 2}, "--trace-level decisions"),
        ({"think_time_ms": 5}, "without --concurrency"),
        ({"workload_spec": "w.yaml", "rate": 5.0}, "the workload file says it"),
        ({"workload": "chatbot", "prompt_tokens": 5}, "the preset chatbot says it"),
        ({"workload": "chatbot", "concurrency": 5}, "those of the options"),
    ],
)
def test_an_option_without_effect(options: dict[str, Any], reason: str) -> None:
    (text,) = idle(**options)
    assert reason in text
    assert text.startswith("--")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"routing_policy": "least-loaded"},
        {"instances": 1, "rate": 1.0, "gpu_memory_utilization": 0.9},  # as the defaults have it
        {"admission_policy": "token-bucket", "token_bucket_capacity": 5.0},
        {"priority_policy": "slo-based", "scheduler": "priority-fcfs"},
        {"flow_control": True, "saturation_detector": "concurrency", "max_concurrency": 3},
        {"kv_cpu_blocks": 9, "kv_transfer_bandwidth": 5.0},
        {"trace_level": "decisions", "counterfactual_k": 2, "summarize_trace": True},
        {"concurrency": 4, "think_time_ms": 5, "prompt_tokens": 300},
        {"workload": "chatbot", "rate": 5.0},
        {"trace_header": "t.yaml", "trace_data": "t.csv"},
    ],
)
def test_options_that_do_something(options: dict[str, Any]) -> None:
    assert idle(**options) == []


def test_lengths_share_one_reason() -> None:
    assert idle(workload_spec="w.yaml", prompt_tokens=5, output_tokens_max=50, prefix_tokens=1) == [
        "--prefix-tokens, --prompt-tokens, --output-tokens-max (the workload file says it)"
    ]
