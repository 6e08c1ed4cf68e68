"""What ``blis observe`` says on standard error: warnings about answers, and a summary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blis_core.api import BlisError, info, warning
from blis_observe import payload
from blis_observe.exchange import OK, Answer
from blis_observe.pacing import percentile

if TYPE_CHECKING:
    from blis_observe.dispatch import Dispatcher, Observed
    from blis_observe.observe_options import ObserveConfig
    from blis_observe.pacing import LoopWatch

_KINDS_SHOWN = 3


def check_outputs(config: ObserveConfig) -> None:
    """Find out before a long run that its results cannot be written. BlisError if so.

    The file of chunk times comes after the trace, so a wrong path for it does no more than warn
    here: the trace is worth having.
    """
    outputs = [("--trace-header", config.trace_header), ("--trace-data", config.trace_data)]
    if config.record_itl:
        outputs.append(("--itl-output", config.itl_path))
    seen: dict[Path, str] = {}
    if config.workload_spec:
        seen[Path(config.workload_spec).absolute()] = "--workload-spec"
    for flag, path in outputs:
        target = Path(path).absolute()
        if target in seen:
            raise BlisError(f"{flag}: {path} is the file of {seen[target]}; choose another name")
        seen[target] = flag
        problem = ""
        if target.is_dir():
            problem = "is a folder; name a file"
        elif not target.parent.is_dir():
            problem = f"folder {target.parent} does not exist; create it first"
        if problem and flag == "--itl-output":
            warning(f"{flag}: {path}: {problem}")
        elif problem:
            raise BlisError(f"{flag}: {path}: {problem}")


class Oddities:
    """Counts what is odd about answers, to warn once and not a thousand times."""

    def __init__(self, config: ObserveConfig) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()

    def note(self, item: Observed) -> None:
        """Look at an answer."""
        answer, config = item.answer, self._config
        if answer.status != OK:
            info(f"request {item.number}: {answer.status}: {answer.error}")
            return
        if item.streaming and answer.chunk_times and not answer.usage_seen:
            self._counts["told no usage, so their output tokens are not known"] += 1
        if config.record_itl and not item.streaming:
            self._counts["were not streamed, so there are no times of chunks"] += 1
        reason, least = answer.finish_reason, config.min_tokens
        most = 0
        if not (config.unconstrained_output and config.api_format == "chat"):
            most = payload.most_output(item.request)
        if reason == "abort":
            self._counts["were aborted by the server (finish reason abort)"] += 1
        elif reason == "length" and not (least > 0 and least >= most):
            self._counts["were cut at their limit of tokens (finish reason length)"] += 1
        elif reason == "stop" and 0 < answer.output_tokens < least:
            self._counts[f"ended before --min-tokens {least}"] += 1

    def warn(self) -> None:
        """One warning for each kind."""
        for text, count in self._counts.items():
            warning(f"{count} answers {text}")


def summary(
    config: ObserveConfig, dispatcher: Dispatcher, watch: LoopWatch, answers: list[Answer]
) -> None:
    """Say what became of the requests, how well the client kept its pace, and what to doubt."""
    by_status = Counter(answer.status for answer in answers)
    parts = [f"{by_status[status]} {status}" for status in ("ok", "error", "timeout")]
    lines = [f"{len(answers)} requests sent: {', '.join(parts)}"]
    if dispatcher.interrupted:
        lines[0] += " (interrupted)"
    failures = Counter(answer.error.split("\n")[0][:160] for answer in answers if answer.error)
    for text, count in failures.most_common(_KINDS_SHOWN):
        lines.append(f"  {count} x {text}")
    if len(failures) > _KINDS_SHOWN:
        lines.append(f"  and {len(failures) - _KINDS_SHOWN} other kinds of failure")
    late = dispatcher.pacing.late
    if late:
        figures = ", ".join(
            f"{name} {value / 1000:.2f}"
            for name, value in (
                ("p50", percentile(late, 50)),
                ("p90", percentile(late, 90)),
                ("p99", percentile(late, 99)),
                ("max", max(late)),
            )
        )
        lines.append(f"sent after the intended time, in ms: {figures}")
    waits = dispatcher.pacing.waits
    if waits:
        lines.append(
            f"{len(waits)} requests waited for one of the {config.in_flight} places in flight, up"
            f" to {max(waits) / 1e6:.1f} s: the server was slower than the workload, or"
            " --max-concurrency is too low"
        )
    for line in lines:
        click.echo(line, err=True)
    complaint = watch.complaint()
    if complaint:
        warning(
            f"the client was a bottleneck: {complaint}; latencies include its own delays. Use a"
            " lower rate, or several clients"
        )
