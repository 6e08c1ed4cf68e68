"""``blis doctor``: whether plugins load, and whether a deployment is known and fits."""

from __future__ import annotations

import attrs
import click

from blis_core import log
from blis_core.cli.options import ConfigCommand
from blis_core.cli.report import print_text
from blis_core.config.simulation import OUTPUT, SimulationConfig
from blis_core.errors import UsageError
from blis_core.option import ValueKind, option, options_of

_OF_A_DEPLOYMENT = (
    *("model", "hardware", "tp", "vllm_version", "defaults_filepath", "model_config_folder"),
    *("hardware_config", "latency_model", "alpha_coeffs", "beta_coeffs", "latency_option"),
    *("latency_profile", "total_kv_blocks", "block_size_in_tokens", "gpu_memory_utilization"),
    *("max_model_len", "max_num_running_reqs", "max_num_scheduled_tokens", "semantics", "output"),
)
"""Options that decide what a deployment is; the others have nothing to do with it."""
_COLOURS = {"ok": "green", "warning": "yellow", "broken": "red"}


@attrs.frozen(kw_only=True, repr=False)
class DoctorConfig(SimulationConfig):
    """What is to be looked at."""

    output: str = option(
        ValueKind.TEXT, OUTPUT, "text", "Form of the findings.", choices=("text", "json")
    )

    def _check_inputs(self) -> None:
        """Without a model only Python and the plugins are looked at."""
        if self.model:
            return
        for spec in options_of(type(self)):
            if spec.name != "output" and getattr(self, spec.name) != spec.default:
                raise UsageError(f"{spec.flag}: needs --model, whose deployment it describes")


def execute(config: DoctorConfig) -> int:
    """Look at everything, print what was found, and return 1 if something is broken."""
    config.check()
    from blis_core.examination import as_json, examine

    log.set_level("error")  # what would be warned of is among the findings
    findings = examine(config)
    if config.output == "json":
        print_text(as_json(findings))
    else:
        area = ""
        for found in findings:
            if found.area != area:
                click.echo(("\n" if area else "") + click.style(found.area, bold=True))
                area = found.area
            mark = click.style(f"{found.status:<8}", fg=_COLOURS.get(found.status))
            click.echo(f"  {mark} {found.name}: {found.text}")
        broken = sum(found.status == "broken" for found in findings)
        warned = sum(found.status == "warning" for found in findings)
        click.echo(f"\n{broken} broken, {warned} to look at")
    return int(any(found.status == "broken" for found in findings))


command = ConfigCommand(
    "doctor",
    DoctorConfig,
    execute,
    help="Find out what is wrong: with Python and the plugins, and, with --model, whether it is"
    " known, where its figures come from, whether it fits into the GPUs, and how far its latency"
    " model can be trusted. Ends with 1 if something is broken.",
    without=[spec.name for spec in options_of(DoctorConfig) if spec.name not in _OF_A_DEPLOYMENT],
)
