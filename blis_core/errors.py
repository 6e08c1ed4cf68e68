"""Errors that are the user's to mend: shown as one line, without a traceback."""

from __future__ import annotations

from collections.abc import Iterable


class BlisError(Exception):
    """A mistake in input or configuration.

    The message is one line: what is wrong, where (file, field), and how to mend it. The command
    line prints it as ``blis: error: <message>`` and ends with :attr:`exit_code`.
    """

    exit_code: int = 1
    hint: str = ""
    """A second line, if any."""


class UsageError(BlisError):
    """A mistake in the command line itself, such as an unknown flag or command."""

    exit_code: int = 2


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean ...?`` with the known name that is most like ``name``; "" if none is.

    For the end of a message about a name that does not exist.
    """
    import difflib  # errors only

    names = list(known)
    close = [other for other in names if other.lower() == name.lower()]
    close = close or difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else ""
