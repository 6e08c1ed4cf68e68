"""``blis serve``: the command."""

from __future__ import annotations

from blis_core.api import ConfigCommand
from blis_observe.serve_options import OF_CLUSTERS, ServeConfig


def execute(config: ServeConfig) -> None:
    """Serve until stopped; what that takes is imported when the options have been read."""
    from blis_observe.serve import serve

    serve(config)


command = ConfigCommand(
    "serve",
    ServeConfig,
    execute,
    help="Serve one simulated instance over HTTP, as an OpenAI-compatible server in real time.",
    without=OF_CLUSTERS,
)
