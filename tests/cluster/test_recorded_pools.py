"""Recorded runs of the reference with pools for prefill and decode, and with several models.

``data/pools`` holds one file per run: the command line, its input files, standard output, and the
metrics file (the requests as rows, sorted by id).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blis_core.cli.main import main

RUNS = sorted(Path(__file__).parent.joinpath("data", "pools").glob("*.json"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_run(path, tmp_path, monkeypatch, capsys) -> None:
    run = json.loads(path.read_text())
    monkeypatch.chdir(tmp_path)
    for name, text in run["files"].items():
        Path(name).write_text(text)
    assert main(run["argv"]) in (None, 0)
    assert capsys.readouterr().out.splitlines() == run["stdout"]
    if "metrics" not in run:
        return
    written = json.loads(Path("metrics.json").read_text())
    requests = sorted(written.pop("requests", []), key=lambda r: r["requestID"])
    assert written == run["metrics"]
    fields = run["request_fields"]
    assert {key for r in requests for key in r} == set(fields)
    assert [[r.get(field) for field in fields] for r in requests] == run["requests"]


def test_all_are_there() -> None:
    assert len(RUNS) == 29
