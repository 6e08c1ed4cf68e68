"""GPU figures, bundled and the user's."""

from __future__ import annotations

import json

import pytest

from blis_core.catalog.hardware import bundled_gpus, find_gpu, load_gpus
from blis_core.errors import BlisError

MINE = {"X1": {"TFlopsPeak": 100, "BwPeakTBs": 1.5, "_comment": "mine"}}


def test_catalogue():
    gpus = bundled_gpus()
    assert sorted(gpus) == ["A100-80", "A100-SXM", "H100", "L40S"]
    h100 = gpus["H100"]
    assert (h100.fp16_tflops, h100.fp8_tflops, h100.hbm_tb_s) == (989.5, 1979.0, 3.35)
    assert (h100.mfu_prefill, h100.mfu_decode, h100.memory_gib) == (0.45, 0.3, 80.0)


@pytest.mark.parametrize("name", ["H200", "h100", ""])
def test_unknown_gpu_lists_the_names(name):
    with pytest.raises(BlisError, match="A100-80, A100-SXM, H100, L40S"):
        find_gpu(name)


def test_own_file(tmp_path):
    path = tmp_path / "gpus.json"
    path.write_text(json.dumps(MINE))
    gpu = find_gpu("X1", str(path))
    assert (gpu.name, gpu.fp16_tflops, gpu.fp8_tflops, gpu.hbm_tb_s) == ("X1", 100.0, 0.0, 1.5)
    with pytest.raises(BlisError, match=r"unknown GPU 'H100' \(known: X1\)"):
        find_gpu("H100", str(path))


def test_file_beside_the_defaults(tmp_path):
    assert load_gpus(beside=tmp_path) == bundled_gpus()
    (tmp_path / "hardware_config.json").write_text(json.dumps(MINE))
    assert list(load_gpus(beside=tmp_path)) == ["X1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"X": 3}', "'X' must be an object"),
        ('{"X": {"BwPeakTBs": "3"}}', "BwPeakTBs of 'X' must be a number"),
        ('{"X": {"TFlopsFP8": true}}', "TFlopsFP8 of 'X' must be a number"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "gpus.json"
    path.write_text(text)
    with pytest.raises(BlisError, match=message) as refusal:
        load_gpus(str(path))
    assert str(path) in str(refusal.value)


def test_missing_file():
    with pytest.raises(BlisError, match=r"nowhere\.json.*--hardware-config"):
        load_gpus("nowhere.json")
