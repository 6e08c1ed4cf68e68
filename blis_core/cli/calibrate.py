"""``blis calibrate``: compare a measured trace with a simulation of it."""

from __future__ import annotations

import attrs

from blis_core import log
from blis_core.cli.options import ConfigCommand
from blis_core.cli.report import check_outputs, require
from blis_core.option import ValueKind, option
from blis_core.records import Record

INPUT, NETWORK = "Files", "What is compared"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CalibrateOptions(Record):
    """Options of the command."""

    trace_header: str = option(ValueKind.TEXT, INPUT, "", "Header (YAML) of the trace (required).")
    trace_data: str = option(ValueKind.TEXT, INPUT, "", "Rows (CSV) of the trace (required).")
    sim_results: str = option(
        ValueKind.TEXT, INPUT, "", "What replay --results-path wrote (required)."
    )
    report: str = option(ValueKind.TEXT, INPUT, "", "JSON file to write (required).")
    itl_data: str = option(
        ValueKind.TEXT, INPUT, "", "Chunk times (CSV), to compare the time between tokens as well."
    )
    warmup_requests: int = option(
        ValueKind.INT,
        NETWORK,
        -1,
        "Requests to leave out: those with smaller ids; -1 = as the header says.",
    )
    network_rtt_us: int = option(
        ValueKind.INT64,
        NETWORK,
        -1,
        "Round trip to add to simulated times, in us; -1 = as the header says.",
        at_least=-1,
    )
    network_bandwidth_mbps: float = option(
        ValueKind.FLOAT,
        NETWORK,
        0.0,
        "Bandwidth in Mbit/s, for the transfer of prompts and answers; 0 = no delay.",
    )
    only_ok: bool = option(
        ValueKind.BOOL, NETWORK, False, "Leave out requests with a status other than ok."
    )


def execute(options: CalibrateOptions) -> None:
    """Read everything, compare, write the report, and say on stderr what came out."""
    log.set_level("info")
    inputs = [
        ("--trace-header", options.trace_header),
        ("--trace-data", options.trace_data),
        ("--sim-results", options.sim_results),
    ]
    require([*inputs, ("--report", options.report)])
    check_outputs([("--report", options.report)], [*inputs, ("--itl-data", options.itl_data)])

    from blis_core.results import calibration_file
    from blis_core.trace import calibration
    from blis_core.trace.chunk_times import read_chunk_times
    from blis_core.trace.simulated import read_simulated
    from blis_core.trace.tracev2 import read_trace

    trace = read_trace(options.trace_header, options.trace_data)
    results = read_simulated(options.sim_results)
    warmup, rtt = options.warmup_requests, options.network_rtt_us
    outcome = calibration.calibrate(
        trace,
        results,
        calibration.CalibrationOptions(
            warmup_requests=None if warmup == -1 else warmup,
            network_rtt_us=None if rtt == -1 else rtt,
            network_bandwidth_mbps=options.network_bandwidth_mbps,
            only_ok=options.only_ok,
        ),
        read_chunk_times(options.itl_data) if options.itl_data else (),
    )
    calibration_file.write(options.report, outcome)
    for line in calibration_file.summary(outcome):
        log.info(line)
    for line in outcome.warnings:
        log.warning(line)


command = ConfigCommand(
    "calibrate",
    CalibrateOptions,
    execute,
    help="Compare a measured trace with the results of its replay, and report the errors.",
)
"""The command."""
