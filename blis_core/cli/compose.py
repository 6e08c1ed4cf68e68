"""``blis compose``: one workload specification out of several."""

from __future__ import annotations

import attrs

from blis_core import log
from blis_core.cli.options import ConfigCommand
from blis_core.cli.report import print_text
from blis_core.errors import BlisError
from blis_core.option import ValueKind, option
from blis_core.records import Record


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ComposeOptions(Record):
    """Options of the command."""

    from_: tuple[str, ...] = option(
        ValueKind.TEXTS,
        "Files",
        (),
        "Workload specification (YAML); required, and may be given several times.",
    )


def execute(options: ComposeOptions) -> None:
    """Read all files, compose, print."""
    log.set_level("info")
    if not options.from_:
        raise BlisError("--from: name at least one workload specification")

    from blis_core.workload.compose import compose
    from blis_core.workload.spec import load_spec
    from blis_core.workload.spec_text import spec_text

    print_text(spec_text(compose([(path, load_spec(path)) for path in options.from_])))


command = ConfigCommand(
    "compose",
    ComposeOptions,
    execute,
    help="Print one workload specification with the clients of several, at the sum of their rates.",
)
"""The command."""
