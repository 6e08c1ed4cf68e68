"""The reference of metrics names every figure of every output, and nothing else."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path

import attrs
import pytest

from blis_core import accuracy
from blis_core.api import simulate
from blis_core.autoscaling.autoscaler import ScalingTick
from blis_core.cluster.decisions import TraceSummary
from blis_core.cluster.elastic import FleetEvent
from blis_core.contracts import COMPLETED, QUEUED, RUNNING, TIMED_OUT
from blis_core.contracts_autoscaling import (
    CapacityAnalysis,
    ScaleDecision,
    Variant,
    VariantCapacity,
)
from blis_core.results import metrics_file, model, parts, replay_file, table, text
from blis_core.workload.sessions import STATUSES

PAGE = (Path(__file__).parents[2] / "docs/reference/metrics.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## )[\s\S])*)", PAGE, re.MULTILINE))


def rows(section):
    """The cells of the tables of a section, without headings."""
    lines = re.findall(r"^\|(.*)\|$", SECTIONS[section], re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def named(section, column=0):
    """The names in code font in one column."""
    return {name for row in rows(section) for name in re.findall(r"`([\w-]+)`", row[column])}


def fields(*owners):
    return {field.name for owner in owners for field in attrs.fields(owner)}


# ------------------------------------------------------------------------------------------ JSON


@pytest.fixture(scope="module")
def document():
    results = simulate(model="qwen/qwen3-14b", num_requests=2, num_instances=2, log="error")
    return json.loads(results.to_json())


def test_the_document(document):
    assert named("The document") == set(document)


def test_requests(document):
    assert named("Requests") == set(document["requests"][0])


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("Blocks", fields(model.MetricsBlock)),
        ("Fitness", fields(parts.Fitness) | {"throughput", "tokens_per_sec"}),
        ("Anomalies", fields(model.Anomalies)),
        ("KV cache", fields(model.KVMetrics)),
        (
            "SLO classes, models, tenants",
            fields(model.ClassMetrics, model.ModelMetrics, model.TenantMetrics),
        ),
        ("Pools", fields(parts.PDMetrics)),
        ("Fleet", fields(parts.FleetReport, parts.InstanceLife)),
        ("Decisions", fields(TraceSummary)),
        ("Accuracy", fields(accuracy.Accuracy, accuracy.ValidatedRun, accuracy.StepInterval)),
    ],
)
def test_a_section_has_the_figures_of_its_object(section, expected):
    first = {
        name
        for row in rows(section)
        for name in re.findall(r"`([\w-]+)`", row[0] if section != "Fitness" else row[0] + row[2])
    }
    assert first == expected


@pytest.mark.parametrize(
    ("section", "owners"),
    [
        ("SLO classes, models, tenants", [model.Distribution]),
        (
            "Fleet",
            [ScalingTick, CapacityAnalysis, VariantCapacity],
        ),
    ],
)
def test_parts_of_figures_are_named(section, owners):
    assert [n for n in sorted(fields(*owners)) if f"`{n}`" not in SECTIONS[section]] == []


def test_parts_of_fleet_events_and_decisions_are_named():
    parts = {
        *FleetEvent._fields,
        *ScaleDecision._fields,
        *Variant._fields,
    }
    assert [name for name in sorted(parts) if f"`{name}`" not in SECTIONS["Fleet"]] == []


def test_sessions():
    assert [name for name in STATUSES if f"`{name}`" not in SECTIONS["Sessions"]] == []


def test_what_is_only_in_json_is_marked():
    extra = {f.name for f in attrs.fields(model.MetricsBlock) if f.metadata.get("extra")}
    marked = {row[0].strip("`") for row in rows("Blocks") if "JSON only" in row[2]}
    assert marked == extra


def test_what_is_left_out_is_marked():
    omitted = {f.name for f in attrs.fields(model.MetricsBlock) if f.metadata.get("omit_zero")}
    marked = {row[0].strip("`") for row in rows("Blocks") if "left out" in row[4]}
    assert marked == omitted


# ----------------------------------------------------------------------------- text, table, files


def texts(module):
    """What a module may print: its texts, without docstrings."""
    tree = ast.parse(inspect.getsource(module))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_every_line_of_the_text():
    labels = set()
    for found in texts(text):
        labels.update(re.findall(r"=== .+ ===", found))
        labels.update(re.findall(r"([A-Z][\w -]*(?: \([A-Za-z]+\))?)(?=:|$)", found.strip()))
    labels -= {"Shed ("}
    assert {"=== PD Metrics ===", "Lost in Drain", "TTFT", "Cache Hit Rate"} <= labels
    missing = [name for name in sorted(labels) if name not in PAGE]
    assert missing == []


def test_every_label_of_the_table():
    labels = {found.strip(" {:") for found in texts(table) if re.match(r"[A-Z]", found)}
    labels -= {"Simulation"}  # stands for a model without a name
    assert {"Still queued at the end", "TTFT p99", "Troubles"} <= labels
    flat = " ".join(PAGE.split())
    assert [name for name in sorted(labels) if name not in flat] == []


def keys(module):
    return {key for found in texts(module) for key in re.findall(r'"(\w+)": ', found)}


def test_the_metrics_file():
    assert named("Requests", 2) == keys(metrics_file) - {"requests"}


def test_the_results_file():
    assert named("Results file") == keys(replay_file)


def test_states_of_a_request():
    row = next(row for row in rows("Requests") if row[0] == "`state`")
    assert set(re.findall(r"`(\w+)`", row[4])) == {COMPLETED, QUEUED, RUNNING, TIMED_OUT}
