"""Log lines on stderr, through structlog.

structlog takes longer to import than a small simulation takes to run, so levels are compared as
plain integers first, and structlog is imported only for lines that need it: on a terminal, with
values, or in an application that has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from blis_core.errors import BlisError, did_you_mean

LEVELS: Final = {
    "trace": 5,
    "debug": 10,
    "info": 20,
    "warn": 30,
    "warning": 30,
    "error": 40,
    "fatal": 50,
    "panic": 60,
}
"""Severity by name; a line is shown when its severity is at least the level set."""

_threshold = LEVELS["warn"]


def set_level(name: str) -> None:
    """Show lines of severity ``name`` and above (any letter case). Unknown name: BlisError."""
    global _threshold
    try:
        _threshold = LEVELS[name.lower()]
    except KeyError:
        hint = did_you_mean(name, LEVELS)
        raise BlisError(
            f"unknown log level {name!r}{hint} (--log: choose from {', '.join(LEVELS)})"
        ) from None


set_log_level = set_level
"""Show lines of the named severity and above, whatever a configuration says."""


def enabled(name: str) -> bool:
    """Whether a line of severity ``name`` would be shown (to skip costly preparation)."""
    return LEVELS[name] >= _threshold


def debug(event: str, **values: Any) -> None:
    """Log what helps to understand the simulator itself."""
    if _threshold <= 10:
        _write("debug", event, values)


def info(event: str, **values: Any) -> None:
    """Log progress, and where a resolved value came from."""
    if _threshold <= 20:
        _write("info", event, values)


def warning(event: str, **values: Any) -> None:
    """Log something that the user probably did not intend."""
    keep(event)
    if _threshold <= 30:
        _write("warning", event, values)


def error(event: str, **values: Any) -> None:
    """Log a failure that does not end the run."""
    if _threshold <= 40:
        _write("error", event, values)


_kept: ContextVar[list[str] | None] = ContextVar("kept", default=None)


@contextmanager
def collected() -> Iterator[list[str]]:
    """The texts of all warnings meanwhile, also of those below the level that is shown."""
    texts: list[str] = []
    token = _kept.set(texts)
    try:
        yield texts
    finally:
        _kept.reset(token)


def keep(event: str) -> None:
    """Add a text to what is being collected, without showing it."""
    texts = _kept.get()
    if texts is not None:
        texts.append(event)


def _write(level: str, event: str, values: dict[str, Any]) -> None:
    if not values and "structlog" not in sys.modules and not sys.stderr.isatty():
        # nobody can have configured structlog, whose line would be this one
        print(f"[{level}] {event}", file=sys.stderr, flush=True)
        return
    getattr(_logger(), level)(event, **values)


def _logger() -> Any:
    """A structlog logger: the application's own set-up if it has one, otherwise ours."""
    import structlog

    if structlog.is_configured():
        return structlog.get_logger("blis")
    # Built per line: lines are rare, and sys.stderr may have been replaced since the last one.
    terminal = sys.stderr.isatty()
    processors: list[Any] = [structlog.processors.add_log_level]
    if terminal:
        processors.append(structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False))
    processors.append(
        structlog.dev.ConsoleRenderer(colors=terminal, pad_event_to=0, pad_level=False)
    )
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=processors,
        wrapper_class=structlog.BoundLogger,
        cache_logger_on_first_use=False,
    )
