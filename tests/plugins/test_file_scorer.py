"""A scorer in a file of ten lines, weighted against another one, in the decision trace."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from blis_core.api import DecisionLog, configure_plugins, simulate

MINE = """
    import numpy as np
    from blis_core.api import Scorer, hookimpl

    class Mine(Scorer):
        def score(self, request, fleet):
            return np.arange(len(fleet)) / 4

    @hookimpl
    def blis_register_scorers(register):
        register("mine", Mine, summary="high numbers")
"""
FLAGS = (
    "--log error --model qwen/qwen3-14b --num-requests 60 --rate 50 --num-instances 3"
    " --routing-policy weighted --routing-scorers mine:2,queue-depth:1"
    " --trace-level decisions --summarize-trace"
).split()


@pytest.fixture
def plugin(tmp_path):
    """The file, which has no more than ten lines of code."""
    text = textwrap.dedent(MINE).lstrip()
    assert len([line for line in text.splitlines() if line.strip()]) <= 10
    path = tmp_path / "mine.py"
    path.write_text(text)
    return path


def blis(*arguments):
    command = [Path(sys.executable).with_name("blis"), "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def options(**more):
    return {
        "model": "qwen/qwen3-14b",
        "num_requests": 60,
        "rate": 50.0,
        "num_instances": 3,
        "routing_policy": "weighted",
        "routing_scorers": "mine:2,queue-depth:1",
        **more,
    }


def test_the_weighted_example_on_the_command_line(plugin):
    process = blis("--plugin", str(plugin), *FLAGS)
    assert (process.returncode, process.stderr) == (0, "")
    trace = process.stdout[process.stdout.index("=== Trace Summary ===") :].splitlines()
    assert trace[1:4] == ["Total Decisions: 60", "  Admitted: 60", "  Rejected: 0"]
    counts = {
        name: int(count)
        for name, count in (
            line.strip().split(": ") for line in trace if line.startswith("  instance_")
        )
    }
    assert sum(counts.values()) == 60
    assert max(counts, key=counts.get) == "instance_2"  # as `mine` wants it
    assert process.stdout == blis("--plugin", str(plugin), *FLAGS).stdout


def test_without_the_file_the_name_is_unknown():
    process = blis(*FLAGS)
    assert (process.returncode, process.stdout) == (1, "")
    assert "unknown scorer 'mine'" in process.stderr
    assert process.stderr.count("\n") == 1


def test_its_scores_are_in_the_decision_trace(plugin):
    """(2 x mine + 1 x queue-depth) / 3, request by request."""
    configure_plugins(files=[plugin])
    results = simulate(**options(), keep_decisions=True, counterfactual_k=3)
    log = results.decisions
    assert isinstance(log, DecisionLog)
    assert results.trace == log.summary()
    assert [record.request for record in log.routings] == [f"request_{i}" for i in range(60)]
    assert len(log.admissions) == 60
    for record in log.routings:
        assert record.scores is not None
        names = [f"instance_{i}" for i in range(3)]
        chosen = dict(zip(names, record.scores, strict=True))
        waiting = {each.instance: each.queue_depth for each in record.candidates}
        low, high = min(waiting.values()), max(waiting.values())
        for i, name in enumerate(names):
            depth = (high - waiting[name]) / (high - low) if high > low else 1.0
            assert chosen[name] == pytest.approx((2 * i / 4 + depth) / 3)
        assert chosen[record.instance] == max(record.scores)
        assert record.reason == f"weighted-scoring (score={max(record.scores):.3f})"
        assert record.regret == 0.0


def test_records_are_kept_only_if_asked_for(plugin):
    configure_plugins(files=[plugin])
    assert simulate(**options()).decisions is None
    totals = simulate(**options(trace_level="decisions"))
    assert totals.decisions is not None
    assert totals.decisions.routings == totals.decisions.admissions == []
    kept = simulate(**options(), keep_decisions=True)
    assert kept.trace == totals.trace
    assert kept.cluster == totals.cluster
    assert len(kept.decisions.routings) == 60


def test_records_of_a_replay(plugin, tmp_path):
    from blis_core.cli.main import main

    prefix = str(tmp_path / "traffic")
    arguments = ["run", "--model", "qwen/qwen3-14b", "--num-requests", "10"]
    assert main([*arguments, "--trace-output", prefix, "--output", "json"]) == 0
    configure_plugins(files=[plugin])
    results = simulate(
        model="qwen/qwen3-14b",
        trace_header=prefix + ".yaml",
        trace_data=prefix + ".csv",
        num_instances=3,
        routing_policy="weighted",
        routing_scorers="mine:1",
        keep_decisions=True,
    )
    assert {record.instance for record in results.decisions.routings} == {"instance_2"}
