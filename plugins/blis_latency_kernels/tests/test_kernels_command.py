"""The backend from the command line: options, profiles, warnings, GPUs of its own."""

from __future__ import annotations

import json

import pytest

from blis_core.cli.main import main

RUN = ["run", "--model", "qwen/qwen3-14b", "--num-requests", "5", "--rate", "2"]


@pytest.fixture
def blis(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main([*RUN, "--output", "json", *arguments])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return run


def itl(document):
    return document["cluster"]["itl_mean_ms"]


def test_scale(blis):
    _, plain, err = blis("--latency-model", "kernels")
    assert "latency model" not in err  # cautions about so small a run are another matter
    _, scaled, _ = blis("--latency-model", "kernels", "--latency-option", "scale=2")
    assert itl(scaled) == pytest.approx(2 * itl(plain), rel=0.1)


def test_a_profile_chooses_the_model_and_an_option_wins_over_it(blis, tmp_path):
    (tmp_path / "p.yaml").write_text("latency_model: kernels\noptions: {scale: 1.5}\ntp: 1\n")
    _, profiled, err = blis("--latency-profile", "p.yaml")
    assert "latency model" not in err
    _, given, _ = blis("--latency-model", "kernels", "--latency-option", "scale=1.5")
    assert itl(profiled) == itl(given)
    _, plain, _ = blis("--latency-profile", "p.yaml", "--latency-option", "scale=1")
    assert itl(plain) < itl(profiled)


def test_a_profile_of_another_deployment_is_warned_about(blis, tmp_path):
    (tmp_path / "p.yaml").write_text("latency_model: kernels\nhardware: L40S\ntp: 1\n")
    code, _, err = blis("--latency-profile", "p.yaml")
    assert code == 0
    assert "was fitted for GPU L40S, not for H100" in err


def test_a_profile_of_another_latency_model_is_refused(blis, tmp_path):
    (tmp_path / "p.yaml").write_text("latency_model: kernels\n")
    code, _, err = blis("--latency-profile", "p.yaml", "--latency-model", "roofline")
    assert code == 1
    assert "is for latency model kernels, not for roofline" in err


def test_kv_blocks_are_those_of_the_backend(blis):
    _, document, _ = blis("--latency-model", "kernels")
    resolution = {entry["name"]: entry for entry in document["resolution"]}
    assert "by kernels" in resolution["total-kv-blocks"]["origin"]


def test_gpus_of_the_backend(blis):
    arguments = "--hardware", "H200", "--total-kv-blocks", "40000"
    code, _, err = blis("--latency-model", "kernels", *arguments)
    assert code == 0
    assert "latency model kernels: untested" in err
    code, _, err = blis(*arguments)
    assert (code, "unknown GPU 'H200'" in err) == (1, True)


@pytest.mark.parametrize("option", ["scale=0", "foo=1", "sampler"])
def test_a_wrong_option(blis, option):
    code, document, err = blis("--latency-model", "kernels", "--latency-option", option)
    assert (code, document) == (1, None)
    assert err.startswith("blis: error: --latency-option")
    assert err.count("\n") == 1


def test_options_are_for_backends_that_have_some(blis):
    code, _, err = blis("--latency-option", "scale=2")
    assert code == 1
    assert "latency model roofline has no options" in err


def test_listing_shows_the_options(capsys):
    assert main(["--list-plugins", "kernels"]) == 0
    listing = capsys.readouterr().out
    for name in ("link_gb_s", "sampler", "scale", "routing", "measured_at"):
        assert name in listing
