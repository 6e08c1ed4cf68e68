"""``blis sweep``: parse, check, simulate, print, write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blis_core.api import UsageError

if TYPE_CHECKING:
    from blis_sweep.sweep import Prepared

FAILED = 1
_BASE = "blis_sweep.base"


class _SweepCommand(click.Command):
    """What stands behind ``--`` is a command line of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            args, ctx.meta[_BASE] = args[:cut], args[cut + 1 :]
        elif {"run", "replay"} & set(args):
            raise click.UsageError("the command stands behind --, as in -- run --model ...", ctx)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS] [FILE] [-- run|replay OPTIONS]"]


@click.command(
    name="sweep",
    cls=_SweepCommand,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Behind -- stands the command that all points share. It adds to that of the sweep file"
    " FILE, whose keys are base, grid, points, seeds, metrics, compare and confidence. Runs that"
    " have finished are kept: the same command goes on where it was stopped.",
)
@click.argument("file", required=False, default="", type=click.Path())
@click.option(
    "--grid",
    multiple=True,
    metavar="OPTION=VALUE,...",
    help="Values of an option of the command; a point for every combination. Semicolons separate"
    " values that have commas in them. May be repeated.",
)
@click.option(
    "--point",
    "points",
    multiple=True,
    metavar="'NAME: OPTIONS'",
    help="A named point with options of its own, combined with the whole grid. May be repeated.",
)
@click.option(
    "--seeds",
    default="",
    metavar="N|SEED,...",
    help="How many seeds, counted from the command's, or which; the same ones for all points. [1]",
)
@click.option("--metrics", default="", metavar="NAME,...", help="Figures of the table.")
@click.option(
    "--compare",
    multiple=True,
    metavar="NAME|OPTION=VALUE",
    help="The point, or the value of an option, with which the others are compared seed by seed."
    " May be repeated for several options.",
)
@click.option(
    "--confidence", type=float, default=None, metavar="SHARE", help="Of the intervals. [0.95]"
)
@click.option(
    "--out", default="", metavar="FILE", help="One row per run, as .csv or .parquet, by the name."
)
@click.option(
    "--summary",
    default="",
    metavar="FILE",
    help="One row per point and figure, with mean and interval, as .csv or .parquet.",
)
@click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of the results on stdout.",
)
@click.option(
    "--backend",
    type=click.Choice(["joblib", "dask", "ray"]),
    default="joblib",
    show_default=True,
    help="Where to simulate: on processes of this machine, or on a cluster.",
)
@click.option(
    "--address",
    default="",
    metavar="ADDRESS",
    help="Of a running Dask or Ray cluster. [one on this machine, for this sweep]",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=None, help="Simulations at once. [all cores]"
)
@click.option(
    "--cache",
    default="",
    metavar="FOLDER",
    help="Where finished runs are kept. [the user's cache folder, or $BLIS_CACHE_DIR]",
)
@click.option("--no-cache", is_flag=True, help="Simulate everything, and keep nothing.")
@click.option(
    "--skip-invalid", is_flag=True, help="Leave out points that cannot be simulated, and go on."
)
@click.option("--dry-run", is_flag=True, help="Check everything and list the points; no more.")
@click.pass_context
def sweep(ctx: click.Context, /, file: str, **options: Any) -> int:
    """Simulate a grid of settings over several seeds and compare the points."""
    from blis_sweep.backends import make_backend
    from blis_sweep.store import Store, default_folder
    from blis_sweep.sweep import Prepared, draft_of
    from blis_sweep.tables import check_target, write_rows

    if options["no_cache"] and options["cache"]:
        raise UsageError("--no-cache: excludes --cache; give one of them")
    draft = draft_of(file, ctx.meta.get(_BASE, ()), grid=options["grid"], points=options["points"])
    if options["seeds"]:
        draft.set_seeds(options["seeds"])
    if options["metrics"]:
        draft.set_metrics(options["metrics"])
    if options["compare"]:
        draft.set_baseline(options["compare"])
    if options["confidence"] is not None:
        draft.set_confidence(options["confidence"])
    targets = {f"--{name}": options[name] for name in ("out", "summary") if options[name]}
    for option, path in targets.items():
        check_target(option, path)
    if len(set(map(Path, targets.values()))) < len(targets):
        raise UsageError("--summary: is the file of --out; choose another name")
    store = None
    if not options["no_cache"]:
        store = Store(Path(options["cache"]) if options["cache"] else default_folder())
    backend = make_backend(options["backend"], jobs=options["jobs"], address=options["address"])
    prepared = Prepared(draft.finish(), skip_invalid=options["skip_invalid"])
    for option, path in targets.items():
        if Path(path) in prepared.inputs:
            raise UsageError(f"{option}: {path} is read by the simulations; choose another name")
    if options["dry_run"]:
        click.echo(_listing(prepared, len(prepared.known(store))), nl=False)
        return 0
    report = prepared.execute(backend, store, shown=True)
    for option, path in targets.items():
        write_rows(path, report.rows() if option == "--out" else report.summary())
    click.echo(report.as_json() if options["output"] == "json" else report.as_text(), nl=False)
    return FAILED if report.failures else 0


def _listing(prepared: Prepared, known: int) -> str:
    """The points, one a line, and what there is to do."""
    lines = [
        f"{point.label}{f'  (cannot be simulated: {point.problem})' if point.problem else ''}"
        for point in prepared.points
    ]
    seeds = ", ".join(map(str, prepared.sweep.seeds))
    keys = {run.key for run in prepared.runs if run.key}
    counts = f"{len(keys)} runs, {known} of them known already"
    lines += ["", f"{len(prepared.points)} points, seeds {seeds}: {counts}"]
    return "\n".join(lines) + "\n"
