"""``blis report``: recordings in, one HTML file or pictures out."""

from __future__ import annotations

import os
from pathlib import Path

import click

from blis_core.api import BlisError, UsageError, atomic_write


@click.command(name="report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, required=True, metavar="[NAME=]FILE...")
@click.option(
    "--output", default="", metavar="FILE", help="HTML file to write; readable without a network."
)
@click.option("--png", default="", metavar="DIR", help="Folder for the pictures alone.")
@click.option(
    "--slo",
    multiple=True,
    metavar="[CLASS:]METRIC=TIME",
    help="Target for ttft, itl or e2e, of one SLO class or of all; may be repeated.",
)
@click.option("--title", default="", help="Heading of the page.  [default: names of the runs]")
def report(runs: tuple[str, ...], output: str, png: str, slo: tuple[str, ...], title: str) -> None:
    """Show recorded runs: latencies, time lines, targets, and what held them back.

    FILE is what blis run (or replay) writes with --record. Several files are compared with the
    first one; NAME is what a run is called.
    """
    if not output and not png:
        raise UsageError("report: nothing to write; give --output FILE, --png DIR or both")
    from blis_report.runs import load_runs, split_name
    from blis_report.targets import parse_targets

    targets = parse_targets(slo)
    inputs = {Path(split_name(argument)[1]).absolute() for argument in runs}
    if output:
        _check_file(output, inputs)
    if png and Path(png).exists() and not Path(png).is_dir():
        raise BlisError(f"--png: {png} is not a folder")
    loaded = load_runs(runs)

    from blis_report.drawing import as_png
    from blis_report.page import all_charts, render

    sections = all_charts(loaded, targets)
    if output:
        atomic_write(output, render(loaded, targets, sections, title))
    if png:
        folder = Path(png)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise BlisError(f"--png: cannot make {png}: {problem.strerror}") from None
        for _, _, charts in sections:
            for chart in charts:
                atomic_write(folder / f"{chart.id}.png", as_png(chart))


def _check_file(output: str, inputs: set[Path]) -> None:
    """BlisError if ``output`` cannot be written, or is one of the recordings."""
    target = Path(output)
    if target.absolute() in inputs:
        raise BlisError(f"--output: {output} is a recording; choose another name")
    if target.is_dir():
        raise BlisError(f"--output: {output} is a folder; name a file")
    if not target.parent.is_dir():
        raise BlisError(f"--output: folder {target.parent} does not exist; create it first")
    if not os.access(target.parent, os.W_OK):
        raise BlisError(f"--output: no permission to write in folder {target.parent}")
