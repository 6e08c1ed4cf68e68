"""Where a model's config comes from."""

from __future__ import annotations

import json
import sys
import types

import pytest

from blis_core.catalog.models import find_config, short_name
from blis_core.errors import BlisError

CONFIG = {"num_hidden_layers": 2, "hidden_size": 64}


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """Without the optional library, unless a test puts a fake one there."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)


def write(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    text = contents if isinstance(contents, str) else json.dumps(contents)
    (folder / "config.json").write_text(text)


def fake_hub(monkeypatch, result):
    hub = types.ModuleType("huggingface_hub")
    calls = []

    def hf_hub_download(repo_id, filename, *, etag_timeout):
        calls.append((repo_id, filename, etag_timeout))
        if isinstance(result, Exception):
            raise result
        return str(result / "config.json")

    hub.hf_hub_download = hf_hub_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    return calls


def test_explicit_folder_is_not_checked(tmp_path):
    write(tmp_path, {"anything": 1})
    found = find_config("qwen/qwen3-14b", folder=str(tmp_path))
    assert found.config == {"anything": 1}
    assert found.source == str(tmp_path / "config.json")


def test_explicit_folder_without_config(tmp_path):
    with pytest.raises(BlisError, match="--model-config-folder"):
        find_config("qwen/qwen3-14b", folder=str(tmp_path))


def test_folder_beside_the_defaults_file_wins_over_the_catalogue(tmp_path):
    write(tmp_path / "model_configs" / "qwen3-14b", CONFIG)
    assert find_config("Qwen/Qwen3-14B", beside=tmp_path).config == CONFIG


@pytest.mark.parametrize("contents", ["not json", "[]", {"hidden": 1}])
def test_unsuitable_config_is_passed_over_with_a_warning(tmp_path, contents, capsys):
    write(tmp_path / "model_configs" / "qwen3-14b", contents)
    assert find_config("qwen/qwen3-14b", beside=tmp_path).source == "catalogue (qwen3-14b)"
    assert "ignoring" in capsys.readouterr().err


def test_nested_config_is_suitable(tmp_path):
    write(tmp_path / "model_configs" / "new", {"text_config": {"hidden_size": None}})
    assert "hidden_size" in find_config("a/new", beside=tmp_path).config


def test_organisation_does_not_matter():
    assert find_config("foo/qwen3-14b").config == find_config("Qwen/Qwen3-14B").config
    assert find_config("qwen3-14b").config["hidden_size"] == 5120


@pytest.mark.parametrize("name", ["a/../b", "../../b", "a//etc/passwd", "a/b/../../..", "", "a/."])
def test_names_that_leave_the_folder(name):
    with pytest.raises(BlisError, match="--model"):
        short_name(name)


def test_library_for_the_hub_is_missing():
    with pytest.raises(BlisError, match=r"pip install 'blis-core\[hub\]'.*Org/New"):
        find_config("org/new", hf_repo="Org/New")


def test_name_that_is_no_repository():
    with pytest.raises(BlisError, match="owner/name"):
        find_config("new")


def test_hub(monkeypatch, tmp_path):
    write(tmp_path, CONFIG)
    calls = fake_hub(monkeypatch, tmp_path)
    found = find_config("org/new", hf_repo="Org/New")
    assert found.config == CONFIG
    assert found.source == "hub (Org/New)"
    assert find_config("org/new").source == "hub (org/new)"
    assert calls == [("Org/New", "config.json", 30), ("org/new", "config.json", 30)]


def test_hub_is_not_asked_for_catalogue_models(monkeypatch, tmp_path):
    calls = fake_hub(monkeypatch, tmp_path)
    find_config("qwen/qwen3-14b", hf_repo="Qwen/Qwen3-14B")
    assert calls == []


def test_hub_fails(monkeypatch):
    fake_hub(monkeypatch, RuntimeError("offline\nand more"))
    with pytest.raises(BlisError, match=r"failed: offline; set HF_TOKEN") as refusal:
        find_config("org/new")
    assert "\n" not in str(refusal.value)


def test_hub_has_another_kind_of_config(monkeypatch, tmp_path):
    write(tmp_path, {"vision": 1})
    fake_hub(monkeypatch, tmp_path)
    with pytest.raises(BlisError, match="num_hidden_layers"):
        find_config("org/new")
