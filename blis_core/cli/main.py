"""The command line: options that hold for every command, quick commands, and errors as one line.

Commands are extensions like any other. Their modules are imported when they are invoked; help and
``--list-plugins`` use what was registered about them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from blis_core import plugins
from blis_core.cli.problems import report_problems
from blis_core.errors import BlisError, UsageError

if TYPE_CHECKING:
    from blis_core.cli.flags import QuickCommand

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE = 141  # 128 + SIGPIPE


class _Globals(NamedTuple):
    """Options that may stand anywhere on the command line, and the arguments that remain."""

    rest: list[str]
    files: list[str]
    disabled: list[str]
    debug: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; never raises for a user's mistake."""
    # numpy's linear algebra is not used here; its threads would cost a tenth of a short run
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = list(sys.argv[1:] if argv is None else argv)
    scanned = _Globals(arguments, [], [], "--debug" in arguments)  # in case the scan fails
    try:
        scanned = _scan(arguments)
        plugins.configure(files=scanned.files, disabled=scanned.disabled)
        code = _run(scanned.rest)
        sys.stdout.flush()
    except BrokenPipeError:
        return _broken_pipe()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            return _broken_pipe()
        return _report(error, scanned)
    return code


def _run(arguments: list[str]) -> int:
    result: object
    quick = _quick(arguments)
    if quick is not None:
        command, config = quick
        report_problems()
        result = command.action(config)
    else:
        from blis_core.cli import group

        result = group.run(arguments)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _quick(arguments: list[str]) -> tuple[QuickCommand[Any], Any] | None:
    """A command of the core and its configuration, if nothing is needed of click."""
    registry = plugins.get_registry()
    name = arguments[0] if arguments else ""
    if name not in registry.names("command") or "_BLIS_COMPLETE" in os.environ:
        return None
    if registry.get("command", name).origin != plugins.CORE:
        return None
    command = registry.factory("command", name)
    from blis_core.cli.flags import QuickCommand  # brings attrs, which help can do without

    if not isinstance(command, QuickCommand):
        return None
    config = command.configuration(arguments[1:])
    return None if config is None else (command, config)


def _scan(arguments: Sequence[str]) -> _Globals:
    """Take out the options that hold for every command, wherever they stand before ``--``."""
    found = _Globals([], [], [], "--debug" in _before_separator(arguments))
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            found.rest.extend([argument, *remaining])
        elif argument == "--plugin" or argument.startswith("--plugin="):
            found.files.append(_value("--plugin", argument, remaining))
        elif argument == "-p" or argument.startswith(("-p=", "-pno:")):
            value = _value("-p", argument, remaining)
            if not value.startswith("no:") or not value[3:].strip():
                raise UsageError(f"-p {value}: expected no:NAME (the plugin to leave out)")
            found.disabled.append(value[3:])
        elif argument != "--debug":
            found.rest.append(argument)
    return found


def _before_separator(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _value(option: str, argument: str, remaining: Any) -> str:
    attached = argument[len(option) :].removeprefix("=")
    value = attached or next(remaining, "")
    if not value:
        raise UsageError(f"{option} needs a value")
    return cast("str", value)


def _report(error: Exception, scanned: _Globals) -> int:
    """Print an error as one line and return the exit code that belongs to it."""
    if scanned.debug:
        import traceback

        traceback.print_exception(error)
    hint, code = "", 1
    if isinstance(error, BlisError):
        message, code, hint = str(error), error.exit_code, error.hint
    elif isinstance(error, OSError) and error.filename is not None:
        message = f"{error.filename}: {error.strerror}"
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        message = f"cannot write standard output: {error.strerror}"
    else:
        detail = f"{type(error).__name__}: {error}"
        message = f"internal error: {detail} (--debug shows the traceback)"
    print(f"blis: error: {' '.join(message.split())}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    return code


def _broken_pipe() -> int:
    """The reader of stdout has gone: say nothing, and keep the interpreter from trying again."""
    with contextlib.suppress(OSError, ValueError):  # stdout without a descriptor, as under test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
