"""The command line as click sees it: help, ``--list-plugins``, completion, and all commands."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from blis_core import __version__, plugins
from blis_core.cli.problems import report_problems
from blis_core.errors import BlisError


def run(arguments: list[str]) -> object:
    """Invoke what ``arguments`` ask for; what the command returns, or an exit code.

    BlisError for what click has to say, KeyboardInterrupt if it was aborted.
    """
    if "_BLIS_COMPLETE" in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(blis, {}, "blis", "_BLIS_COMPLETE", os.environ["_BLIS_COMPLETE"])
    if arguments[:1] == ["help"]:
        known = plugins.get_registry().names("command")
        arguments = [name for name in arguments[1:2] if name in known] + ["--help"]
    try:
        # Not Group.main(): it ends the process itself and prints errors in its own form.
        with blis.make_context("blis", arguments) as context:
            return blis.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        mistake = BlisError(error.format_message())
        mistake.exit_code = error.exit_code
        if isinstance(error, click.UsageError):
            mistake.hint = f"Try '{_command_path(error, arguments)} --help' for help."
        raise mistake from error


def _command_path(error: click.UsageError, arguments: list[str]) -> str:
    """The command whose help explains a usage error; click does not always know."""
    if error.ctx is not None:
        return error.ctx.command_path
    first = next((argument for argument in arguments if not argument.startswith("-")), "")
    return f"blis {first}".rstrip()


class _Commands(click.Group):
    """Subcommands from the registry."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return plugins.get_registry().names("command")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        registry = plugins.get_registry()
        command: object = registry.factory("command", cmd_name)
        if not isinstance(command, click.Command):
            from blis_core.cli.flags import QuickCommand

            if isinstance(command, QuickCommand):
                command = command()
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
def blis(ctx: click.Context, list_plugins: str | None, as_json: bool) -> None:
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
    report_problems()
