"""Levels and lines of the log."""

from __future__ import annotations

import subprocess
import sys

import pytest

from blis_core import log
from blis_core.errors import BlisError


@pytest.fixture(autouse=True)
def default_level():
    log.set_level("warn")
    yield
    log.set_level("warn")


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("trace", "debug info warning error"),
        ("DEBUG", "debug info warning error"),
        ("Info", "info warning error"),
        ("warn", "warning error"),
        ("warning", "warning error"),
        ("error", "error"),
        ("fatal", ""),
        ("panic", ""),
    ],
)
def test_levels(capsys, level, shown):
    log.set_level(level)
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("event", value=1)
        assert log.enabled(name) == (name in shown.split())
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split("]")[0][1:] for line in err.splitlines()] == shown.split()


def test_a_line_is_readable(capsys):
    log.warning("the cache is small", blocks=3, advice="add blocks")
    assert capsys.readouterr().err == "[warning] the cache is small advice='add blocks' blocks=3\n"


@pytest.mark.parametrize("level", ["", "loud", "warn "])
def test_unknown_level(level):
    with pytest.raises(BlisError, match=r"unknown log level .*choose from trace, debug"):
        log.set_level(level)


def test_structlog_is_imported_only_for_lines_that_need_it():
    code = (
        "import sys; from blis_core import log; log.error('loud [x] and clear'); "
        "print('structlog' in sys.modules); log.error('loud [x] and clear', value=1); "
        "print('structlog' in sys.modules); log.error('loud [x] and clear')"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["False", "True"]
    without, with_value, by_structlog = process.stderr.splitlines()
    assert without == by_structlog == "[error] loud [x] and clear"
    assert with_value == f"{without} value=1"


def test_warnings_are_collected_whether_or_not_they_are_shown(capsys):
    with log.collected() as texts:
        log.warning("one", value=1)
        log.set_level("error")
        log.warning("two")
        log.error("an error is no warning")
        log.keep("three")
        with log.collected() as inner:
            log.warning("four")
    log.warning("five")
    assert (texts, inner) == (["one", "two", "three"], ["four"])
    assert capsys.readouterr().err == "[warning] one value=1\n[error] an error is no warning\n"
