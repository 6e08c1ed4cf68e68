"""``blis run``: simulate a generated workload."""

from __future__ import annotations

from blis_core import log
from blis_core.cli.flags import QuickCommand
from blis_core.cli.report import caution, check_outputs, run_watcher, show, trace_files
from blis_core.config import RunConfig


def execute(config: RunConfig) -> None:
    """Check, simulate, write the trace, print, write the metrics file, in this order."""
    log.set_level(config.log)
    config.check()
    check_outputs(
        [
            ("--metrics-path", config.metrics_path),
            ("--record", config.record),
            *trace_files(config.trace_output),
        ],
        [("--workload-spec", config.workload_spec), ("--policy-config", config.policy_config)],
    )

    from blis_core.run import run_simulation

    results = run_simulation(config, compact=True, watcher=run_watcher())
    if config.trace_output:
        from blis_core.trace.export import export_generated

        export_generated(config.trace_output, results.generated, results.workload_seed)
        if results.pd is not None:
            # reference quirk 07-Q21: the rows stay as they were sent
            log.warning(
                f"{config.trace_output}.csv: requests that were disaggregated are marked incomplete"
                " and have no times there; --metrics-path writes them"
            )
    show(results, config.output)
    if config.metrics_path:
        from blis_core.results.metrics_file import write

        write(config.metrics_path, results)
    if results.recording is not None:
        from blis_core.recording.file import write_recording

        write_recording(config.record, results.recording)
    caution(results)


command = QuickCommand(
    "run",
    RunConfig,
    execute,
    help="Simulate a generated workload on one or several model instances.",
)
