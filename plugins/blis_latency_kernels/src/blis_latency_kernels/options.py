"""What ``--latency-option`` can set."""

from __future__ import annotations

from typing import Final

import attrs

from blis_core.api import ValueKind, option

SECTION: Final = "Options of kernels"


@attrs.frozen(kw_only=True)
class KernelOptions:
    """Options of the latency model ``kernels``."""

    link_gb_s: float = option(
        ValueKind.FLOAT,
        SECTION,
        0.0,
        "GB/s of an all-reduce between the GPUs of an instance; a property of the host.",
        implied="as measured for the GPU",
        at_least=0,
    )
    sampler: str = option(
        ValueKind.TEXT,
        SECTION,
        "auto",
        "Whether top-p or top-k is in use; auto = as the published defaults of the model.",
        choices=("auto", "on", "off"),
    )
    scale: float = option(
        ValueKind.FLOAT,
        SECTION,
        1.0,
        "Factor on the duration of every step, fitted to a run of the same deployment.",
        above=0,
        at_most=10,
    )
    routing: str = option(
        ValueKind.TEXT,
        SECTION,
        "uniform",
        "How tokens choose experts; power-law = a few experts are chosen often.",
        choices=("uniform", "power-law"),
    )
    constants_of: str = option(
        ValueKind.TEXT,
        SECTION,
        "",
        "GPU whose kernels stand in for those of one that was not measured, with the bandwidth and"
        " the peak rates of --hardware-config.",
        implied="none",
    )
    data_parallel: int = option(
        ValueKind.INT,
        SECTION,
        1,
        "Engines that share the experts and step together (vLLM with --enable-expert-parallel); the"
        " instance has the places, tokens per step and KV blocks of all of them.",
        at_least=1,
    )
    measured_at: str = option(
        ValueKind.TEXT,
        SECTION,
        "client",
        "Where latencies are taken; engine leaves out HTTP, tokeniser and streaming.",
        choices=("client", "engine"),
    )
