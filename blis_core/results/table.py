"""A readable summary for a terminal, at home in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from blis_core.results.arrays import times_of
from blis_core.results.sparks import distribution, time_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from blis_core.accuracy import Accuracy, StepInterval
    from blis_core.cluster.decisions import TraceSummary
    from blis_core.results.arrays import RequestTimes
    from blis_core.results.model import (
        Distribution,
        MetricsBlock,
        Results,
    )
    from blis_core.results.parts import Fitness, FleetReport, PDMetrics

_LATENCIES = (("Time to first token", "ttft"), ("Between tokens", "itl"), ("End to end", "e2e"))
_ERRORS = ("ttft_mean", "ttft_p99", "e2e_mean", "itl_mean")
_FIGURES = ("mean", "p50", "p90", "p99")
_WIDTH = 24
"""Characters of a picture."""


class OutputConsole(Console):
    """A console whose reader may go away: the command line then ends as for any other output."""

    def on_broken_pipe(self) -> None:
        """Let the error through instead of ending the process with 1."""
        raise


def print_table(results: Results, console: Console | None = None) -> None:
    """Print the summary on ``console`` (default: stdout)."""
    if console is None:
        console = OutputConsole(highlight=False)
    pictures = console.is_terminal and console.encoding.startswith("utf")
    for number, section in enumerate(_sections(results, pictures=pictures)):
        if number:
            console.print()
        console.print(section)


def _sections(results: Results, *, pictures: bool) -> Iterator[RenderableType]:
    cluster = results.cluster
    times = times_of(results.requests) if pictures and cluster.completed_requests else None
    yield _headline(results)
    yield _throughput(results, times)
    if cluster.completed_requests:
        yield _latencies(results, times)
    if results.fitness is not None:
        yield _fitness(results.fitness)
    if troubles := _troubles(results):
        yield _listing("Troubles", troubles, style="yellow")
    if results.accuracy is not None:
        yield from _accuracy(results.accuracy)
    if len(results.instances) > 1:
        yield _instances(results.instances)
    if len(results.per_slo) > 1:
        rows = [(entry.name, entry.ttft, entry.e2e) for entry in results.per_slo]
        yield _breakdown("SLO class", rows)
    if results.per_model:
        models = [(entry.name, entry.ttft, entry.e2e) for entry in results.per_model]
        yield _breakdown("Model", models)
    if results.per_tenant:
        yield _tenants(results)
    if results.pd is not None:
        yield _pools(results.pd)
    if results.fleet is not None:
        yield _fleet(results.fleet)
    if results.trace is not None and results.summarize_trace:
        yield _decisions(results.trace)
    if results.resolution:
        yield _listing("Settings", results.resolution)


# ------------------------------------------------------------------------------------- formatting


def _number(value: float) -> str:
    """About three significant digits, thousands separated."""
    if value < 10:
        return f"{value:.2f}"
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _table(first: str, *columns: str) -> Table:
    """An empty table with a left column of names and right-aligned figures."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _listing(title: str, rows: Sequence[tuple[str, ...]], style: str = "") -> RenderableType:
    """Names with values (and remarks), under a heading."""
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold", style="dim")
    for name, *rest in rows:
        grid.add_row(f"  {name}", *rest)
    return Group(Text(title, style=f"bold {style}".strip()), grid)


# --------------------------------------------------------------------------------------- sections


def _headline(results: Results) -> RenderableType:
    """Which model, and how many requests came through."""
    cluster = results.cluster
    found = results.anomalies
    done = cluster.completed_requests
    # those that never reached an instance were requests, too
    injected = cluster.injected_requests + found.rejected_admission + found.rejected_routing
    injected += found.gateway_shed + found.gateway_depth + found.lost_in_drain
    injected += results.in_transit
    name = results.config.model if results.config is not None else "Simulation"
    return Text.assemble(
        (name, "bold"),
        "  ",
        (f"{done:,} of {injected:,} requests completed", "green" if done == injected else "yellow"),
        f" in {_number(cluster.vllm_estimated_duration_s)} s",
    )


def _fleet(fleet: FleetReport) -> RenderableType:
    """How many instances there were, and what they cost."""
    started = sum(life.placed_us > 0 for life in fleet.instances)
    drained = sum(life.state in ("draining", "terminated") for life in fleet.instances)
    rows = [
        ("Instances", f"{fleet.most_instances} at most, {started} started, {drained} drained"),
        ("GPU time", f"{_number(fleet.gpu_seconds)} s"),
    ]
    if fleet.cost:
        rows.append(("Cost", f"{fleet.cost:.4f}"))
    if fleet.pending:
        rows.append(("Without room", ", ".join(fleet.pending)))
    return _listing("Fleet", rows)


def _throughput(results: Results, times: RequestTimes | None) -> RenderableType:
    """Rates; with ``times`` also pictures of them over time."""
    cluster, offered = results.cluster, results.offered_rps
    rows: list[tuple[str, ...]] = [
        (
            "Requests",
            f"{_number(cluster.responses_per_sec)} /s",
            f"of {_number(offered)} /s offered" if offered else "",
        ),
        ("Output tokens", f"{_number(cluster.tokens_per_sec)} /s"),
        (
            "Tokens in all",
            f"{cluster.total_input_tokens:,} in, {cluster.total_output_tokens:,} out",
        ),
    ]
    if times is not None:
        rows += _time_lines(times, cluster.vllm_estimated_duration_s)
    return _listing("Throughput", rows)


def _time_lines(times: RequestTimes, end: float) -> list[tuple[str, ...]]:
    """Arrivals and completions over the time of the simulation, which ends at ``end`` s."""
    ends = (times.arrival_us + times.e2e_us)[times.e2e_us >= 0]
    return [
        ("Arrivals", time_line(times.arrival_us / 1e6, end, _WIDTH), f"0 to {_number(end)} s"),
        ("Completions", time_line(ends / 1e6, end, _WIDTH)),
    ]


def _latencies(results: Results, times: RequestTimes | None) -> RenderableType:
    """Figures of each kind of latency; with ``times`` also pictures of the distributions."""
    cluster = results.cluster
    table = _table("Latency (ms)", *_FIGURES)
    shapes: dict[str, tuple[str]] = {}
    if times is not None:
        table.add_column("smallest to p99", no_wrap=True)
        shapes = _shapes(results, times)
    for label, key in _LATENCIES:
        figures = (_number(getattr(cluster, f"{key}_{f}_ms")) for f in _FIGURES)
        table.add_row(label, *figures, *shapes.get(key, ()))
    return table


def _shapes(results: Results, times: RequestTimes) -> dict[str, tuple[str]]:
    """The distribution of each kind of latency."""
    columns = {"ttft": times.ttft_us, "e2e": times.e2e_us}
    shapes = {
        name: (distribution(column[column >= 0], _WIDTH),) for name, column in columns.items()
    }
    if results.itl is not None:
        shapes["itl"] = (distribution(results.itl[0], _WIDTH, results.itl[1]),)
    return shapes


def _accuracy(accuracy: Accuracy) -> Iterator[RenderableType]:
    """The errors of the nearest runs that were compared, and why they may not hold here."""
    if accuracy.nearest:
        table = _table("Error where it was measured (%)", "TTFT mean", "TTFT p99", "E2E", "ITL")
        for run in accuracy.nearest:
            rates = "/".join(f"{rate:g}" for rate in run.rates)
            load = f"{rates}/s" if rates else "a burst"
            name = f"{run.model}, {run.tp} x {run.hardware}, {load}"
            errors = (run.errors.get(key) for key in _ERRORS)
            table.add_row(name, *("" if e is None else f"{e:+.1f}" for e in errors))
        yield table
    if accuracy.interval is not None:
        yield _interval(accuracy.interval)
    remarks = [("Not compared", text) for text in accuracy.outside]
    remarks += [("Unstable", text) for text in accuracy.unstable]
    if remarks:
        yield _listing("Accuracy", remarks, style="yellow")


def _interval(interval: StepInterval) -> RenderableType:
    """What simulations with shorter and longer steps would be worth."""
    names = {"e2e_mean": "E2E", "ttft_mean": "TTFT", "ttft_p99": "TTFT p99"}
    shares = [
        f"{name} in {share:.0f} %"
        for key, name in names.items()
        if (share := interval.covered_percent.get(key)) is not None
    ]
    text = f"held {', '.join(shares)} of {interval.runs} runs"
    return _listing("Interval", [(f"Steps ±{interval.step_percent:g} %", text)])


def _fitness(fitness: Fitness) -> RenderableType:
    rows = [(name, f"{value:.4f}") for name, value in fitness.components.items()]
    return _listing("Fitness", [("Score", f"{fitness.score:.4f}"), *rows])


def _troubles(results: Results) -> list[tuple[str, ...]]:
    """What went wrong, and how often; nothing if all is well."""
    cluster, found = results.cluster, results.anomalies
    classes = [
        f"{name or 'standard'} {count:,}" for name, count in sorted(found.shed_by_class.items())
    ]
    counts = [
        ("Preemptions", cluster.preemption_count),
        ("KV allocation failures", cluster.kv_allocation_failures),
        ("Timed out", cluster.timed_out_requests),
        ("Dropped, too large for KV cache or model", cluster.dropped_unservable),
        ("Cut at the maximum length", cluster.length_capped_requests),
        ("Rejected at admission", found.rejected_admission),
        ("Rejected at routing", found.rejected_routing),
        ("Sessions cut by a rejection", results.sessions.get("cut", 0)),
        ("Shed at the gateway", found.gateway_shed),
        ("Lost in drain", found.lost_in_drain),
        ("Still waiting at the gateway", found.gateway_depth),
        ("On their way to an instance at the end", results.in_transit),
        ("Still queued at the end", cluster.still_queued),
        ("Still running at the end", cluster.still_running),
        ("Priority inversions", found.priority_inversions),
        ("Instances with a blocked queue", found.hol_blocking_events),
    ]
    remarks = {"Rejected at admission": ", ".join(classes)}
    return [(label, f"{count:,}", remarks.get(label, "")) for label, count in counts if count]


def _instances(blocks: Sequence[MetricsBlock]) -> RenderableType:
    table = _table("Instance", "done", "tokens/s", "TTFT p99", "ITL mean", "E2E p99")
    for block in blocks:
        table.add_row(
            block.instance_id,
            f"{block.completed_requests:,}",
            _number(block.tokens_per_sec),
            _number(block.ttft_p99_ms),
            _number(block.itl_mean_ms),
            _number(block.e2e_p99_ms),
        )
    return table


def _breakdown(
    title: str, rows: Sequence[tuple[str, Distribution, Distribution]]
) -> RenderableType:
    """Latencies in ms by some property of the requests."""
    table = _table(title, "done", "TTFT mean", "TTFT p99", "E2E mean", "E2E p99")
    for name, ttft, e2e in rows:
        times = (ttft.mean, ttft.p99, e2e.mean, e2e.p99)
        table.add_row(name, f"{e2e.count:,}", *(_number(time / 1000) for time in times))
    return table


def _pools(pd: PDMetrics) -> RenderableType:
    rows: list[tuple[str, ...]] = [
        ("Disaggregated", f"{pd.disaggregated:,}"),
        ("Prefill pool", f"{_number(pd.prefill_throughput)} /s"),
        ("Decode pool", f"{_number(pd.decode_throughput)} /s"),
    ]
    if pd.dropped_at_decode:
        rows.append(("No room for decode", f"{pd.dropped_at_decode:,}"))
    for label, times in (("Time to first token", pd.ttft), ("KV transfer", pd.transfer)):
        if times.count:
            mean, p99 = _number(times.mean / 1000), _number(times.p99 / 1000)
            rows.append((label, f"{mean} ms", f"on average, p99 {p99} ms"))
    if pd.contention:
        mean = _number(pd.mean_transfers)
        rows.append(("Transfers at once", mean, f"on average, at most {pd.peak_transfers}"))
    return _listing("Disaggregation", rows)


def _decisions(trace: TraceSummary) -> RenderableType:
    rows: list[tuple[str, ...]] = [
        ("Admitted", f"{trace.admitted:,}"),
        ("Rejected", f"{trace.rejected:,}"),
        *((f"Routed to {name}", f"{count:,}") for name, count in trace.targets.items()),
        ("Regret", f"{trace.mean_regret:.4f}", f"on average, at most {trace.max_regret:.4f}"),
    ]
    return _listing("Decisions", rows)


def _tenants(results: Results) -> RenderableType:
    table = _table("Tenant", "done", "output tokens")
    for entry in results.per_tenant:
        table.add_row(entry.name, f"{entry.requests:,}", f"{entry.tokens:,}")
    table.caption = f"Jain fairness index {results.jain:.4f}"
    table.caption_justify = "left"
    return table
