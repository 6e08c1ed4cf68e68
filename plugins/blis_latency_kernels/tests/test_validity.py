"""Every condition under which the constants do not hold is reported."""

from __future__ import annotations

import re

import attrs
import pytest

from blis_core.api import BlisError, LatencySetup
from blis_core.catalog.huggingface import describe
from blis_core.catalog.models import bundled_config
from blis_latency_kernels.model import KernelModel
from blis_latency_kernels.options import KernelOptions

GPUS = KernelModel.known_gpus()


def build(name="llama-3.1-8b-instruct", gpu="H100", tp=1, details=None, hardware=None, **changes):
    fields = {
        key: changes.pop(key) for key in list(changes) if key in attrs.fields_dict(LatencySetup)
    }
    model = describe(bundled_config(name), name)[0]
    model = attrs.evolve(model, details=attrs.evolve(model.details, **(details or {})), **changes)
    return KernelModel(
        LatencySetup(
            backend="kernels",
            model=model,
            hardware=attrs.evolve(GPUS[gpu], **(hardware or {})),
            tp=tp,
            **{"model_name": name, **fields},
        )
    )


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("name", ["llama-3.1-8b-instruct", "qwen3-14b", "yi-34b"])
def test_nothing_to_say_where_it_was_validated(name, tp):
    assert build(name, tp=tp).warnings == ()


REFUSED = {
    "latent attention": ({"name": "deepseek-v2-lite"}, "latent attention"),
    "linear attention": ({"details": {"attention": "linear"}}, "linear attention"),
    "4-bit weights": (
        {"weight_bytes": 0.5, "details": {"weight_format": "int4"}},
        "format int4",
    ),
    "8-bit integers": ({"weight_bytes": 1.0, "details": {"weight_format": "int8"}}, "format int8"),
    "mxfp4": ({"details": {"weight_format": "mxfp4"}}, "format mxfp4"),
    "a width without a format": ({"weight_bytes": 1.0}, "1-byte"),
    "32 bits": ({"bytes_per_value": 4.0}, "4 bytes per value"),
    "unknown dtype": ({"bytes_per_value": 0.0}, "0 bytes per value"),
    "FP8 without tensor cores for it": (
        {"gpu": "A100-80", "weight_bytes": 1.0, "details": {"weight_format": "fp8"}},
        "gemm_fp8 has not been measured on A100-80",
    ),
    "experts on L40S": (
        {"name": "mixtral-8x7b-v0.1", "gpu": "L40S", "tp": 4},
        "fit no closed form",
    ),
    "tp 8 on GB200": ({"gpu": "GB200", "tp": 8}, "--tp 8 has not been measured on GB200"),
    "tp 3": ({"tp": 3}, "not divisible by --tp 3"),
    "tp 0": ({"tp": 0}, "--tp is 0"),
    "no layers": ({"layers": 0}, "layers is 0"),
    "no experts per token": ({"experts": 8}, "0 of 8 experts"),
    "another GPU": ({"hardware": {"name": "X1"}}, "no measurements of GPU 'X1'"),
    "engines without experts": (
        {"options": KernelOptions(data_parallel=2)},
        "data parallel engines are instances",
    ),
    "engines of two GPUs": (
        {"name": "mixtral-8x7b-v0.1", "tp": 2, "options": KernelOptions(data_parallel=2)},
        "more than one GPU each",
    ),
    "three engines": (
        {"name": "mixtral-8x7b-v0.1", "options": KernelOptions(data_parallel=3)},
        "8 experts cannot be divided among 3 engines",
    ),
    "sixteen engines": (
        {"name": "qwen3-30b-a3b", "options": KernelOptions(data_parallel=16)},
        "the exchange between 16 H100",
    ),
    "a stand-in without an 8-bit rate": (
        {
            "weight_bytes": 1.0,
            "details": {"weight_format": "fp8"},
            "hardware": {"name": "X1", "fp8_tflops": 0.0},
            "options": KernelOptions(constants_of="H100"),
        },
        "8-bit rate of X1 is not known",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    figures, reason = REFUSED[case]
    with pytest.raises(BlisError, match=reason) as refusal:
        build(**figures)
    assert "--latency-model trained-physics" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("hardware", "other", "message"),
    [
        ({}, "L40S", "H100 has constants of its own"),
        ({"name": "X1"}, "X2", "no measurements of GPU 'X2'"),
        ({"name": "X1", "hbm_tb_s": 0.0}, "H100", "give BwPeakTBs and TFlopsPeak of X1"),
    ],
)
def test_constants_that_cannot_stand_in(hardware, other, message):
    with pytest.raises(BlisError, match=message):
        build(hardware=hardware, options=KernelOptions(constants_of=other))


@pytest.mark.parametrize(("given", "missing"), [("model", "hardware"), ("hardware", "model")])
def test_missing_descriptions_are_the_users_error(given, missing):
    complete = {
        "model": describe(bundled_config("qwen3-14b"), "qwen3-14b")[0],
        "hardware": GPUS["H100"],
    }
    with pytest.raises(BlisError, match="--hardware"):
        KernelModel(LatencySetup(backend="kernels", tp=1, **{given: complete[given]}))


WARNED = {
    "untested GPU": ({"gpu": "H200"}, "untested"),
    "unknown memory": ({"gpu": "B200", "tp": 2}, "usable memory of B200 is not known"),
    "FP8": (
        {"weight_bytes": 1.0, "details": {"weight_format": "fp8"}},
        "gemm_fp8 is known with a mean error of 17.7 %",
    ),
    "small matrices": ({"tp": 8}, r"outside fitted shapes: matrices of 768 x 4096"),
    "large matrices": ({"ffn": 120_000}, "matrices of 240000 x 4096"),
    "another head size": ({"details": {"head_dim": 64}}, "head size 64"),
    "a derived head size": ({"hidden": 8192}, "head size 256"),
    "sliding window": ({"details": {"sliding_window": 4096}}, "sliding window of 4096"),
    "PCIe": ({"gpu": "L40S", "tp": 2}, "link_gb_s"),
    "long steps": ({"max_tokens": 16_384}, "steps of 16384 tokens"),
    "old engine": ({"version": "vllm/vllm-openai:v0.11.0"}, "vLLM v0.11"),
    "penalties": ({"name": "qwen2.5-7b-instruct"}, "repetition penalty"),
    "unknown sampling": ({"model_name": "acme/small"}, "top-p"),
    "multimodal": ({"details": {"multimodal": True}}, "multimodal"),
    "own figures": ({"hardware": {"hbm_tb_s": 3.0}}, "are not used"),
    "routing": (
        {"name": "mixtral-8x7b-v0.1", "tp": 2, "options": KernelOptions(routing="power-law")},
        "power law",
    ),
    "constants of another GPU": (
        {"hardware": {"name": "X1"}, "options": KernelOptions(constants_of="H100")},
        "the kernels of H100 stand in for those of X1",
    ),
    "engines that share experts": (
        {"name": "mixtral-8x7b-v0.1", "options": KernelOptions(data_parallel=2)},
        "a single measured run",
    ),
    "engines over PCIe": (
        {
            "name": "qwen3-30b-a3b",
            "gpu": "RTXPRO6000",
            "options": KernelOptions(data_parallel=2),
        },
        "link_gb_s",
    ),
}


@pytest.mark.parametrize("case", WARNED)
def test_warned(case):
    figures, reason = WARNED[case]
    model = build(**figures)
    assert any(re.search(reason, text) for text in model.warnings), model.warnings
    assert not any("\n" in text for text in model.warnings)


@pytest.mark.parametrize(
    "figures",
    [
        {"gpu": "L40S", "tp": 2, "options": KernelOptions(link_gb_s=20)},
        {"version": "0.14.0"},
        {"version": "vllm/vllm-openai:v0.15.1"},
        {"version": "nightly"},
        {"max_tokens": 8192},
    ],
)
def test_no_reason_to_warn(figures):
    assert build(**figures).warnings == ()
