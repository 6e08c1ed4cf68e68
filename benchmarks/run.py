#!/usr/bin/env python3
"""Time whole `blis` command lines: wall clock, CPU, peak memory, simulated tokens per second.

    benchmarks/run.py [CASE ...] [--runs N]

Each case is run N times (default 3) as a process of its own; the best run counts. Simulated time
and completed requests are shown as well, so that a change of results does not pass as a change of
speed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

BLIS = Path(sys.executable).with_name("blis")
PHYSICS = "--latency-model trained-physics"
CASES = {
    "help": "--help",
    "tiny": "run --model qwen/qwen3-14b",
    "saturated": f"run --model qwen/qwen3-14b {PHYSICS} --rate 20 --num-requests 5000",
    "long-output": "run --model qwen/qwen2.5-7b-instruct --workload contentgen --rate 4 "
    "--num-requests 4000",
    "long-prompt": "run --model meta-llama/llama-3.1-70b-instruct --hardware H100 --tp 4 "
    f"{PHYSICS} --workload multidoc --rate 1 --num-requests 1000",
    "small-cache": f"run --model qwen/qwen3-14b {PHYSICS} --workload chatbot --rate 30 "
    "--num-requests 4000 --total-kv-blocks 2500 --max-model-len 4096",
    "round-robin": f"run --model qwen/qwen3-14b {PHYSICS} --workload chatbot --rate 200 "
    "--num-requests 20000 --num-instances 8",
}


class Run(NamedTuple):
    """Figures of one process."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    metrics: dict[str, float]


def run_once(arguments: str) -> Run:
    """Run `blis` and read its last block of metrics."""
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        process = subprocess.Popen([BLIS, *arguments.split()], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
        if process.returncode:
            sys.exit(f"blis {arguments}: exit code {process.returncode}")
        out.seek(0)
        text = out.read()
    _, found, block = text.rpartition("=== Simulation Metrics ===")
    metrics = json.JSONDecoder().raw_decode(block.lstrip())[0] if found else {}
    # ru_maxrss is in KiB, on macOS in bytes.
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit, metrics)


def main() -> None:
    """Run the chosen cases and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(CASES)}")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))} (cases: {', '.join(CASES)})")
    headings = ("case", "wall s", "CPU s", "MiB", "Mtoken/s", "completed", "simulated s")
    layout = "{:<12} {:>8} {:>8} {:>6} {:>9} {:>10} {:>12}"
    print(layout.format(*headings))
    for name in options.cases or CASES:
        best = min((run_once(CASES[name]) for _ in range(options.runs)), key=lambda run: run.cpu_s)
        tokens = best.metrics.get("total_output_tokens", 0)
        row = [name, f"{best.wall_s:.2f}", f"{best.cpu_s:.2f}", f"{best.peak_mib:.0f}"]
        row.append(f"{tokens / best.cpu_s / 1e6:.2f}" if tokens else "-")
        row.append(str(best.metrics.get("completed_requests", "-")))
        row.append(str(best.metrics.get("vllm_estimated_duration_s", "-")))
        print(layout.format(*row), flush=True)


if __name__ == "__main__":
    main()
