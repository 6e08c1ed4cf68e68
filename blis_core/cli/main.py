"""The command line: options that hold for every command, lazy commands, and errors as one line.

Commands are extensions like any other. Their modules are imported when they are invoked; help and
``--list-plugins`` use what was registered about them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import click

from blis_core import __version__, plugins
from blis_core.errors import BlisError, UsageError

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE = 141  # 128 + SIGPIPE


class _Globals(NamedTuple):
    """Options that may stand anywhere on the command line, and the arguments that remain."""

    rest: list[str]
    files: list[str]
    disabled: list[str]
    debug: bool


class _Commands(click.Group):
    """Subcommands from the registry."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return plugins.get_registry().names("command")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        registry = plugins.get_registry()
        command = registry.factory("command", cmd_name)
        if not isinstance(command, click.Command):
            raise BlisError(f"{registry.get('command', cmd_name)} is not a click command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Options and commands, importing none of them."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(entry.name, help=entry.summary)
            for entry in plugins.get_registry().entries("command")
            if entry.name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands with the summaries they were registered with, importing none of them."""
        rows = [(entry.name, entry.summary) for entry in plugins.get_registry().entries("command")]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"blis {__version__}")
        ctx.exit()


# --plugin, -p and --debug are taken out of the arguments before click sees them (they may stand
# behind the command too); they are declared here for the help text.
@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--plugin", metavar="FILE", expose_value=False, help="Load a plugin from a file.")
@click.option(
    "-p", metavar="no:NAME", expose_value=False, help="Leave out a plugin or distribution."
)
@click.option(
    "--list-plugins",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    help="Show what is installed and what it registers; with a name, all about that.",
)
@click.option("--json", "as_json", is_flag=True, help="With --list-plugins: as JSON.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks of errors.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
@click.pass_context
def _blis(ctx: click.Context, list_plugins: str | None, as_json: bool) -> None:
    """Simulate the serving of large language models."""
    if as_json and list_plugins is None:
        raise click.UsageError("--json goes with --list-plugins")
    if list_plugins is not None:
        from blis_core import plugin_listing

        registry = plugins.get_registry()
        if as_json:
            click.echo(plugin_listing.as_json(registry))
        elif list_plugins:
            click.echo(plugin_listing.details(registry, list_plugins))
        else:
            width = os.get_terminal_size().columns if sys.stdout.isatty() else None
            click.echo(plugin_listing.as_table(registry, width))
        ctx.exit()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit()
    _report_problems()


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
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            return _broken_pipe()
        return _report(error, scanned)
    return code


def _run(arguments: list[str]) -> int:
    if "_BLIS_COMPLETE" in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(_blis, {}, "blis", "_BLIS_COMPLETE", os.environ["_BLIS_COMPLETE"])
    if arguments[:1] == ["help"]:
        known = plugins.get_registry().names("command")
        arguments = [name for name in arguments[1:2] if name in known] + ["--help"]
    try:
        # Not Group.main(): it ends the process itself and prints errors in its own form.
        with _blis.make_context("blis", arguments) as context:
            result = _blis.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


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


def _report_problems() -> None:
    """One line on stderr for each plugin that could not be used."""
    registry = plugins.get_registry()
    texts = [str(problem) for problem in registry.problems]
    texts += [
        f"there is no plugin {name} to leave out; blis --list-plugins shows all"
        for name in registry.absent
    ]
    if texts:
        from blis_core import log

        for text in texts:
            log.warning(text)


def _report(error: Exception, scanned: _Globals) -> int:
    """Print an error as one line and return the exit code that belongs to it."""
    if scanned.debug:
        import traceback

        traceback.print_exception(error)
    hint, code = "", 1
    if isinstance(error, BlisError):
        message, code = str(error), error.exit_code
    elif isinstance(error, click.ClickException):
        message, code = error.format_message(), error.exit_code
        if isinstance(error, click.UsageError):
            hint = f"Try '{_command_path(error, scanned.rest)} --help' for help."
    elif isinstance(error, OSError) and error.filename is not None:
        message = f"{error.filename}: {error.strerror}"
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        message = f"cannot write standard output: {error.strerror}"
    else:
        detail = f"{type(error).__name__}: {error}"
        message = f"internal error: {detail} (--debug shows the traceback)"
    click.echo(f"blis: error: {' '.join(message.split())}", err=True)
    if hint:
        click.echo(hint, err=True)
    return code


def _command_path(error: click.UsageError, arguments: list[str]) -> str:
    """The command whose help explains a usage error; click does not always know."""
    if error.ctx is not None:
        return error.ctx.command_path
    first = next((argument for argument in arguments if not argument.startswith("-")), "")
    return f"blis {first}".rstrip()


def _broken_pipe() -> int:
    """The reader of stdout has gone: say nothing, and keep the interpreter from trying again."""
    with contextlib.suppress(OSError, ValueError):  # stdout without a descriptor, as under test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
