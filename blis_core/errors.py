"""Errors that are the user's to mend: shown as one line, without a traceback."""

from __future__ import annotations

from typing import ClassVar


class BlisError(Exception):
    """A mistake in input or configuration.

    The message is one line: what is wrong, where (file, field), and how to mend it. The command
    line prints it as ``blis: error: <message>`` and ends with :attr:`exit_code`.
    """

    exit_code: ClassVar[int] = 1


class UsageError(BlisError):
    """A mistake in the command line itself, such as an unknown flag or command."""

    exit_code: ClassVar[int] = 2
