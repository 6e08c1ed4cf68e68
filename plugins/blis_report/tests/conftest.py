"""Recordings that the tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from blis_core.api import Recording, simulate, write_recording

CLASSES = """
seed: 3
aggregate_rate: 60
num_requests: 240
clients:
- id: chat
  slo_class: critical
  rate_fraction: 0.6
  prefix_group: chat
  prefix_length: 200
  arrival: {process: gamma, cv: 2}
  input_distribution: {type: gaussian, params: {mean: 300, std_dev: 120, min: 10, max: 900}}
  output_distribution: {type: gaussian, params: {mean: 60, std_dev: 20, min: 5, max: 200}}
- id: docs
  slo_class: batch
  tenant_id: b
  rate_fraction: 0.4
  arrival: {process: poisson}
  input_distribution: {type: gaussian, params: {mean: 2000, std_dev: 400, min: 300, max: 4000}}
  output_distribution: {type: gaussian, params: {mean: 100, std_dev: 30, min: 20, max: 200}}
"""

OPTIONS: dict[str, dict[str, object]] = {
    "plain": {"rate": 20, "num_requests": 60},
    "tight": {"num_instances": 2, "total_kv_blocks": 700, "workload_spec": "classes.yaml"},
    "pools": {
        "num_instances": 4,
        "prefill_instances": 2,
        "decode_instances": 2,
        "pd_decider": "always",
        "routing_policy": "least-loaded",
        "rate": 40,
        "num_requests": 80,
        "output_tokens": 60,
        "output_tokens_stdev": 20,
        "output_tokens_max": 200,
        "output_tokens_min": 2,
    },
    "many": {"num_instances": 24, "rate": 100, "num_requests": 100},
    "late": {"rate": 2000, "num_requests": 300, "timeout": 1, "horizon": 900_000},
    "nobody": {"rate": 0.01, "num_requests": 2, "horizon": 1000},
    "rejected": {"num_requests": 5, "admission_policy": "reject-all"},
    "one": {"num_requests": 1},
}


def record(name: str, folder: Path) -> Recording:
    """The recording of a run of ``OPTIONS``."""
    given = {"model": "qwen/qwen3-14b", **OPTIONS[name]}
    if "workload_spec" in given:
        (folder / "classes.yaml").write_text(CLASSES)
        given["workload_spec"] = str(folder / "classes.yaml")
    recording = simulate(**given, keep_recording=True).recording  # type: ignore[arg-type]
    assert recording is not None
    return recording


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """All of them, by name."""
    folder = tmp_path_factory.mktemp("runs")
    return {name: record(name, folder) for name in OPTIONS}


@pytest.fixture(scope="session")
def files(
    recordings: dict[str, Recording], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The same as files."""
    folder = tmp_path_factory.mktemp("recordings")
    found = {}
    for name, recording in recordings.items():
        found[name] = folder / f"{name}.rec"
        write_recording(found[name], recording)
    return found
