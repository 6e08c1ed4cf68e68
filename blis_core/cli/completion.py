"""``blis completion``: the script that lets a shell complete commands, options and names.

The script calls ``blis`` again with ``_BLIS_COMPLETE`` set; click does the rest. What may follow an
option comes from :func:`candidates`, and from the registry, so names of plugins are completed too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from blis_core.option import ValueKind

if TYPE_CHECKING:
    from blis_core.option import OptionSpec
    from blis_core.registry import Kind

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_BLIS_COMPLETE"
_KINDS: dict[str, Kind] = {
    "latency_model": "latency-model",
    "prefill_latency_model": "latency-model",
    "decode_latency_model": "latency-model",
    "routing_policy": "routing-policy",
    "routing_scorers": "scorer",
    "prefill_routing_scorers": "scorer",
    "decode_routing_scorers": "scorer",
    "admission_policy": "admission-policy",
    "scheduler": "scheduler",
    "kv_store": "kv-store",
    "pd_decider": "pd-decider",
}
"""Options whose values are names of extensions."""
_FILE_ENDINGS = (
    *("_path", "_filepath", "_spec", "_config", "_output", "_profile", "_header", "_data"),
    *("_metrics", "_file", "_folder"),
)


def candidates(spec: OptionSpec) -> list[str] | None:
    """What may follow an option; None = a file or a folder, an empty list = anything."""
    name = spec.name.rstrip("_")
    if spec.choices:
        return list(spec.choices)
    if name in _KINDS:
        from blis_core.plugins import get_registry

        return get_registry().names(_KINDS[name])
    if spec.kind not in (ValueKind.TEXT, ValueKind.TEXTS):
        return []
    if name == "from" or name.endswith(_FILE_ENDINGS):
        return None
    return _of_the_catalogue(name)


def _of_the_catalogue(name: str) -> list[str]:
    """Names that the catalogue or the core knows."""
    if name == "model":
        from blis_core.catalog.bundled import bundled

        return sorted(bundled("models_defaults")["models"])
    if name.endswith("hardware"):
        from blis_core.catalog.hardware import bundled_gpus

        return sorted(bundled_gpus())
    if name == "workload":
        from blis_core.catalog.defaults import load_defaults

        return ["distribution", *load_defaults().preset_names()]
    if name == "priority_policy":
        from blis_core.engine.schedulers import PRIORITY_POLICIES

        return sorted(PRIORITY_POLICIES)
    from blis_core.config.simulation import DISPATCH_ORDERS, SATURATION_DETECTORS
    from blis_core.log import LEVELS

    return list(
        {
            "log": LEVELS,
            "saturation_detector": SATURATION_DETECTORS,
            "dispatch_order": DISPATCH_ORDERS,
            "semantics": ("reference", "vllm"),
        }.get(name, ())
    )


def script(shell: str) -> str:
    """The completion script for a shell out of ``SHELLS``."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    made = found(click.Group(), {}, "blis", VARIABLE)
    # source() of bash starts a bash to look at its version, which is not needed to print this
    return made.source_template % made.source_vars()


def starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that begin with what has been typed."""
    return [name for name in names if name.startswith(incomplete)]


@click.command(
    "completion",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Put one of these into the start-up file of your shell: "
    'eval "$(blis completion bash)" for bash, eval "$(blis completion zsh)" for zsh behind '
    "compinit, blis completion fish | source for fish.",
)
@click.argument("shell", type=click.Choice(SHELLS), metavar="[" + "|".join(SHELLS) + "]")
def command(shell: str) -> None:
    """Print a script that completes commands, options and names in a shell."""
    click.echo(script(shell), nl=False)
