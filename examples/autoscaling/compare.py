#!/usr/bin/env python3
"""Fixed fleets and autoscaled ones under a spike, side by side: latency, GPU time, cost.

    python examples/autoscaling/compare.py

Prints a Markdown table. The guide shows it: docs/autoscaling.md.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from blis_core.api import Results, simulate

HERE = Path(__file__).parent
SERVICE = {
    "model": "qwen/qwen3-14b",
    "hardware": "L40S",
    "latency_model": "trained-physics",
    "routing_policy": "least-loaded",
    "workload_spec": str(HERE / "spike.yaml"),
}
HEADINGS = ("fleet", "most instances", "TTFT mean", "TTFT p99", "E2E p99", "GPU time", "cost")


def variants() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(what it is, instances at the start, policy file)."""
    elastic = yaml.safe_load((HERE / "elastic.yaml").read_text(encoding="utf-8"))
    fixed = {"node_pools": elastic["node_pools"]}
    for instances in (1, 2, 3, 4):
        yield "fixed", instances, fixed
    yield "autoscaled", 1, elastic
    at_once = copy.deepcopy(elastic)
    at_once["instance_lifecycle"]["loading_delay"] = {"mean": 0}
    yield "if instances loaded at once", 1, at_once
    early = copy.deepcopy(elastic)
    early["autoscaler"]["analyzer"].update(scale_up_threshold=0.5, scale_down_boundary=0.2)
    yield "scaling up at 0.5 instead of 0.8", 1, early
    early = copy.deepcopy(early)
    early["autoscaler"]["engine"] = {"name": "greedy"}
    yield "the same with engine `greedy`", 1, early
    yield "autoscaled from two instances", 2, elastic


def row(name: str, results: Results) -> tuple[str, ...]:
    """One line of the table."""
    figures, fleet = results.cluster, results.fleet
    assert fleet is not None
    return (
        name,
        f"{fleet.most_instances}",
        f"{figures.ttft_mean_ms / 1000:.1f} s",
        f"{figures.ttft_p99_ms / 1000:.1f} s",
        f"{figures.e2e_p99_ms / 1000:.0f} s",
        f"{fleet.gpu_seconds:.0f} s",
        f"{fleet.cost:.2f}",
    )


def table() -> str:
    """The comparison as Markdown."""
    lines = [HEADINGS, ("---",) * len(HEADINGS)]
    for name, instances, policy in variants():
        lines.append(row(name, simulate(**SERVICE, num_instances=instances, policy=policy)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    print(table(), end="")
