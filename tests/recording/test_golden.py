"""Golden cases print and write the same bytes while they are recorded."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from blis_core.api import PARTS, read_recording
from tests.golden.test_golden import CASES, NAMES, run, settled


def _recorded_cases():
    for name in NAMES:
        case = json.loads((CASES / name / "case.json").read_text())
        if case["expect"] != "error" and case["argv"][0] in ("run", "replay"):
            yield name


@pytest.mark.slow
@pytest.mark.parametrize("name", list(_recorded_cases()))
def test_case(name, tmp_path, monkeypatch, capsys):
    folder = CASES / name
    case = json.loads((folder / "case.json").read_text())
    for item in case["inputs"]:
        target = tmp_path / item
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / item, target)
    monkeypatch.chdir(tmp_path)
    assert run([*case["argv"], "--record", "run.rec"]) == 0
    assert capsys.readouterr().out == (folder / "stdout.txt").read_text()
    for item in case["outputs"]:
        want, got = (folder / "expected" / item).read_text(), (tmp_path / item).read_text()
        assert got == want or settled(got) == settled(want)
    recording = read_recording("run.rec")
    e2e = recording.requests["e2e"]
    assert (sum(recording.parts().values())[e2e >= 0] == e2e[e2e >= 0]).all()
    on_clock = sum(recording.parts()[part] + recording.parts("lost")[part] for part in PARTS[:-1])
    assert (on_clock == recording.requests["end"] - recording.requests["arrival"]).all()
    assert (np.diff(recording.requests["arrival"]) >= 0).all()
