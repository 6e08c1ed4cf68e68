"""Five results of the reference for one instance that is driven directly, not by its command line.

The model and GPU are made up, and the requests come from a generator of their own.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from blis_core.contracts import (
    HardwareDescription,
    KVSetup,
    LatencySetup,
    ModelDescription,
    Request,
)
from blis_core.engine.formation import Limits
from blis_core.engine.instance import Instance
from blis_core.engine.schedulers import PRIORITY_POLICIES, Fcfs
from blis_core.kv.chains import ChainTable
from blis_core.plugins import get_registry
from blis_core.results.aggregate import build_results
from blis_core.rng import GoRand
from blis_core.workload.numeric import round_int64

RUNS = json.loads((Path(__file__).parents[1] / "data" / "library_runs.json").read_text())


def length(rng, bounds):
    if bounds["min"] == bounds["max"]:
        return bounds["min"]
    drawn = rng.norm() * bounds["std_dev"] + bounds["mean"]
    return round_int64(min(bounds["max"], max(bounds["min"], drawn)))


def requests(case):
    load, rng = case["workload"], GoRand(case["seed"])
    prefix = rng.tokens(load["prefix_tokens"])
    for i in range(load["requests"]):
        prompt = rng.tokens(length(rng, load["prompt"]))
        output = rng.tokens(length(rng, load["output"]))
        yield Request(
            f"request_{i}",
            i * load["interval_us"],
            np.concatenate((prefix, prompt, output)),
            len(prefix) + len(prompt),
            len(output),
        )


def instance(case):
    figures, gpu, limits = RUNS["model"], RUNS["gpu"], case["limits"]
    latency = get_registry().create(
        "latency-model",
        "roofline",
        LatencySetup(
            backend="roofline",
            model=ModelDescription(
                layers=figures["num_layers"],
                hidden=figures["hidden_size"],
                heads=figures["num_attention_heads"],
                kv_heads=figures["num_kv_heads"],
                bytes_per_value=figures["bytes_per_param"],
            ),
            hardware=HardwareDescription(
                fp16_tflops=gpu["tflops_peak"],
                hbm_tb_s=gpu["bw_peak_tb_s"],
                mfu_prefill=gpu["mfu_prefill"],
                mfu_decode=gpu["mfu_decode"],
            ),
            tp=case["tp"],
            alpha=tuple(case["alpha_coeffs"]),
            beta=tuple(case["beta_coeffs"]),
        ),
    )
    size = limits["block_size_tokens"]
    store = get_registry().factory("kv-store", "paged")
    return Instance(
        "instance_0",
        latency=latency,
        store=store(KVSetup(total_blocks=limits["gpu_kv_blocks"], block_size=size)),
        chains=ChainTable(size),
        scheduler=Fcfs(PRIORITY_POLICIES["constant"]),
        limits=Limits(
            max_running=limits["max_running_requests"],
            max_tokens=limits["max_scheduled_tokens"],
            long_prefill=limits["long_prefill_token_threshold"],
            max_model_len=limits["max_model_len"],
        ),
    )


@pytest.mark.parametrize("case", RUNS["cases"], ids=lambda case: case["id"])
def test_library_run(case):
    made = list(requests(case))
    for sample in case["requests_sample"]:
        request = made[sample["index"]]
        prompt, output = np.split(request.tokens, [request.prompt_len])
        assert sample == {
            "index": sample["index"],
            "arrival_us": request.arrival,
            "input_tokens": len(prompt),
            "output_tokens": len(output),
            "first_input_id": prompt[0],
            "last_input_id": prompt[-1],
            "first_output_id": output[0],
        }
    server = instance(case)
    for request in made:
        server.inject(request, request.arrival)
    server.advance()
    block = build_results([server.finish()], several=False).cluster.reference_items()
    # some of these percentiles come from another formula, equal but for the last digits
    assert {key: block[key] for key in case["expected"]} == pytest.approx(
        case["expected"], rel=1e-9
    )
