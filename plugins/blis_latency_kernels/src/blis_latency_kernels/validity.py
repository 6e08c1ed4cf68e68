"""What the constants hold for: errors where they cannot, warnings where nobody has checked.

Nothing is extrapolated in silence. The limits are those of the measurements to which the closed
forms were fitted, and of the served models with which the sums were compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from blis_core.api import BlisError, LatencySetup, ModelDescription
from blis_latency_kernels.constants import Gpu, contents, gpu, gpu_names, stand_in
from blis_latency_kernels.options import KernelOptions
from blis_latency_kernels.shapes import FORMATS, Shapes, expert_kernel, shapes_of

FALLBACK: Final = "use --latency-model trained-physics"
SMALLEST_SIDE: Final = 1024
"""n and k of the smallest matrices measured."""
FEWEST_WEIGHTS: Final = 2e6
MOST_WEIGHTS: Final = 4.5e8
"""n * k of the largest matrices measured."""
MOST_TOKENS: Final = 8192
"""Tokens of a step, and of the context of a decode."""
HEAD_DIM: Final = 128
FIRST_LAGGING_VERSION: Final = (0, 14)
"""vLLM schedules ahead of the GPU by default from this version on."""


def checked(setup: LatencySetup) -> tuple[Gpu, Shapes, KernelOptions]:
    """What the model is built from; BlisError if the constants cannot describe ``setup``."""
    options = setup.options if isinstance(setup.options, KernelOptions) else KernelOptions()
    model, hardware, tp = setup.model, setup.hardware, setup.tp
    if model is None or hardware is None:
        raise BlisError(
            f"latency model {setup.backend!r} needs a model config and GPU figures; give --hardware"
            " and --model-config-folder, or choose a model that is in the catalogue"
        )
    _refuse(setup, list(_impossible(model, tp)))
    if options.constants_of:
        found = stand_in(options.constants_of, hardware)
    elif (own := gpu(hardware.name)) is not None:
        found = own
    else:
        raise BlisError(
            f"latency model {setup.backend!r} has no measurements of GPU {hardware.name!r} (it has:"
            f" {', '.join(gpu_names())}); {FALLBACK}, or let another GPU stand in with"
            " --latency-option constants_of=NAME"
        )
    shapes = shapes_of(setup, options.data_parallel)
    _refuse(setup, list(_unmeasured(found, shapes)))
    return found, shapes, options


def _refuse(setup: LatencySetup, problems: list[str]) -> None:
    if problems:
        raise BlisError(
            f"latency model {setup.backend!r} cannot describe this: {'; '.join(problems)};"
            f" {FALLBACK}"
        )


def _impossible(model: ModelDescription, tp: int) -> Iterator[str]:
    """Figures of the model that no GPU can serve by the sums of this backend."""
    for name, value in (
        ("layers", model.layers),
        ("hidden size", model.hidden),
        ("attention heads", model.heads),
        ("feed-forward size", model.ffn),
        ("vocabulary", model.vocab),
        ("--tp", tp),
    ):
        if value <= 0:
            yield f"{name} is {value}"
    if model.kv_heads < 0:
        yield f"KV heads is {model.kv_heads}"
    if model.experts > 1 and not 0 < model.experts_per_token <= model.experts:
        yield f"{model.experts_per_token} of {model.experts} experts per token"
    if model.heads > 0 and tp > 0 and model.heads % tp:
        yield f"{model.heads} attention heads are not divisible by --tp {tp}"
    kv_heads = model.kv_heads or model.heads
    if tp > 0 and kv_heads > tp and kv_heads % tp:
        yield f"{kv_heads} KV heads are not divisible by --tp {tp}"
    details = model.details
    if details.attention == "mla":
        yield "multi-head latent attention has not been measured"
    elif details.attention:
        yield f"{details.attention} attention has not been measured"
    if model.bytes_per_value != 2:
        yield f"{model.bytes_per_value:g} bytes per value (2 have been measured)"
    width = 1.0 if details.weight_format.startswith("fp8") else 0.0
    if details.weight_format not in FORMATS or model.weight_bytes not in (width, 2.0 - width):
        name = details.weight_format or f"{model.weight_bytes:g}-byte"
        yield f"weights in the format {name} have not been measured"


def _unmeasured(found: Gpu, shapes: Shapes) -> Iterator[str]:
    """Kernels without usable measurements on this GPU."""
    for kernel in _kernels(shapes):
        quality = found.quality(kernel)
        if not quality:
            yield f"kernel {kernel} has not been measured on {found.name}"
        elif quality == "poor":
            yield f"the measurements of kernel {kernel} on {found.name} fit no closed form"
    if shapes.tp > 1 and shapes.tp not in found.tensor_parallel:
        degrees = ", ".join(map(str, [1, *found.tensor_parallel]))
        yield f"--tp {shapes.tp} has not been measured on {found.name} (only {degrees})"
    eight_bits = [k for k in _kernels(shapes) if "fp8" in k and found.quality(k)]
    if eight_bits and found.peak8 <= 0:
        yield f"the 8-bit rate of {found.name} is not known (TFlopsFP8 in --hardware-config)"
    if shapes.engines > 1:
        yield from _engines(found, shapes)


def _engines(found: Gpu, shapes: Shapes) -> Iterator[str]:
    """Why data parallel engines cannot be described."""
    count = shapes.engines
    if not shapes.moe_layers:
        yield "without experts, data parallel engines are instances: use --num-instances"
    elif shapes.experts % count:
        yield f"{shapes.experts} experts cannot be divided among {count} engines"
    if shapes.tp > 1:
        yield "data parallel engines of more than one GPU each have not been compared"
    if count not in found.tensor_parallel:
        yield f"the exchange between {count} {found.name} has not been measured"


def _kernels(shapes: Shapes) -> list[str]:
    """The matrix and expert kernels in use, once each."""
    names = ["gemm_bf16", f"gemm_{shapes.attention_format}"]
    if shapes.dense_layers or shapes.shared_ffn:
        names.append(f"gemm_{shapes.format}")
    if shapes.moe_layers:
        names.append(expert_kernel(shapes))
    return list(dict.fromkeys(names))


def warnings(
    setup: LatencySetup, found: Gpu, shapes: Shapes, options: KernelOptions
) -> Iterator[str]:
    """Why the predictions for a setup that has been checked may be less accurate than usual."""
    model, hardware = setup.model, setup.hardware
    assert model is not None
    assert hardware is not None
    if options.constants_of:
        yield (
            f"the kernels of {options.constants_of} stand in for those of {found.name}; where that"
            " was compared, E2E was 2 to 24 % off"
        )
    elif not found.validated:
        yield f"untested: no served model on {found.name} was compared with it"
    if not found.usable_memory_gib:
        yield f"the usable memory of {found.name} is not known; MemoryGiB counts as usable"
    if not _close(hardware.hbm_tb_s * 1e6, found.bandwidth) or not _close(
        hardware.fp16_tflops * 1e6, found.peak16
    ):
        yield (
            f"figures of {found.name} in --hardware-config are not used: the constants belong to"
            f" {found.bandwidth / 1e6:g} TB/s and {found.peak16 / 1e6:g} TFLOP/s"
        )
    for kernel in _kernels(shapes):
        if found.quality(kernel) != "good":
            error = found.error_percent(kernel)
            yield f"kernel {kernel} is known with a mean error of {error:g} % only"
    outside = list(_outside(model, shapes))
    if outside:
        yield f"outside fitted shapes: {'; '.join(outside)}"
    if shapes.engines > 1:
        yield "engines that share experts were compared with a single measured run"
    if max(shapes.tp, shapes.engines) > 1 and found.pcie and not options.link_gb_s:
        yield (
            f"the links between {found.name}s are a property of the host; measure an all-reduce"
            " there and give --latency-option link_gb_s=..."
        )
    if (most := setup.max_tokens / shapes.engines) > MOST_TOKENS:
        yield f"steps of {most:.0f} tokens; up to {MOST_TOKENS} have been measured"
    version = re.search(r"v?(\d+)\.(\d+)", setup.version.rpartition(":")[2])
    if version and tuple(map(int, version.groups())) < FIRST_LAGGING_VERSION:
        yield (
            f"vLLM {version[0]} does not schedule ahead of the GPU: its host time, which is hidden"
            " from 0.14 on, is not modelled"
        )
    if any(re.search(pattern, setup.model_name) for pattern in contents()["penalties"]):
        yield (
            f"the published defaults of {setup.model_name} use a repetition penalty, which keeps"
            " vLLM from scheduling ahead; that time is not modelled (about 10 % between tokens)"
        )
    if options.sampler == "auto" and sampling_default(setup.model_name) is None:
        yield (
            f"it is not known whether the defaults of {setup.model_name or 'this model'} use top-p"
            " or top-k; they count as unused (--latency-option sampler=on or off)"
        )
    if model.details.multimodal:
        yield "a multimodal model: the time of its encoders is not modelled"
    if options.routing != "uniform" and shapes.moe_layers:
        yield "routing by a power law was not compared with a served model"


def _outside(model: ModelDescription, shapes: Shapes) -> Iterator[str]:
    """Shapes beyond those to which the closed forms were fitted.

    The router and the matrix of the vocabulary are left out: they run once where the others run
    once or more per layer, and the served models went beyond these limits with them.
    """
    if shapes.head_dim != HEAD_DIM:
        yield f"head size {shapes.head_dim} (fitted: {HEAD_DIM})"
    if model.details.sliding_window:
        yield f"a sliding window of {model.details.sliding_window} tokens, taken for full attention"
    matrices = list(shapes.attention_matrices)
    if shapes.dense_layers:
        matrices += shapes.ffn_matrices(shapes.ffn)
    if shapes.shared_ffn:
        matrices += shapes.ffn_matrices(shapes.shared_ffn)
    for n, k in dict.fromkeys(matrices):
        if min(n, k) < SMALLEST_SIDE or not FEWEST_WEIGHTS <= n * k <= MOST_WEIGHTS:
            yield f"matrices of {n:g} x {k:g} on each GPU"


def sampling_default(model_name: str) -> bool | None:
    """Whether the published defaults of a model use top-p or top-k; None = not known."""
    for pattern, used in contents()["sampling"]["patterns"]:
        if re.search(pattern, model_name):
            return bool(used)
    return None


def _close(value: float, other: float) -> bool:
    return abs(value - other) <= 0.02 * other
