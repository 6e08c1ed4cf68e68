"""A small data set, made up."""

from __future__ import annotations

import copy
import json

import pytest

RECORD = {
    "id": "small-1",
    "set": "made-up",
    "model": "Qwen/Qwen3-14B",
    "hardware": "H100",
    "tp": 1,
    "max_num_seqs": 64,
    "max_num_batched_tokens": 2048,
    "max_model_len": 4096,
    "gpu_memory_utilization": 0.9,
    "total_kv_blocks": 17386,
    "workload": {
        "generator": "inference-perf shared_prefix",
        "profile": "small",
        "stages": [{"rate_rps": 2.0, "duration_s": 30}, {"rate_rps": 4.0, "duration_s": 20}],
        "num_requests": 140,
        "system_prompt_tokens": 20,
        "question_tokens": 80,
        "output_tokens": 40,
        "distinct_prompts": 10,
        "groups": 2,
    },
    "measured": {"ttft_ms": {"mean": 40.0}, "e2e_ms": {"mean": 500.0}},
}


def record(**changes):
    """The record with some keys replaced; dotted keys reach into nested objects."""
    made = copy.deepcopy(RECORD)
    for path, value in changes.items():
        *outer, last = path.split("__")
        target = made
        for key in outer:
            target = target[key]
        target[last] = value
    return made


@pytest.fixture
def make_record():
    """``record`` above."""
    return record


@pytest.fixture
def write_dataset(tmp_path):
    """Writes a data set of some records (or any other text) and returns its path."""

    def write(*records, text=None):
        contents = {"schema": "blis-real-measurements/1", "experiments": list(records)}
        path = tmp_path / "runs.json"
        path.write_text(json.dumps(contents) if text is None else text)
        return str(path)

    return write
