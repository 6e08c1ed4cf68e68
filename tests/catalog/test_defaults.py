"""Per-model defaults and presets, bundled and the user's."""

from __future__ import annotations

import pytest

from blis_core.catalog.defaults import ModelDefaults, Preset, load_defaults
from blis_core.errors import BlisError

OWN = """
version: 0.1
defaults:
  m/x: {GPU: H100, tensor_parallelism: 2, vllm_version: v1, hf_repo: M/X}
  m/y: {GPU: L40S}
models:
  - {id: 0012, GPU: H100, tensor_parallelism: 0x2, vllm_version: v1, alpha_coeffs: [1, 2.5, ~, 3],
     beta_coeffs: [4, 5, 6], best_loss: 1e2}
workloads:
  tiny: {prompt_tokens: 10, prompt_tokens_stdev: 1, prompt_tokens_min: 1, prompt_tokens_max: 20,
         output_tokens: 5, output_tokens_stdev: 1, output_tokens_min: 1, output_tokens_max: 9}
trained_physics_coefficients: {alpha_coeffs: [1, 2, 3], beta_coeffs: [1, 2, 3, 4, 5, 6, 7]}
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "defaults.yaml"
    path.write_text(OWN)
    return load_defaults(str(path))


def test_catalogue(tmp_path):
    defaults = load_defaults(str(tmp_path / "defaults.yaml"))
    assert defaults.model("qwen/qwen3-14b") == ModelDefaults(
        gpu="H100", tp=1, version="vllm/vllm-openai:v0.11.0", hf_repo="Qwen/Qwen3-14B"
    )
    assert defaults.model("openai/gpt-oss-20b").hf_repo == ""
    assert defaults.model("foo/qwen3-14b") is None
    assert defaults.preset_names() == ["chatbot", "contentgen", "multidoc", "summarization"]
    assert defaults.preset("chatbot") == Preset(
        prompt_tokens=256,
        prompt_tokens_stdev=100,
        prompt_tokens_min=2,
        prompt_tokens_max=800,
        output_tokens=256,
        output_tokens_stdev=100,
        output_tokens_min=1,
        output_tokens_max=1024,
    )
    assert defaults.sections == {}
    assert defaults.folder is None
    assert defaults.base == str(tmp_path)


def test_own_file_replaces_the_catalogue(own, tmp_path):
    assert own.model("qwen/qwen3-14b") is None
    assert own.model("m/x") == ModelDefaults(gpu="H100", tp=2, version="v1", hf_repo="M/X")
    assert own.model("m/y") == ModelDefaults(gpu="L40S")
    assert own.preset_names() == ["tiny"]
    assert own.preset("tiny").output_tokens_max == 9
    assert own.folder == own.base == str(tmp_path)


def test_sections_for_coefficients(own):
    sections = own.sections
    assert sections["version"] == "0.1"
    assert sections["models"] == [
        {
            "id": "0012",
            "GPU": "H100",
            "tensor_parallelism": 2,
            "vllm_version": "v1",
            "alpha_coeffs": [1.0, 2.5, 3.0],
            "beta_coeffs": [4.0, 5.0, 6.0],
            "best_loss": 100.0,
        }
    ]
    assert sections["trained_physics_coefficients"]["beta_coeffs"] == [1, 2, 3, 4, 5, 6, 7]
    assert "crossmodel_defaults" not in sections


@pytest.mark.parametrize("presets", ["chatbot, contentgen, multidoc, summarization"])
def test_unknown_preset(presets):
    with pytest.raises(BlisError, match=presets):
        load_defaults("nowhere.yaml").preset("chat")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("modles: []", r"unknown key 'modles'; did you mean 'models'\? \(line 1\)"),
        ("defaults: {m/x: {gpu: H100}}", r": defaults\.m/x: unknown key 'gpu'"),
        (
            "models:\n- id: a\n- tensor_parallelism: two",
            r"models\[1\]\.tensor_parallelism: .*line 3",
        ),
        ("version: 1\nversion: 2", "line 2: key 'version' is given twice"),
        ("workloads: [1]", "workloads: must be a mapping"),
        ("a: [", "YAML syntax error"),
        ("trained_physics_coefficients: {beta_coeffs: 3}", "beta_coeffs: must be a list"),
    ],
)
def test_refused_files(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(BlisError, match=message) as refusal:
        load_defaults(str(path))
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_empty_sections_and_null_document(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("null")
    defaults = load_defaults(str(path))
    assert defaults.preset_names() == []
    assert defaults.sections["models"] == []
    path.write_text("workloads:\ndefaults: {m/x: ~}\nmodels: [~]")
    assert load_defaults(str(path)).model("m/x") == ModelDefaults()


def test_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(BlisError, match="cannot read defaults file"):
        load_defaults(str(tmp_path))
