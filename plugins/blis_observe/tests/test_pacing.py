"""The client's own delays: what is measured of them, and when the client is to blame."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time

import pytest

from blis_observe.pacing import Clock, LoopWatch, percentile
from plugins.blis_observe.tests.fake_server import FakeServer


def test_clock():
    clock = Clock()
    clock.start()
    wall = clock.wall()
    assert abs(wall - time.time_ns() // 1000) < 10**6
    assert 0 <= clock.now() < 10**7
    assert abs(clock.epoch(clock.now()) - clock.wall()) < 10**5
    assert clock.epoch(5) - clock.epoch(0) == 5


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 99, 0),
        ([5], 50, 5),
        (range(1, 101), 99, 100),
        (range(1, 101), 50, 51),
        ([3, 1, 2], 0, 1),
    ],
)
def test_percentile(values, share, expected):
    assert percentile(list(values), share) == expected


def watched(work):
    """What a watch says of a loop in which ``work`` runs."""

    async def run():
        watch = LoopWatch()
        await work()
        watch.stop()
        return watch.complaint()

    return asyncio.run(run())


def test_a_client_that_computes_is_to_blame():
    async def work():
        await asyncio.sleep(0)
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        await asyncio.sleep(0.03)

    async def pauses():
        for _ in range(10):
            time.sleep(0.05)  # the loop stands still, the processor does not work
            await asyncio.sleep(0.021)

    complaint = watched(work)
    assert "busy" in complaint or "late" in complaint  # a busy machine gives it less of a core
    assert re.search(r"up to \d+ ms late", watched(pauses))


def test_progress_on_a_terminal(tmp_path):
    """A bar on a terminal's standard error, and nothing on standard output."""
    pty = pytest.importorskip("pty")
    with FakeServer(plan="ok,500", gap_ms=1) as server:
        ours, theirs = pty.openpty()
        argv = ["observe", "--server-url", server.url, "--model", "m", "--rate", "20"]
        argv += ["--num-requests", "20", "--trace-header", "t.yaml", "--trace-data", "t.csv"]
        code = "import sys; from blis_core.cli.main import main; sys.exit(main())"
        with subprocess.Popen(
            [sys.executable, "-c", code, *argv],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        ) as process:
            os.close(theirs)
            shown = b""
            while True:
                try:
                    piece = os.read(ours, 4096)
                except OSError:  # the other side has closed
                    break
                if not piece:
                    break
                shown += piece
            assert process.stdout.read() == b""
            assert process.wait() == 0
        os.close(ours)
    text = shown.decode()
    assert "observing" in text
    assert "/20" in text
    assert "in flight" in text
    assert "20 requests sent: 10 ok, 10 error, 0 timeout" in text
