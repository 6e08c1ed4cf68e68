"""``blis probe``: parse, ask, print."""

from __future__ import annotations

import json

import click

from blis_observe.probe import ServerReport, probe_server


@click.command(name="probe")
@click.option("--server-url", required=True, metavar="URL", help="Address of the server.")
@click.option(
    "--api-key", envvar="OPENAI_API_KEY", default="", metavar="KEY", help="Sent as bearer token."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait for one answer.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many round trips to time.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def probe(server_url: str, api_key: str, timeout: float, rounds: int, as_json: bool) -> None:
    """Check a real server: reachable, models, round-trip time."""
    report = probe_server(server_url, api_key=api_key, timeout=timeout, rounds=rounds)
    click.echo(json.dumps(report.as_dict(), indent=2) if as_json else _text(report))


def _text(report: ServerReport) -> str:
    times = report.round_trips_ms
    lines = [
        f"server      {report.url}",
        f"health      {report.health}",
        f"models      {', '.join(report.models)}",
        f"round trip  {min(times):.2f} ms best, {report.median_ms:.2f} ms median of {len(times)}",
    ]
    return "\n".join(lines)
