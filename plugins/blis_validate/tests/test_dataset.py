"""Data sets: what is read, and what is refused."""

from __future__ import annotations

import pytest

from blis_core.api import BlisError
from blis_validate.dataset import load_dataset


def test_a_record_is_read(make_record, write_dataset):
    (record,) = load_dataset(write_dataset(make_record())).experiments
    assert (record.model, record.hardware, record.tp) == ("Qwen/Qwen3-14B", "H100", 1)
    assert [stage.rate_rps for stage in record.workload.stages] == [2.0, 4.0]
    assert record.measured.ttft_ms.mean == 40.0
    assert record.workload.timeout_s == 300.0


def test_nulls_are_unknown(make_record, write_dataset):
    path = write_dataset(make_record(max_model_len=None, cpu_kv_blocks=None))
    (record,) = load_dataset(path).experiments
    assert (record.max_model_len, record.cpu_kv_blocks) == (0, 0)


def test_what_nobody_reads_is_named(make_record, write_dataset):
    noted = make_record(colour="red", workload__mood="calm", measured__power_w=650)
    noted["measured"]["ttft_ms"]["p42"] = 3.0
    noted["reference_predictions"] = {"somebody": {"guess": 1}}
    dataset = load_dataset(write_dataset(noted, make_record(id="b", colour="blue")))
    assert set(dataset.unread) == {
        "experiments.colour",
        "experiments.workload.mood",
        "experiments.measured.power_w",
        "experiments.measured.ttft_ms.p42",
        "experiments.reference_predictions.guess",
    }
    assert dataset.experiments[0].measured.ttft_ms.mean == 40.0
    assert load_dataset(write_dataset(make_record())).unread == ()


NOT_A_DATASET = {
    "no json": ("{", "not valid JSON"),
    "a list": ("[]", '"schema" must be'),
    "another schema": ('{"schema": "x", "experiments": []}', "not 'x'"),
}

REFUSED = {
    "wrong kind": ({"tp": "many"}, "tp"),
    "no stages": ({"workload__stages": []}, "stages"),
    "no rate": (
        {"workload__stages": [{"rate_rps": 0, "duration_s": 1}]},
        "rate_rps and duration_s must be above 0",
    ),
    "no output": ({"workload__output_tokens": 0}, "output_tokens"),
    "unknown generator": ({"workload__generator": "x"}, "generator"),
    "no trace": ({"workload": {"generator": "per-request trace"}}, "workload.trace"),
    "no gpus": ({"tp": 0}, "tp: must be above 0"),
}


@pytest.mark.parametrize("case", NOT_A_DATASET)
def test_not_a_data_set(write_dataset, case):
    text, message = NOT_A_DATASET[case]
    with pytest.raises(BlisError, match=message) as refusal:
        load_dataset(write_dataset(text=text))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_records(make_record, write_dataset, case):
    changes, message = REFUSED[case]
    with pytest.raises(BlisError, match=message) as refusal:
        load_dataset(write_dataset(make_record(**changes)))
    assert "\n" not in str(refusal.value)
    assert "experiments[0]" in str(refusal.value)


def test_ids_are_unique(make_record, write_dataset):
    with pytest.raises(BlisError, match="stands there twice"):
        load_dataset(write_dataset(make_record(), make_record()))


def test_a_missing_file(tmp_path):
    with pytest.raises(BlisError, match="cannot read data set"):
        load_dataset(str(tmp_path / "none.json"))
