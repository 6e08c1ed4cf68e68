"""run and replay: what they do with results, and in which order."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import blis_core.run
from blis_core import log
from blis_core.cli import replay, run
from blis_core.cli.main import main
from blis_core.config import ReplayConfig, RunConfig
from blis_core.errors import BlisError
from blis_core.results.aggregate import build_results
from blis_core.results.model import Results
from tests.results.records import instance, record


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> Results:
    """Fixed results in place of a simulation."""
    done = record("request_0", 1000, ttft=2000, e2e=3000, tenant="größe")
    found = build_results(
        [instance(done, timed_out=1, sim_ended=10**6)],
        several=False,
        generated=[done],
        workload_seed=7,
    )
    simulated: Callable[[Any], Results] = lambda config, **_: found  # noqa: E731
    monkeypatch.setattr(blis_core.run, "run_simulation", simulated)
    monkeypatch.setattr(blis_core.run, "run_replay", simulated)
    return found


def of_run(**options: Any) -> RunConfig:
    return RunConfig(**{"model": "acme/small", **options})


def of_replay(**options: Any) -> ReplayConfig:
    return ReplayConfig(model="acme/small", trace_header="h", trace_data="d", **options)


@pytest.mark.usefixtures("results")
def test_text_on_a_pipe(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run.execute(of_run())
    text = capfdbinary.readouterr().out
    assert text.startswith(b"=== Simulation Metrics ===\n{\n")
    assert b"Timed Out Requests: 1\n" in text
    assert "größe: requests=1".encode() in text
    replay.execute(of_replay())
    assert b"Timed Out" not in capfdbinary.readouterr().out


@pytest.mark.usefixtures("results")
def test_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    run.execute(of_run(output="table"))
    assert "Time to first token" in capsys.readouterr().out
    run.execute(of_run(output="json"))
    assert json.loads(capsys.readouterr().out)["cluster"]["completed_requests"] == 1


@pytest.mark.usefixtures("results")
def test_table_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    run.execute(of_run())
    assert "=== Simulation" not in capsys.readouterr().out


@pytest.mark.usefixtures("results")
def test_files(tmp_path: Path) -> None:
    run.execute(of_run(metrics_path=str(tmp_path / "m.json"), trace_output=str(tmp_path / "trace")))
    assert json.loads((tmp_path / "m.json").read_text())["requests"][0]["ttft_ms"] == 2
    assert "workload_seed: 7\n" in (tmp_path / "trace.yaml").read_text()
    assert len((tmp_path / "trace.csv").read_text().splitlines()) == 2
    replay.execute(
        of_replay(results_path=str(tmp_path / "r.json"), trace_output=str(tmp_path / "again"))
    )
    assert json.loads((tmp_path / "r.json").read_text())[0]["e2e_us"] == 3000
    assert "mode: replayed\n" in (tmp_path / "again.yaml").read_text()


@pytest.mark.parametrize("execute", [run.execute, replay.execute])
def test_hopeless_output_paths_are_found_before_the_simulation(
    execute: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("run_simulation", "run_replay"):
        monkeypatch.setattr(blis_core.run, name, lambda config: pytest.fail("simulated"))
    make, main = (of_run, "metrics_path") if execute is run.execute else (of_replay, "results_path")
    flag = "--" + main.replace("_", "-")
    with pytest.raises(BlisError, match=f"{flag}: folder .*missing does not exist"):
        execute(make(**{main: str(tmp_path / "missing" / "m.json")}))
    with pytest.raises(BlisError, match=f"{flag}: .* is a folder; name a file"):
        execute(make(**{main: str(tmp_path)}))
    with pytest.raises(BlisError, match=r"--trace-output: folder .*missing does not exist"):
        execute(make(trace_output=str(tmp_path / "missing" / "t")))


@pytest.mark.usefixtures("results")
def test_special_files_may_be_outputs(capfd: pytest.CaptureFixture[str]) -> None:
    run.execute(of_run(metrics_path="/dev/null"))
    assert "=== Simulation" in capfd.readouterr().out


def test_configuration_is_checked_first() -> None:
    with pytest.raises(BlisError, match="unknown log level 'loud'"):
        run.execute(of_run(log="loud", num_instances=0))
    with pytest.raises(BlisError, match="--num-instances"):
        run.execute(of_run(num_instances=0))


def test_a_command_line_becomes_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    command = run.command()
    monkeypatch.setattr(command, "_action", seen.append)
    args = ["--model", "Acme/Small", "--rate", "2", "--alpha-coeffs", "1,2,3"]
    with command.make_context("run", [*args, "extra"]) as context:
        command.invoke(context)
    assert seen == [of_run(rate=2.0, alpha_coeffs=(1.0, 2.0, 3.0))]
    assert run.command.configuration(args) == seen[0]
    assert run.command.configuration([*args, "extra"]) is None  # click warns of surplus words
    assert run.command.configuration(["--help"]) is None
    assert run.command.configuration([*args, "--rate", "x"]) is None


def test_parsing_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    script = (
        "import sys\n"
        "from blis_core.cli import run\n"
        "assert run.command.configuration(['--model', 'm', '--rate', '2'])\n"
        "heavy = {'click', 'numpy', 'cattrs', 'structlog', 'rich', 'yaml'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_cautions_are_said_once_on_stderr_and_are_in_the_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    log.set_level("warn")
    argv = "run --model qwen/qwen3-14b --rate 20 --num-requests 8 --output json".split()
    assert main([*argv, "--total-kv-blocks", "60"]) == 0
    shown = capsys.readouterr()
    warnings = json.loads(shown.out)["warnings"]
    assert [text.partition(":")[0] for text in warnings[1:]] == ["dropped", "kv-cache", "short"]
    assert shown.err.splitlines() == [f"[warning] {text}" for text in warnings]
    assert main([*argv, "--log", "error"]) == 0
    assert capsys.readouterr().err == ""
    log.set_level("warn")
