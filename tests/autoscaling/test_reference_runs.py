"""Whole runs with node pools, autoscaler and foreign models, tick by tick as the reference's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from blis_core.cli.main import main
from blis_core.run import simulate

RUNS = json.loads((Path(__file__).parent / "data" / "reference_runs.json").read_text())


@pytest.fixture
def folder(tmp_path, monkeypatch, request):
    for file, text in request.getfixturevalue("run")["files"].items():
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_output(run, folder, capsys):
    assert not main(run["argv"])
    assert capsys.readouterr().out == run["stdout"]
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["requests"] = sorted(metrics.get("requests", []), key=lambda r: r["requestID"])
    digest = hashlib.sha256(json.dumps(metrics, sort_keys=True).encode()).hexdigest()
    assert digest == run["metrics"]


def variants(analysis):
    return "".join(f" [{v.variant.gpu}/tp{v.variant.tp} n={v.replicas}]" for v in analysis.variants)


def lines(report):
    """The timeline of a run: looks of the autoscaler, and what its actuator did."""
    timed = []
    for order, tick in enumerate(report.ticks):
        text = ""
        for a in tick.analyses:
            text += (
                f"TICK t={tick.time} model={a.model} supply={a.supply:g} demand={a.demand:g}"
                f" required={a.required:g} spare={a.spare:g}{variants(a)}\n"
            )
        for decision in tick.decisions:
            gpu, tp = decision.variant
            text += f"  decision {decision.model} {gpu}/tp{tp} {decision.delta:+d}\n"
        if tick.passed:
            text += f"  passed {len(tick.passed)}, actuation at {tick.actuation_time}\n"
        timed.append(((tick.time, 0, order), text))
    starting = {e.name for e in report.events if e.name.startswith("autoscale-")}
    for order, event in enumerate(report.events):
        did = ""
        if event.what == "placed" and event.name in starting:
            node = event.detail.split("-gpu-")[0]
            did = f"placed {event.name} node={node} gpus=[{event.detail}]"
        elif event.what == "no room" and event.name in starting:
            did = f"failed {event.name}"
        elif event.what == "draining":
            did = f"draining {event.name}"
        if did:
            timed.append(((event.time, 1, order), f"  ACT t={event.time} {did}\n"))
    return "".join(text for _, text in sorted(timed))


def options(argv):
    """A command line as keyword arguments of ``simulate``."""
    found = {}
    for flag, value in zip(argv[1::2], argv[2::2], strict=True):
        name = flag.removeprefix("--").replace("-", "_")
        if name.endswith("_coeffs"):
            found[name] = tuple(map(float, value.split(",")))
        elif name == "model_autoscaler_interval_us" or value.replace(".", "").isdigit():
            found[name] = float(value) if "." in value or name.endswith("_us") else int(value)
        elif name != "metrics_path":
            found[name] = value
    return found


TIMED = {name: run for name, run in RUNS.items() if "timeline" in run}


@pytest.mark.parametrize("run", TIMED.values(), ids=TIMED)
def test_timeline(run, folder):
    results = simulate(keep_decisions=True, **options(run["argv"]))
    # figures are compared as numbers are shown, six digits; the output above has all of them
    assert lines(results.fleet).split("\n") == rounded(run["timeline"]).split("\n")


def rounded(text):
    out = []
    for line in text.splitlines():
        words = [
            f"{key}={float(value):g}" if key in ("supply", "demand", "required", "spare") else word
            for word in line.split(" ")
            for key, _, value in [word.partition("=")]
        ]
        out.append(" ".join(words))
    return "\n".join(out) + "\n"


def test_only_ticks_that_act_are_kept_by_default(monkeypatch, tmp_path):
    run = RUNS["as_down"]
    for file, text in run["files"].items():
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    report = simulate(**options(run["argv"])).fleet
    assert [tick.time for tick in report.ticks] == [0, 20000, 40000]
    assert report.looks == run["timeline"].count("TICK")
