"""How far a sweep is: lines now and then, or a bar."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blis_sweep import progress
from blis_sweep.progress import Progress
from blis_sweep.store import Finished
from blis_sweep.worker import Outcome
from plugins.blis_sweep.tests.sweeping import RUN

DONE = Outcome(index=0, finished=Finished(metrics={}, traffic=""), seconds=2.0)
FAILED = Outcome(index=1, error="no luck", seconds=1.0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_lines_now_and_then(clock, capsys):
    with Progress(1000, shown=True) as shown:
        for _ in range(299):
            clock[0] += 0.5
            shown.add(DONE)
        shown.add(FAILED)
    assert (shown.done, shown.failed, shown.busy_s) == (300, 1, 599.0)
    assert capsys.readouterr().err == (
        "blis: sweep: 20 of 1000 runs, about 8 min left\n"
        "blis: sweep: 140 of 1000 runs, about 7 min left\n"
        "blis: sweep: 260 of 1000 runs, about 6 min left\n"
    )


def test_failures_are_counted(clock, capsys):
    with Progress(3, shown=True) as shown:
        shown.add(FAILED)
        clock[0] += 20
        shown.add(DONE)
    assert capsys.readouterr().err == "blis: sweep: 2 of 3 runs, 1 failed, about 20 s left\n"


def test_a_short_sweep_says_nothing(clock, capsys):
    with Progress(2, shown=True) as shown:
        shown.add(DONE)
        clock[0] += 5
        shown.add(DONE)
    assert capsys.readouterr().err == ""


def test_nothing_is_shown_to_a_library(clock, capsys):
    with Progress(2, shown=False) as shown:
        for _ in range(2):
            clock[0] += 500
            shown.add(DONE)
    assert capsys.readouterr().err == ""
    assert shown.done == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_a_bar_on_a_terminal(folder):
    import pty

    ours, theirs = pty.openpty()
    script = Path(sys.executable).with_name("blis")
    grid = ["--grid", "latency-option=mode=slow", "--seeds", "4", "--jobs", "2"]
    with subprocess.Popen(
        [script, "sweep", "--plugin", "marked.py", *grid, "--", *RUN],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        out, _ = running.communicate(timeout=60)
    shown = shown.decode()
    assert running.returncode == 0
    assert "simulating" in shown
    assert "ETA" in shown
    assert "/4" in shown
    assert "4 runs: 4 simulated" in shown
    assert "\x1b" not in out
