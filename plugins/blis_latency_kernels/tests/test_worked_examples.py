"""Steps of well-known deployments, from the constants alone, to the microsecond."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from blis_core.api import BatchShape, LatencySetup, PrefillChunk
from blis_core.catalog.huggingface import describe
from blis_core.catalog.models import bundled_config, short_name
from blis_latency_kernels.constants import gpu
from blis_latency_kernels.model import KernelModel
from blis_latency_kernels.options import KernelOptions

DATA = json.loads((Path(__file__).parent / "worked_examples.json").read_text())


def described(name):
    config = bundled_config(short_name(name.lower()))
    return describe(config, name.lower())[0]


def kernel_model(name, gpu_name, tp, **changes):
    return KernelModel(
        LatencySetup(
            backend="kernels",
            model=described(name),
            hardware=KernelModel.known_gpus()[gpu_name],
            tp=tp,
            model_name=name.lower(),
            max_running=128,
            **changes,
        )
    )


def batch(name):
    figures = DATA["batches"][name]
    chunks = tuple(PrefillChunk(p, t, p + t) for t, p in figures["chunks"])
    return BatchShape(chunks, figures["decodes"], figures["context_sum"])


@pytest.mark.parametrize(
    "example", DATA["examples"], ids=lambda e: f"{e['model']} {e['tp']} x {e['gpu']}"
)
def test_steps(example):
    """The sampler follows from the model's name, all sizes from the catalogue."""
    model = kernel_model(example["model"], example["gpu"], example["tp"])
    times = {name: model.step_time(batch(name)) for name in example["step_us"]}
    assert times == example["step_us"]


@pytest.mark.parametrize("name", DATA["models"])
def test_the_catalogue_has_the_sizes(name):
    figures, model = DATA["models"][name], described(name)
    assert [figures[key] for key in ("L", "d", "H", "KV", "F", "V")] == [
        model.layers,
        model.hidden,
        model.heads,
        model.kv_heads,
        model.ffn,
        model.vocab,
    ]
    assert figures["hd"] == (model.details.head_dim or model.hidden // model.heads)
    if figures["moe"]:
        experts, active, size, shared = figures["moe"]
        assert (model.experts, model.experts_per_token) == (experts, active)
        assert (model.expert_ffn or model.ffn) == size
        assert model.details.shared_expert_ffn == shared
        assert model.details.routed_layers == model.layers


def test_decodes_alone_by_hand():
    """Llama-3.1-8B on one H100, one decode at context 513: the sum of its kernels."""
    form = gpu("H100").roofline("gemm_bf16")

    def matrix(m, n, k):
        return form.us(2 * (n * k + m * (n + k)), 2 * m * n * k)

    layer = matrix(1, 6144, 4096) + matrix(1, 4096, 4096)
    layer += matrix(1, 28672, 4096) + matrix(1, 4096, 14336)
    layer += 12.87 + 4 * 8 * 128 * 513 / (0.8616 * 3.35e6) + 12.6
    layer += (16 * 4096 + 4 * 40 * 128 + 4 * 8 * 128 + 6 * 14336) / (0.8 * 3.35e6)
    head = matrix(1, 128256, 4096) + 12 * 128256 / (0.8 * 3.35e6) + 97 * 128256 / 1e6
    model = kernel_model("meta-llama/Llama-3.1-8B-Instruct", "H100", 1)
    assert model.step_time(BatchShape((), 1, 513)) == int(32 * layer + head) == 6383


@pytest.mark.parametrize("name", DATA["gemm_samples"])
def test_matrix_products_against_measurements(name):
    """A sample of the measured products: the mean error is small, and outliers are rare."""
    form = gpu(name).roofline("gemm_bf16")
    errors = [
        abs(form.us(2 * (n * k + m * (n + k)), 2 * m * n * k) / us - 1)
        for m, n, k, us in DATA["gemm_samples"][name]
    ]
    assert len(errors) == 36
    assert sum(errors) / 36 <= (0.15 if name == "RTXPRO6000" else 0.10)
    # tables have outliers: one shape twice as slow as its neighbours
    assert sum(error > 0.3 for error in errors) <= (4 if name == "RTXPRO6000" else 2)


def test_scale_is_a_factor_on_every_step():
    name = "mistralai/Mixtral-8x7B-v0.1"
    plain = kernel_model(name, "H100", 2)
    scaled = kernel_model(name, "H100", 2, options=KernelOptions(scale=1.25))
    for shape in map(batch, DATA["batches"]):
        assert scaled.step_time(shape) == pytest.approx(1.25 * plain.step_time(shape), abs=2)


def test_a_slow_link_lengthens_steps():
    name = "Qwen/Qwen3-32B"
    slow, fast = (
        kernel_model(name, "RTXPRO6000", 2, options=KernelOptions(link_gb_s=speed))
        for speed in (7.4, 20)
    )
    shape = BatchShape((), 128, 128_000)
    exchange = 2 * 64 * 2 * 128 * 5120 + 2 * 128 * 151936 / 2  # bytes of a step
    expected = exchange * (1 / 7400 - 1 / 20000)
    assert slow.step_time(shape) - fast.step_time(shape) == pytest.approx(expected, abs=2)


def test_routing_by_a_power_law_reads_fewer_experts():
    name, shape = "Qwen/Qwen3-30B-A3B", BatchShape((), 16, 16_000)
    uniform = kernel_model(name, "H100", 1)
    skewed = kernel_model(name, "H100", 1, options=KernelOptions(routing="power-law"))
    assert skewed.step_time(shape) < uniform.step_time(shape)


def test_overheads():
    name = "meta-llama/Llama-3.1-8B-Instruct"
    lagging = kernel_model(name, "H100", 1, schedule_lag=1)
    assert lagging.queueing_time(512) == 5870
    assert lagging.first_token_delay(32) == 1600
    assert (lagging.output_token_time(), lagging.completion_time()) == (0, 0)
    eager = kernel_model(name, "H100", 1)  # a nominal step stands for the lag
    assert eager.queueing_time(512) == 5870 + 8331
    inside = kernel_model(
        name, "H100", 1, schedule_lag=1, options=KernelOptions(measured_at="engine")
    )
    assert (inside.queueing_time(512), inside.first_token_delay(32)) == (0, 0)


def test_other_names_of_the_same_gpu():
    assert gpu("A100-SXM").bandwidth == gpu("A100-80").bandwidth
    assert gpu("X1") is None


def test_the_options_are_frozen_data():
    assert attrs.asdict(KernelOptions()) == {
        "link_gb_s": 0.0,
        "sampler": "auto",
        "scale": 1.0,
        "routing": "uniform",
        "measured_at": "client",
    }
