"""Every golden case through the command line, in one interpreter, byte for byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from blis_core.cli.main import main

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/case.json"))


def settled(text: str) -> str:
    """A JSON file without what both programs may say in their own way: the order of simultaneous
    requests in a metrics file, and the wording of a calibration report."""
    document = json.loads(text)
    if "requests" in document:
        document["requests"].sort(key=lambda r: (r["arrived_at"], r["requestID"]))
    document["known_limitations"] = len(document.get("known_limitations", ()))
    return json.dumps(document)


def run(argv):
    try:
        return main(argv) or 0
    except SystemExit as stop:
        return stop.code or 0


@pytest.mark.parametrize("name", NAMES)
def test_case(name, tmp_path, monkeypatch, capsys):
    folder = CASES / name
    case = json.loads((folder / "case.json").read_text())
    for item in case["inputs"]:
        target = tmp_path / item
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / item, target)
    monkeypatch.chdir(tmp_path)
    code = run(case["argv"])
    shown = capsys.readouterr()
    if case["expect"] == "error":
        assert code in (1, 2)
        assert shown.err.strip()
        assert "Traceback" not in shown.err
        assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()) == (
            sorted(case["inputs"])
        )
        return
    assert code == 0, shown.err
    assert shown.out == (folder / "stdout.txt").read_text()
    for item in case["outputs"]:
        want, got = (folder / "expected" / item).read_text(), (tmp_path / item).read_text()
        assert got == want or settled(got) == settled(want)


def test_the_same_seed_gives_the_same_bytes(capsys):
    argv = "run --model qwen/qwen3-14b --rate 12 --num-requests 40 --num-instances 3".split()
    argv += "--routing-policy least-loaded --total-kv-blocks 400".split()
    texts = []
    for _ in range(2):
        assert run(argv) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert run([*argv, "--seed", "7"]) == 0
    assert capsys.readouterr().out != texts[0]
