"""``blis explain``: where the time of requests went, as text, JSON or a trace."""

from __future__ import annotations

import json

import click

from blis_core.api import BlisError, UsageError, atomic_write, warning


@click.command(name="explain", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("recording", type=click.Path())
@click.argument("requests", nargs=-1, metavar="[REQUEST]...")
@click.option(
    "--worst",
    type=click.Choice(["ttft", "itl", "e2e"]),
    help="Explain the requests with the largest latency of this kind.",
)
@click.option(
    "--number", "-n", default=5, show_default=True, metavar="N", help="How many of the worst."
)
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the explanation on stdout; times in JSON are us.",
)
@click.option(
    "--timeline",
    "timeline_file",
    default="",
    metavar="FILE",
    help="Write a trace for ui.perfetto.dev: of the given requests, or of the whole run.",
)
@click.option(
    "--from", "begin", default="", metavar="TIME", help="Begin of the trace, such as 20s or 500ms."
)
@click.option("--to", "end", default="", metavar="TIME", help="End of the trace.")
def explain(
    recording: str,
    requests: tuple[str, ...],
    worst: str | None,
    number: int,
    output: str,
    timeline_file: str,
    begin: str,
    end: str,
) -> None:
    """Say where the time of a request went.

    RECORDING is what blis run (or replay) writes with --record, REQUEST the id of a request.
    """
    if requests and worst:
        raise UsageError("explain: give requests or --worst, not both")
    if not (requests or worst or timeline_file):
        raise UsageError(
            "explain: name a request, or give --worst ttft, --worst itl or --worst e2e"
        )
    if number < 1:
        raise UsageError(f"-n: must be at least 1, got {number}")
    if (begin or end) and not timeline_file:
        raise UsageError("--from, --to: belong to --timeline FILE")
    from blis_core.api import read_recording
    from blis_report.explanation import Explainer, as_document
    from blis_report.explanation_text import as_text
    from blis_report.outputs import check_output

    if timeline_file:
        check_output("--timeline", timeline_file, [recording])
    explainer = Explainer(read_recording(recording), recording)
    rows = [explainer.find(name) for name in dict.fromkeys(requests)]
    if worst:
        rows = explainer.worst(worst, number)
    if timeline_file:
        _write_timeline(explainer, rows, timeline_file, begin, end)
    explanations = [explainer.explain(row) for row in rows]
    if output == "json" and explanations:
        click.echo(json.dumps(as_document(explanations), indent=2))
    elif explanations:
        click.echo("\n".join(as_text(each) for each in explanations).encode(), nl=False)


def _write_timeline(explainer: object, rows: list[int], path: str, begin: str, end: str) -> None:
    from blis_report.explanation import Explainer
    from blis_report.quantities import counted, parse_duration
    from blis_report.timeline import Window, timeline

    assert isinstance(explainer, Explainer)
    recording = explainer.recording
    arrivals, ends = recording.requests["arrival"], recording.requests["end"]
    latest = max(recording.end, int(ends.max(initial=0)))
    window = Window(
        round(parse_duration(begin, "--from"))
        if begin
        else int(arrivals[rows].min())
        if rows
        else 0,
        round(parse_duration(end, "--to")) if end else int(ends[rows].max()) if rows else latest,
        rows or None,
    )
    if window.begin >= window.end and (begin or end):
        raise BlisError(
            f"--from, --to: nothing lies between {window.begin / 1e6:g} s and"
            f" {window.end / 1e6:g} s; the run ends at {latest / 1e6:g} s"
        )
    document, left_out = timeline(recording, window)
    if left_out:
        warning(
            f"{path}: {counted(left_out, 'event')} at the end did not fit; choose a part with"
            " --from and --to, or name requests"
        )
    atomic_write(path, json.dumps(document, separators=(",", ":")) + "\n")
