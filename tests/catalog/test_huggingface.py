"""Model configs are read as the reference reads them."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from blis_core.catalog.huggingface import (
    decode_config,
    describe,
    max_model_length,
    merged,
    parse_kv_parameters,
    parse_model,
    scaled_positions,
    weight_bytes_from_name,
)
from blis_core.catalog.models import bundled_config, bundled_names
from blis_core.errors import BlisError

VECTORS = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "latency_vectors.json").read_text()
)
CASES = {case["case"]: case for case in VECTORS["hf_parse"]}

BASE = {"num_hidden_layers": 4, "hidden_size": 512, "torch_dtype": "bfloat16"}


def as_vector(description):
    figures = attrs.asdict(description)
    del figures["details"]  # the reference does not read them; see test_details
    figures["bytes"] = figures.pop("bytes_per_value")
    return figures


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_parsing(case):
    config = decode_config(json.dumps(case["config"]), "config.json")
    description, _ = describe(config, case["model_name"])
    assert as_vector(description) == case["description"]
    expected = case["kv_parameters"]
    if expected is None:
        with pytest.raises(BlisError, match="number of experts"):
            parse_kv_parameters(config)
    else:
        found = attrs.asdict(parse_kv_parameters(config))
        assert {"is_moe": found.pop("moe"), **found} == expected


@pytest.mark.parametrize("name", [name for name in bundled_names() if name in VECTORS["models"]])
def test_catalogue_models(name):
    assert as_vector(parse_model(bundled_config(name))) == VECTORS["models"][name]


def test_number_of_vectors():
    assert len(VECTORS["hf_parse"]) == 51
    assert len(set(VECTORS["models"]) & set(bundled_names())) == 13


@pytest.mark.parametrize("case", VECTORS["rope"], ids=lambda case: str(case["rope_scaling"]))
def test_rope_scaling(case):
    found = scaled_positions(case["max_positions"], case["model_type"], case["rope_scaling"])
    assert found == case["result"]


@pytest.mark.parametrize(("name", "expected"), VECTORS["weight_bytes_from_name"])
def test_weight_bytes_from_name(name, expected):
    assert weight_bytes_from_name(name) == expected


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("qwen3-14b", 40960),
        ("deepseek-v2-lite", 163840),
        ("llama-3.1-70b-instruct", 131072),
        ("llama-4-scout-17b-16e-instruct-fp8-dynamic", 10485760),
    ],
)
def test_max_model_length(name, length):
    assert max_model_length(bundled_config(name)) == length


def test_text_config_wins_over_the_top_level():
    config = merged({"hidden_size": 1, "dtype": "x", "text_config": {"hidden_size": 2}})
    assert (config["hidden_size"], config["dtype"]) == (2, "x")


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "3", '"text"', "true", "{} {}", "{'a': 1}", '{"a": NaN}', '{"a": 1e999}', b"\xff"],
)
def test_refused_files(text):
    with pytest.raises(BlisError, match=r"^model\.json ") as refusal:
        decode_config(text, "model.json")
    assert "\n" not in str(refusal.value)


def test_null_is_an_empty_config():
    assert decode_config("null", "config.json") == {}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({}, None),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "not understood"),
        ({"quantization_config": {"bits": 4}}, None),
        ({"quantization_config": {"bits": 32}}, "wider"),
        ({"torch_dtype": "int8"}, "activations too"),
        ({"torch_dtype": "float8_e4m3fn"}, "unknown torch_dtype"),
    ],
)
def test_warnings_about_precision(changes, warning):
    _, warnings = describe({**BASE, **changes}, "a/b")
    assert len(warnings) == (warning is not None)
    assert warning is None or warning in warnings[0]
