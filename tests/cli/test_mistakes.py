"""Mistakes of a newcomer: one line that says what, where and how to mend it; nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blis_core import log, plugins
from blis_core.cli.main import main
from blis_core.errors import did_you_mean

MODEL = "--model qwen/qwen3-14b"
FILES = {
    "empty.yaml": "",
    "text.yaml": "hello",
    "broken.yaml": "a: [1, 2\n",
    "typo.yaml": 'version: "2"\nclients:\n- id: a\n  rate_fracton: 1\n',
    "policy.yaml": "admission:\n  policy: tier-shd\n",
    "scorer.yaml": "routing:\n  policy: weighted\n  scorers: [{name: queue-dept, weight: 1}]\n",
    "profile.yaml": "latency_model: kernel\n",
    "gpu.json": '{"X1": {"TFlopsPeak": "many"}}',
    "folder/config.json": "{}",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    log.set_level("warn")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("rnu", 2, "unknown command 'rnu', did you mean 'run'?"),
        ("run", 1, "--model: is required, for example"),
        ("run --model", 2, "--model needs a value"),
        (f"run {MODEL} --num-request 5", 2, "unknown flag --num-request; did you mean --num-req"),
        (f"run {MODEL} --mdel x", 2, "unknown flag --mdel; did you mean --model?"),
        (f"replay {MODEL} --rate 5", 2, "unknown flag --rate\n"),
        (f"run {MODEL} --rate abc", 2, "--rate: 'abc' is not a number"),
        (f"run {MODEL} --rate -1", 1, "--rate: must be finite and greater than 0"),
        (f"run {MODEL} --num-requests 1.5", 2, "--num-requests: '1.5' is not a whole number"),
        ("run --model qwen3-14b", 1, "no defaults for qwen3-14b; did you mean qwen/qwen3-14b?"),
        (
            "run --model llama-2-70b --hardware H100 --tp 1",
            1,
            "is not in the catalogue (did you mean llama-2-70b-hf?)",
        ),
        (f"run {MODEL} --hardware h100", 1, "unknown GPU 'h100'; did you mean H100?"),
        (
            f"run {MODEL} --hardware X1 --hardware-config gpu.json",
            1,
            "gpu.json: TFlopsPeak of 'X1'",
        ),
        (f"run {MODEL} --hardware-config typo.yaml", 1, "are not valid JSON: Expecting value"),
        (f"run {MODEL} --latency-model rofline", 1, "--latency-model: unknown latency model"),
        (f"run {MODEL} --latency-profile profile.yaml", 1, "profile.yaml: unknown latency model"),
        (
            f"run {MODEL} --latency-model kernels --latency-option scal=1",
            1,
            "did you mean scale?",
        ),
        (f"run {MODEL} --latency-option a=1", 1, "latency model roofline has no options"),
        (f"run {MODEL} --workload chatbt", 1, "--workload: unknown workload preset 'chatbt'; did"),
        (f"run {MODEL} --workload-spec none.yaml", 1, "cannot read workload specification none"),
        (f"run {MODEL} --workload-spec folder", 1, "folder: Is a directory"),
        (f"run {MODEL} --workload-spec typo.yaml", 1, "did you mean 'rate_fraction'? (line 4)"),
        (f"run {MODEL} --workload-spec broken.yaml", 1, "broken.yaml, line 2: YAML syntax error"),
        (f"run {MODEL} --workload-spec empty.yaml", 1, "empty.yaml: the file is empty"),
        (f"run {MODEL} --workload-spec text.yaml", 1, "text.yaml: must be a mapping, not hello"),
        (f"run {MODEL} --policy-config policy.yaml", 1, "admission.policy: unknown admission pol"),
        (f"run {MODEL} --policy-config scorer.yaml", 1, "did you mean 'queue-depth'?"),
        (f"run {MODEL} --routing-policy weigthed", 1, "--routing-policy: unknown routing policy"),
        (f"run {MODEL} --priority-policy slo-base", 1, "did you mean slo-based?"),
        (f"run {MODEL} --kv-store page", 1, "--kv-store: unknown kv store 'page', did you mean"),
        (f"run {MODEL} --output jsn", 1, "got 'jsn'; did you mean json?"),
        (f"run {MODEL} --log warnn", 1, "unknown log level 'warnn'; did you mean warn? (--log:"),
        (f"run {MODEL} --semantics vlm", 2, "'vlm' is not a set of rules"),
        (f"run {MODEL} --fitness-weights throughpt:1", 1, "did you mean throughput?"),
        (f"run {MODEL} --prompt-tokens 9000", 1, "between --prompt-tokens-min (2) and"),
        (f"run {MODEL} --num-requests 0", 1, "the workload has no end; give a number above 0"),
        (f"run {MODEL} --concurrency 3 --rate 5", 1, "--concurrency: excludes --rate"),
        (f"run {MODEL} --prefill-instances 1", 1, "works only together with --decode-instances"),
        (f"run {MODEL} --alpha-coeffs 1,2,3", 1, "works only together with --beta-coeffs"),
        (f"run {MODEL} --gpu-memory-utilization 90", 1, "at most 1, got 90"),
        (f"run {MODEL} --model-config-folder none", 1, "cannot read model config none/config.json"),
        (f"run {MODEL} --metrics-path none/m.json", 1, "folder none does not exist; create it"),
        (f"run {MODEL} --metrics-path folder", 1, "folder is a folder; name a file"),
        (f"replay {MODEL}", 1, "--trace-header: name the trace file to replay"),
        (f"replay {MODEL} --trace-header x.yaml --trace-data x", 1, "cannot read x.yaml: No such"),
        ("convert preset --name chatbt", 1, "--name: unknown workload preset 'chatbt'; did you"),
        ("compose", 1, "--from: name at least one workload specification"),
        ("calibrate", 1, "--trace-header: is required"),
        ("--plugin none.py run", 1, "none.py: no such file"),
        ("-p kernels run", 2, "-p kernels: expected no:NAME"),
        ("--list-plugins nothing", 1, "there is no plugin, distribution or extension of this name"),
        ("diff none.json none.json", 1, "cannot read none.json: No such file"),
    ],
)
def test_a_mistake(
    arguments: str, code: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    assert main(arguments.split()) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = [line for line in shown.err.splitlines() if not line.startswith("Try 'blis")]
    assert len(lines) == 1
    assert lines[0].startswith("blis: error: ")
    assert message.rstrip() in lines[0]
    if message.endswith("\n"):
        assert lines[0].endswith(message.rstrip())
    assert sorted(folder.rglob("*")) == before


RUN = f"run {MODEL} --num-requests 100 --log warn"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            f"{RUN} --routing-latency 0 surplus words",
            "ignored, since no option takes it: surplus w",
        ),
        (f"{RUN} --flow-control=false false", "as in --flag=false"),
        (f"{RUN} --defaults-filepath none.yaml", "there is no none.yaml; the built-in defaults"),
        (f"-p no:nothing {RUN}", "there is no plugin nothing to leave out"),
    ],
)
def test_what_is_done_in_spite_of_it(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    plugins.reset()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("output", ["text", "table", "json"])
def test_no_space_for_the_output(output: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = blis(*RUN.split(), "--output", output, stdout=full)
    assert done.returncode == 1
    assert done.stderr == "blis: error: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize("output", ["text", "table", "json"])
def test_a_reader_that_has_gone(output: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = blis(*RUN.split(), "--output", output, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def blis(*arguments: str, stdout: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "blis_core", *arguments],
        check=False,
        stdout=stdout,  # type: ignore[arg-type]
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [("H10", "; did you mean H100?"), ("l40s", "; did you mean L40S?"), ("zzz", ""), ("", "")],
)
def test_names_that_are_near(name: str, hint: str) -> None:
    assert did_you_mean(name, ["H100", "L40S", "A100"]) == hint
