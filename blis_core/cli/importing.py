"""``blis convert NAME`` for each importer: recorded traffic of another system."""

from __future__ import annotations

from typing import Any

import attrs
import click

from blis_core import log, plugins
from blis_core.cli.options import ConfigOption, PflagCommand
from blis_core.cli.report import check_outputs, print_text, require, trace_files
from blis_core.cli.values import TEXT
from blis_core.errors import BlisError
from blis_core.option import ValueKind, finite_positive, option, options_of
from blis_core.records import Record

SOURCE, OUTPUT = "Source", "Output"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ImportOptions(Record):
    """Options of every importer."""

    file: str = option(ValueKind.TEXT, SOURCE, "", "What to read (required).")
    limit: int = option(
        ValueKind.INT, SOURCE, 0, "Most requests, the earliest first; 0 = all.", at_least=0
    )
    speed: float = option(
        ValueKind.FLOAT, SOURCE, 1.0, "Factor by which requests arrive faster.", above=0
    )
    trace_output: str = option(
        ValueKind.TEXT, OUTPUT, "", "Write a trace for replay to PREFIX.yaml and PREFIX.csv."
    )
    workload_output: str = option(
        ValueKind.TEXT,
        OUTPUT,
        "",
        "Write a workload specification for run to this file. Without it and --trace-output, the"
        " specification is printed.",
    )


def import_command(name: str) -> click.Command:
    """The command of the importer called ``name``, its own options included."""
    extension = plugins.get_registry().get("importer", name)
    params: list[click.Parameter] = [ConfigOption(spec) for spec in options_of(ImportOptions)]
    own = {f"own_{number}": key for number, key in enumerate(extension.options)}
    params += [
        click.Option([f"--{key}", parameter], type=TEXT, help=extension.options[key])
        for parameter, key in own.items()
    ]

    def act(**given: Any) -> None:
        values = {key: given.pop(parameter) for parameter, key in own.items()}
        options = ImportOptions(**{key: v for key, v in given.items() if v is not None})
        execute(name, options, {key: v for key, v in values.items() if v is not None})

    return PflagCommand(
        name, params=params, callback=act, help=f"Read recorded traffic: {extension.summary}."
    )


def execute(name: str, options: ImportOptions, own: dict[str, str]) -> None:
    """Read, and write what is asked for."""
    log.set_level("info")
    require([("--file", options.file)])
    for spec in options_of(ImportOptions):
        spec.check_range(getattr(options, spec.name))
    if not finite_positive(options.speed):
        raise BlisError(f"--speed: must be finite and greater than 0, got {options.speed:g}")
    outputs = [*trace_files(options.trace_output), ("--workload-output", options.workload_output)]
    check_outputs(outputs, [("--file", options.file)])

    from blis_core.contracts import ImportSetup
    from blis_core.trace.importing import as_trace, as_workload, collect
    from blis_core.trace.tracev2 import write_trace
    from blis_core.workload.spec_text import spec_text

    importer = plugins.get_registry().create("importer", name, ImportSetup(options=own))
    traffic = collect(
        name,
        importer.read(options.file),
        importer.block_tokens,
        limit=options.limit,
        speed=options.speed,
    )
    if options.trace_output:
        write_trace(options.trace_output, *as_trace(traffic))
    if options.workload_output:
        from blis_core.files import atomic_write

        atomic_write(options.workload_output, spec_text(as_workload(traffic)))
    elif not options.trace_output:
        print_text(spec_text(as_workload(traffic)))
