"""Completion in a shell: the scripts, and what they are told."""

import shutil
import subprocess

import pytest

from blis_core.cli.completion import SHELLS, VARIABLE, candidates, script
from blis_core.cli.main import main
from blis_core.config import ReplayConfig, RunConfig
from blis_core.option import options_of


def completed(line: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: object) -> list[str]:
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv(VARIABLE, "bash_complete")
    assert main([]) == 0
    return capsysbinary.readouterr().out.decode().split()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("blis do", ["plain,doctor"]),
        ("blis run --latency-model tr", ["plain,trained-physics", "plain,trained-roofline"]),
        ("blis run --latency-model=ro", ["plain,roofline"]),
        ("blis run --model qwen/qwen3", ["plain,qwen/qwen3-14b"]),
        ("blis run --hardware L", ["plain,L40S"]),
        ("blis run --routing-policy least-loaded --sched", ["plain,--scheduler"]),
        ("blis run --scheduler priority", ["plain,priority-fcfs"]),
        ("blis run --priority-policy s", ["plain,slo-based"]),
        ("blis run --routing-scorers kv", ["plain,kv-utilization"]),
        ("blis run --output j", ["plain,json"]),
        ("blis run --log i", ["plain,info"]),
        ("blis run --workload chat", ["plain,chatbot"]),
        ("blis run --flow-control --dispatch-order p", ["plain,priority"]),
        ("blis run --flow-control --disp", ["plain,--dispatch-order"]),
        ("blis run --workload-spec ./w", ["file,./w"]),
        ("blis replay --trace-header ", ["file,"]),
        ("blis run --rate ", []),
        ("blis completion z", ["plain,zsh"]),
    ],
)
def test_completions(
    line: str,
    found: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert completed(line, monkeypatch, capsysbinary) == found


@pytest.mark.parametrize("config", [RunConfig, ReplayConfig])
def test_candidates_are_valid_values(config: type) -> None:
    for spec in options_of(config):
        for name in candidates(spec) or ():
            spec.check(spec.default if spec.name == "latency_option" else name)


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert text == script(shell)
    assert VARIABLE in text
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=text, text=True, check=True)


def test_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err
