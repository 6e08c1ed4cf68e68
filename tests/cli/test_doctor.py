"""``blis doctor``: what is broken is found, and the exit code says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blis_core import examination, log, plugins
from blis_core.cli.main import main

Found = dict[str, list[tuple[str, str]]]


@pytest.fixture(autouse=True)
def usual_level() -> Any:
    yield
    plugins.reset()
    log.set_level("warn")


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns doctor(arguments) -> (exit code, findings by name)."""

    def run(*arguments: str) -> tuple[int, Found]:
        code = main(["doctor", "--output", "json", *arguments])
        shown = capsys.readouterr()
        assert "error" not in shown.err.lower().replace("modulenotfounderror", "")
        document = json.loads(shown.out)
        assert document["ok"] == (code == 0)
        found: Found = {}
        for entry in document["findings"]:
            found.setdefault(entry["name"], []).append((entry["status"], entry["text"]))
        return code, found

    return run


MODEL = ("--model", "qwen/qwen3-14b")


def test_a_healthy_set_up(doctor: Any) -> None:
    code, found = doctor()
    assert code == 0
    assert {status for entries in found.values() for status, _ in entries} <= {"ok", "note"}
    assert "3.1" in found["Python"][0][1]
    assert any("latency-model" in text for _, text in found["blis-latency-physics 0.1.0"])
    assert "memory" not in found


def test_a_deployment(doctor: Any) -> None:
    code, found = doctor(*MODEL, "--latency-model", "trained-physics")
    assert code == 0
    assert found["model"] == [("ok", "qwen/qwen3-14b, config from catalogue (qwen3-14b)")]
    assert found["GPUs"] == [("ok", "1 x H100 (catalogue entry of qwen/qwen3-14b)")]
    assert found["memory"][0][1].startswith("about 27.5 GiB of weights and 38.8 GiB of KV cache")
    assert found["KV cache"][0][1].startswith("15,909 blocks of 16 tokens, 254,544 tokens; 6 req")
    assert "coefficients of its distribution" in found["latency model"][0][1]
    assert "for a prompt of 512 tokens" in found["step times"][0][1]


@pytest.mark.parametrize(
    ("arguments", "name", "status", "text"),
    [
        (("--hardware", "L40S", "--tp", "1", "--gpu-memory-utilization", "0.3"), "memory", "broken",
         "it fits with --tp 4 (a run assumes 1,000,000 blocks)"),
        (("--total-kv-blocks", "99999"), "memory", "warning", "99,999, but 15,909 would fit"),
        (("--total-kv-blocks", "500", "--gpu-memory-utilization", "0.3"), "memory", "warning",
         "500 blocks are used, but weights and activations need"),
        (("--hardware", "H1000"), "qwen/qwen3-14b", "broken", "unknown GPU 'H1000'"),
        (("--latency-model", "rooflin"), "qwen/qwen3-14b", "broken", "did you mean 'roofline'?"),
        (("--latency-model", "kernels", "--hardware", "L40S", "--tp", "2"), "latency model",
         "warning", "the links between L40Ss are a property of the host"),
        (("--latency-model", "blackbox"), "latency model", "warning", "deprecated, use trained-ph"),
        (("--latency-model", "trained-physics", "--alpha-coeffs", "1,1,1", "--beta-coeffs",
          "1,1,1,1,1,1,1"), "latency model", "ok", "coefficients as given"),
    ],
)  # fmt: skip
def test_what_is_found(
    doctor: Any, arguments: tuple[str, ...], name: str, status: str, text: str
) -> None:
    code, found = doctor(*MODEL, *arguments)
    assert code == (status == "broken")
    assert any(s == status and text in t for s, t in found[name]), found[name]


def test_a_model_that_is_not_known(doctor: Any) -> None:
    code, found = doctor("--model", "acme/own")
    assert code == 1
    assert "needs --hardware and --tp" in found["acme/own"][0][1]
    own = ("--model", "acme/own", "--alpha-coeffs", "1,1,1", "--beta-coeffs", "1000,1,1")
    code, found = doctor(*own)
    assert code == 0
    assert found["memory"][0][0] == "warning"
    assert found["GPUs"][0][0] == "note"


def test_plugins_that_do_not_load(doctor: Any, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("import no_such_module_at_all\n")
    (tmp_path / "late.py").write_text(
        "from blis_core.api import hookimpl\n"
        "@hookimpl\n"
        "def blis_register_scorers(register):\n"
        '    register("late", "no_such_module_at_all:Scorer")\n'
    )
    files = [f"--plugin={tmp_path / name}" for name in ("wrong.py", "late.py")]
    code, found = doctor(*files, "-p", "no:blis-observe")
    assert code == 1
    ((status, text),) = found["wrong.py"]
    assert status == "broken"
    assert "no_such_module_at_all" in text
    assert "-p no:wrong.py" in text
    assert found["late.py"][0][0] == "broken"
    assert found["blis-observe 0.1.0"][0][0] == "note"


def test_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        metadata = {"Name": "blis-fake"}  # noqa: RUF012 - as importlib.metadata has it
        requires = ("numpy>=999", "no-such-distribution", "pandas; extra == 'x'", "click>=8")

    monkeypatch.setattr(examination, "_of_blis", lambda: [Fake()])
    found = list(examination._conflicts())
    assert [entry.status for entry in found] == ["broken", "broken"]
    assert "needs numpy>=999, but " in found[0].text
    assert "pip install 'no-such-distribution'" in found[1].text


def test_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *MODEL, "--hardware", "H1000"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Set-up\n  ok       Python: ")
    assert "\n\nDeployment\n  broken   qwen/qwen3-14b: unknown GPU" in text
    assert text.endswith("\n1 broken, 0 to look at\n")


def test_options_of_a_deployment_need_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--tp", "2"]) == 2
    assert "--tp: needs --model" in capsys.readouterr().err
