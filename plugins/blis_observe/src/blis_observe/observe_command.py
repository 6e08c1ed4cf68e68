"""``blis observe``: the command."""

from __future__ import annotations

import click

from blis_core.api import ConfigCommand
from blis_observe.observe_options import ObserveConfig


def execute(config: ObserveConfig) -> None:
    """Observe; what that takes is imported when the options have been read."""
    from blis_observe.observe import observe

    observe(config)


class _WrongOption(click.UsageError):
    exit_code = 1


class _ObserveCommand(ConfigCommand[ObserveConfig]):
    """A wrong option ends with exit code 1, as in the reference, not with 2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _WrongOption(error.message, error.ctx) from None


command = _ObserveCommand(
    "observe",
    ObserveConfig,
    execute,
    help="Send a workload to a real server in real time and record a trace of it.",
)
