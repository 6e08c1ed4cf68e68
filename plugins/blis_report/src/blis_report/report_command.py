"""``blis report``: recordings in, one HTML file or pictures out."""

from __future__ import annotations

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
    from blis_report.outputs import check_output
    from blis_report.runs import load_runs, split_name
    from blis_report.targets import parse_targets

    targets = parse_targets(slo)
    if output:
        check_output("--output", output, [split_name(argument)[1] for argument in runs])
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
