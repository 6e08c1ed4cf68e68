"""What a sweep survives: killed workers, a killed parent, an interrupt."""

from __future__ import annotations

import csv
import os
import signal
import sys
from collections import Counter

import pytest

from plugins.blis_sweep.tests.sweeping import alive, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals")]
SLOW = ["--grid", "latency-option=mode=slow", "--jobs", "2", "--out", "runs.csv"]


def rows(folder):
    with (folder / "runs.csv").open() as file:
        return list(csv.DictReader(file))


def kept(folder):
    return list((folder / "cache").rglob("*.json"))


def test_a_killed_worker_takes_nothing_along(folder, process, starts):
    sweep = process(*SLOW, "--seeds", "8")
    wait_for(starts)
    os.kill(starts()[0][0], signal.SIGKILL)
    code, out, err = sweep.end()
    assert code == 0, err
    assert [row["status"] for row in rows(folder)] == ["ok"] * 8
    assert "failed" not in out + err
    assert len(starts()) > 8  # what was under way has been simulated again


def test_a_killed_sweep_goes_on_where_it_was(folder, process, starts):
    """Its workers end by themselves, and nothing that has finished is simulated again."""
    sweep = process(*SLOW, "--seeds", "10")
    wait_for(lambda: len(kept(folder)) >= 2)
    os.kill(sweep.pid, signal.SIGKILL)
    assert sweep.end()[0] == -signal.SIGKILL
    workers = {pid for pid, _ in starts()}
    assert len(workers) == 2
    wait_for(lambda: not any(map(alive, workers)))
    assert not (folder / "runs.csv").exists()
    finished, started = len(kept(folder)), len(starts())
    assert 2 <= finished < 10

    code, _, err = process(*SLOW, "--seeds", "10").end()
    assert code == 0, err
    assert len(rows(folder)) == 10
    assert len(starts()) == started + 10 - finished
    assert f"{10 - finished} simulated, {finished} known before" in err


def test_an_interrupt_keeps_what_has_finished(folder, process, starts):
    sweep = process(*SLOW, "--seeds", "10")
    wait_for(lambda: len(kept(folder)) >= 2)
    os.kill(sweep.pid, signal.SIGINT)
    code, out, err = sweep.end()
    assert (code, out) == (130, "")
    assert "interrupted; " in err
    assert "the same command goes on from here" in err
    assert "Traceback" not in err
    assert not any(map(alive, {pid for pid, _ in starts()}))
    finished, started = len(kept(folder)), len(starts())
    assert process(*SLOW, "--seeds", "10").end()[0] == 0
    assert len(starts()) == started + 10 - finished


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_kills_a_worker_of_its_own_has_failed(marked_elsewhere, folder, starts, jobs):
    """The others go on; and the same command tries only what has failed again."""
    command = ["--grid", "latency-option=mode=;mode=kill;mode=a;mode=b;mode=c", "--jobs", jobs]
    command += ["--out", "runs.csv", "--seeds", "2"]
    code, out, err = marked_elsewhere(*command)
    assert code == 1
    status = Counter((row["latency_option"], row["status"]) for row in rows(folder))
    assert status == {
        ("mode=kill", "failed"): 2,
        **{(f"mode={mode}", "ok"): 2 for mode in ("", "a", "b", "c")},
    }
    assert "latency-option=mode=kill, seed 42: its worker process was killed, with no other" in out
    assert "2 failed" in err
    # Each alone in the end; before that, one or both, as the first takes both workers along.
    assert Counter(mode for _, mode in starts())["kill"] in (3, 4)

    before = len(starts())
    code, again, err = marked_elsewhere(*command)
    assert (code, again) == (1, out)
    assert "2 simulated, 8 known before, 2 failed" in err
    assert {mode for _, mode in starts()[before:]} == {"kill"}
