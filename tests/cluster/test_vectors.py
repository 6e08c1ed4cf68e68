"""The recorded runs of the reference: every decision and its grounds, and every byte of stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import blis_core.run
from blis_core.cli.main import main
from tests.cluster.recording import watch

VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.json"))


def test_all_are_here():
    assert len(VECTORS) == 67


@pytest.fixture(params=VECTORS, ids=lambda path: path.stem)
def vector(request, tmp_path, monkeypatch):
    """One vector, in a folder with its files."""
    found = json.loads(request.param.read_text())
    for name, content in found["files"].items():
        (tmp_path / name).write_text(content)
    found["argv"] = [argument.replace("{dir}", str(tmp_path)) for argument in found["argv"]]
    monkeypatch.chdir(tmp_path)
    return found


def test_output(vector, capsys):
    """As a user runs it: instances are advanced only as far as the policies look."""
    assert (main(vector["argv"]) or 0) == vector["exit_code"]
    assert capsys.readouterr().out.splitlines() == vector["stdout"]


def test_decisions(vector, monkeypatch, capsys):
    """With all signals read at every decision, and each compared."""
    watched = []
    build = blis_core.run.build_cluster

    def build_watched(*args, **options):
        cluster = build(*args, **options)
        watched.append((cluster, watch(cluster)))
        return cluster

    monkeypatch.setattr(blis_core.run, "build_cluster", build_watched)
    assert (main(vector["argv"]) or 0) == vector["exit_code"]
    assert capsys.readouterr().out.splitlines() == vector["stdout"]
    (cluster, events), expected = watched[0], vector["decisions"]
    if not cluster.fleet._delay:  # nobody reads the caches, so they are not frozen either
        expected = [event for event in expected if event[0] != "cache_refresh"]
    for got, wanted in zip(events, expected, strict=False):
        assert got == wanted
    assert len(events) == len(expected)
