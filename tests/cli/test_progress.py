"""The progress bar: only on a terminal, only when it takes long, and never in the way."""

import io
import re
import sys
import time
from collections.abc import Iterator

import pytest

from blis_core.cli.progress import RunWatcher, _duration
from blis_core.cli.report import run_watcher
from blis_core.config import RunConfig
from blis_core.contracts import MAX_INT64, Request
from blis_core.run import run_simulation
from tests.results.records import record

CONFIG = RunConfig(model="qwen/qwen3-14b", rate=10.0, num_requests=30)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """stderr as a terminal; not a fixture, since pytest sets up stderr after those."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return made


class FakeInstance:
    finished = 3
    clock = 5_000_000


class FakeCluster:
    instances = (FakeInstance(), FakeInstance())


def watch(
    terminal: Terminal, requests: list[Request], expected: int, horizon: int = MAX_INT64
) -> None:
    """Draw ``requests`` slowly enough for the bar to be drawn."""
    watcher = RunWatcher(delay_s=0, interval_s=0.01)
    with watcher.watching(FakeCluster(), requests, expected, horizon) as drawn:  # type: ignore[arg-type]
        assert list(drawn) == requests
        deadline = time.monotonic() + 20
        while "s simulated" not in terminal.plain and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)


def test_none_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert run_watcher() is None


def test_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    assert run_watcher() is not None
    watch(terminal, [record(f"r{i}", i) for i in range(10)], expected=20)
    assert "6 of 20 requests, 5 s simulated" in terminal.plain
    assert "to go" in terminal.plain
    assert max(map(len, re.split(r"[\r\n]", terminal.plain))) <= 80
    assert sys.stderr is terminal  # put back by the library that draws


@pytest.mark.parametrize("horizon", [MAX_INT64, 10_000_000])
def test_without_a_known_number(monkeypatch: pytest.MonkeyPatch, horizon: int) -> None:
    terminal = open_terminal(monkeypatch)
    watch(terminal, [record("r", 9_000_000)], 0, horizon)
    assert "6 requests, 5 s simulated" in terminal.plain
    assert ("to go" in terminal.plain) == (horizon < MAX_INT64)


def test_a_short_run_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    plain = run_simulation(CONFIG)
    watched = run_simulation(CONFIG, watcher=RunWatcher())
    assert watched.to_json() == plain.to_json()
    assert terminal.getvalue() == ""


def test_it_ends_with_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)

    def interrupted() -> Iterator[Request]:
        yield record()
        raise KeyboardInterrupt

    watcher = RunWatcher(delay_s=0, interval_s=0.01)
    with (
        pytest.raises(KeyboardInterrupt),
        watcher.watching(FakeCluster(), interrupted(), 2, 5) as drawn,  # type: ignore[arg-type]
    ):
        list(drawn)
    assert sys.stderr is terminal


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (125.4, "2:05 min"), (7200, "2:00 h"), (9e6, "2,500:00 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert _duration(seconds) == text
