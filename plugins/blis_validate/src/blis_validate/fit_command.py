"""``blis fit``: replay a recorded run until it fits, print, write a profile."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import attrs
import click

from blis_core.api import (
    BlisError,
    ConfigCommand,
    ReplayConfig,
    ValueKind,
    atomic_write,
    option,
    resolve,
    set_log_level,
)
from blis_validate.fit import METRICS, OPTION, Fit, fit_scale


@attrs.frozen(kw_only=True, repr=False)
class FitConfig(ReplayConfig):
    """What ``fit`` replays, and where it writes the profile."""

    profile_output: str = option(
        ValueKind.TEXT, "Output", "", "YAML file to write, for --latency-profile (required)."
    )

    def _check_inputs(self) -> None:
        if not self.profile_output:
            raise BlisError("--profile-output: name the file to write")
        for name in ("results_path", "trace_output", "record"):
            if getattr(self, name):
                flag = "--" + name.replace("_", "-")
                raise BlisError(f"{flag}: a fit writes a profile only; replay with the profile")
        if not Path(self.profile_output).absolute().parent.is_dir():
            raise BlisError(
                f"--profile-output: folder {Path(self.profile_output).parent} does not exist;"
                " create it first"
            )
        super()._check_inputs()


def execute(config: FitConfig) -> None:
    """Check, fit, write the profile, print."""
    set_log_level(config.log)
    config.check()
    fitted = fit_scale(config, _after_trial)
    atomic_write(config.profile_output, profile_text(config, fitted))
    if config.output == "json":
        click.echo(json.dumps(_document(fitted), indent=2))
    else:
        click.echo(_text(fitted, config.profile_output))


def _after_trial(number: int, scale: float, error: float) -> None:
    set_log_level("error")  # every replay has the same warnings
    if sys.stderr.isatty():
        click.echo(
            f"replay {number}: {OPTION} {scale:.4f}, time between tokens {error:+.2f} %", err=True
        )


def profile_text(config: FitConfig, fitted: Fit) -> str:
    """The profile; every value is written as JSON, which YAML reads."""
    deployment = resolve(config)
    options = dict(text.partition("=")[::2] for text in config.latency_option)
    options[OPTION] = f"{fitted.scale:g}"
    lines = [f"latency_model: {json.dumps(deployment.backend)}", "options:"]
    lines += [f"  {name}: {json.dumps(value)}" for name, value in options.items()]
    lines += [
        f"model: {json.dumps(deployment.model)}",
        f"hardware: {json.dumps(deployment.gpu)}",
        f"tp: {deployment.tp}",
        "calibration:",
        f"  trace: {json.dumps(config.trace_data)}",
        f"  requests: {fitted.requests}",
    ]
    for name, simulated in (("before", fitted.before), ("after", fitted.after)):
        errors = {key: round(value, 2) for key, value in fitted.errors(simulated).items()}
        lines.append(f"  error_percent_{name}: {json.dumps(errors)}")
    return "\n".join(lines) + "\n"


def _document(fitted: Fit) -> dict[str, object]:
    return {
        **attrs.asdict(fitted),
        "error_percent_before": fitted.errors(fitted.before),
        "error_percent_after": fitted.errors(fitted.after),
    }


def _text(fitted: Fit, path: str) -> str:
    before, after = fitted.errors(fitted.before), fitted.errors(fitted.after)
    counts = f"{fitted.requests} requests in {fitted.trials} replays"
    headings = ("measured ms", "before ms", "error %", "after ms", "error %")
    lines = [
        f"{OPTION} {fitted.scale:g}, from {counts} (written to {path})",
        "",
        " " * 10 + "".join(f"  {heading:>12}" for heading in headings),
    ]
    for name in METRICS:
        cells = (
            f"{fitted.measured[name]:.2f}",
            f"{fitted.before[name]:.2f}",
            f"{before[name]:+.1f}",
            f"{fitted.after[name]:.2f}",
            f"{after[name]:+.1f}",
        )
        lines.append(f"{name:<10}" + "".join(f"  {cell:>12}" for cell in cells))
    return "\n".join(lines)


fit = ConfigCommand(
    "fit",
    FitConfig,
    execute,
    help="Fit the latency model to one recorded run: find the factor on the duration of steps (its"
    " option scale) that gives the recorded time between tokens, and write a profile.",
)
