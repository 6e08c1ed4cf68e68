"""``blis convert``: workload specifications, and traces, from other descriptions of traffic."""

from __future__ import annotations

from typing import Any

import attrs
import click

from blis_core import log, plugins
from blis_core.cli.options import ConfigCommand
from blis_core.cli.report import print_text, require
from blis_core.errors import BlisError
from blis_core.option import ValueKind, finite_positive, option
from blis_core.records import Record

SOURCE = "Source"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PresetOptions(Record):
    """Options of ``convert preset``."""

    name: str = option(ValueKind.TEXT, SOURCE, "", "Name of a preset, such as chatbot (required).")
    rate: float = option(ValueKind.FLOAT, SOURCE, 1.0, "Requests per second.")
    num_requests: int = option(ValueKind.INT, SOURCE, 100, "Requests of the workload.", at_least=1)
    defaults_filepath: str = option(
        ValueKind.TEXT, SOURCE, "defaults.yaml", "Catalogue file, if there is one."
    )


def convert_preset(options: PresetOptions) -> None:
    """A preset as a specification."""
    log.set_level("info")
    if not finite_positive(options.rate):
        raise BlisError(f"--rate: must be finite and greater than 0, got {options.rate:g}")
    if options.num_requests <= 0:
        raise BlisError(f"--num-requests: must be greater than 0, got {options.num_requests}")
    require([("--name", options.name)])

    from blis_core.catalog.defaults import load_defaults
    from blis_core.workload.convert import from_preset
    from blis_core.workload.spec_text import spec_text

    preset = load_defaults(options.defaults_filepath).preset(options.name, "--name")
    print_text(spec_text(from_preset(options.name, preset, options.rate, options.num_requests)))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServegenOptions(Record):
    """Options of ``convert servegen``."""

    path: str = option(ValueKind.TEXT, SOURCE, "", "Folder of ServeGen data (required).")


def convert_servegen(options: ServegenOptions) -> None:
    """A folder of ServeGen data as a specification."""
    log.set_level("info")
    require([("--path", options.path)])

    from blis_core.workload.convert import from_servegen
    from blis_core.workload.spec_text import spec_text

    print_text(spec_text(from_servegen(options.path)))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InferencePerfOptions(Record):
    """Options of ``convert inference-perf``."""

    spec: str = option(
        ValueKind.TEXT, SOURCE, "", "Workload specification with inference_perf (required)."
    )


def convert_inference_perf(options: InferencePerfOptions) -> None:
    """An inference-perf section as a specification of clients."""
    log.set_level("info")
    require([("--spec", options.spec)])

    from blis_core.workload.convert import from_inference_perf
    from blis_core.workload.spec import load_spec
    from blis_core.workload.spec_text import spec_text

    try:
        print_text(spec_text(from_inference_perf(load_spec(options.spec))))
    except BlisError as problem:
        raise BlisError(f"{options.spec}: {problem}") from None


_BUILT_IN: dict[str, ConfigCommand[Any]] = {
    "preset": ConfigCommand(
        "preset",
        PresetOptions,
        convert_preset,
        help="Print a workload preset as a workload specification.",
    ),
    "servegen": ConfigCommand(
        "servegen",
        ServegenOptions,
        convert_servegen,
        help="Print ServeGen data as a workload specification.",
    ),
    "inference-perf": ConfigCommand(
        "inference-perf",
        InferencePerfOptions,
        convert_inference_perf,
        help="Print the clients of an inference-perf section as a workload specification.",
    ),
}


class _Sources(click.Group):
    """Sources that the core knows, and importers of the registry."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_BUILT_IN, *plugins.get_registry().names("importer")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _BUILT_IN:
            return _BUILT_IN[cmd_name]
        if cmd_name not in plugins.get_registry().names("importer"):
            return None
        from blis_core.cli.importing import import_command

        return import_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List sources; importers with the summaries they were registered with."""
        with formatter.section("Sources"):
            formatter.write_dl(
                [
                    *((name, command.help or "") for name, command in _BUILT_IN.items()),
                    *((e.name, e.summary) for e in plugins.get_registry().entries("importer")),
                ]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An unknown source gets the usage on stdout and exit code 0, as in the reference."""
        name = next((arg for arg in args if not arg.startswith("-")), None)
        if name is not None and name == args[0] and self.get_command(ctx, name) is None:
            from difflib import get_close_matches  # errors only

            close = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            log.warning(f"unknown source {name!r}{hint}")
            args = []
        return super().parse_args(ctx, args)


@click.group(
    "convert",
    cls=_Sources,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Make a workload specification, or a trace, from another description of traffic."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
