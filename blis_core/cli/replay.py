"""``blis replay``: simulate the requests of a recorded trace."""

from __future__ import annotations

from blis_core import log
from blis_core.cli.flags import QuickCommand
from blis_core.cli.report import caution, check_outputs, run_watcher, show, trace_files
from blis_core.config import ReplayConfig


def execute(config: ReplayConfig) -> None:
    """Check, simulate, write the trace, print, write the results file, in this order."""
    log.set_level(config.log)
    config.check()
    check_outputs(
        [
            ("--results-path", config.results_path),
            ("--record", config.record),
            *trace_files(config.trace_output),
        ],
        [
            ("--trace-header", config.trace_header),
            ("--trace-data", config.trace_data),
            ("--policy-config", config.policy_config),
        ],
    )

    from blis_core.run import run_replay

    results = run_replay(config, watcher=run_watcher())
    if config.trace_output:
        from blis_core.trace.export import export_replayed

        export_replayed(config.trace_output, results.generated)
    show(results, config.output, replay=True)
    if config.results_path:
        from blis_core.results.replay_file import write

        write(config.results_path, results)
    if results.recording is not None:
        from blis_core.recording.file import write_recording

        write_recording(config.record, results.recording)
    caution(results)


command = QuickCommand(
    "replay",
    ReplayConfig,
    execute,
    help="Simulate the requests of a recorded trace on one or several model instances.",
)
