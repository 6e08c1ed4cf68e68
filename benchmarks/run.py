#!/usr/bin/env python3
"""Time whole `blis` command lines: the cases of suite.yaml, each as a process of its own.

    benchmarks/run.py                             show wall clock, CPU and peak memory
    benchmarks/run.py --only tiny --runs 5        some cases, another number of runs
    benchmarks/run.py --json mine.json            keep the figures
    benchmarks/run.py --compare baseline.json     set them beside figures that were kept

Of N runs the one with the least CPU time counts. A fixed amount of interpreter work, the yardstick,
is timed before and after; comparisons divide CPU times by it, so that figures from different
machines, or from a busy hour, can be set side by side to within some ten per cent.

A comparison also says whether the work was the same: completed requests, output tokens and mean
end-to-end latency must agree. If they do not, or if --limit is given and a case takes more than
that many times as long, the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).resolve().parent
BLIS = str(Path(sys.executable).with_name("blis"))
SAME = ("completed_requests", "total_output_tokens", "e2e_mean_ms")
HEADINGS = f"{'case':<14}{'wall s':>8}{'CPU s':>8}{'MiB':>6}{'Mtoken/CPU s':>14}"
BUSY = 0.5
"""Load average above which a measurement is not a quiet one."""


class Run(NamedTuple):
    """Figures of one process."""

    cpu_s: float
    """User and system time."""
    wall_s: float
    peak_mib: float
    metrics: dict[str, Any]
    """The last block of metrics on standard output."""


def yardstick() -> float:
    """CPU seconds of a fixed amount of interpreter work, best of five."""

    class Cell:
        def __init__(self, number: int) -> None:
            self.number = number

    def once() -> float:
        start = time.process_time()
        cells = [Cell(i) for i in range(1000)]
        names: dict[str, int] = {}
        total, state = 0.0, 1
        for i in range(200_000):
            state = (state * 69069 + 1) % 4294967296
            cell = cells[state % 1000]
            cell.number += i
            total += cell.number * 0.25
            if i % 8 == 0:
                name = f"{state:x}"[-3:]
                names[name] = names.get(name, 0) + 1
        assert total > 0
        assert len(names) > 100
        return time.process_time() - start

    return min(once() for _ in range(5))


def run_once(program: list[str], arguments: list[str]) -> Run:
    """Run a command line to its end; the program exits if it fails."""
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        process = subprocess.Popen([*program, *arguments], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
        if process.returncode:
            sys.exit(f"{shlex.join(arguments)}: exit code {process.returncode}")
        out.seek(0)
        _, found, block = out.read().rpartition("=== Simulation Metrics ===")
    metrics = json.JSONDecoder().raw_decode(block.lstrip())[0] if found else {}
    # ru_maxrss is in KiB, on macOS in bytes
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / unit, metrics)


def circumstances(load: float, runs: int) -> str:
    """In one line, what figures depend on besides the program."""
    quiet = "quiet machine" if load <= BUSY else "BUSY machine: take these with caution"
    return (
        f"Python {platform.python_version()}, numpy {version('numpy')}, {os.cpu_count()} CPUs, "
        f"best of {runs} runs, load average {load:.2f} at the start ({quiet})."
    )


def measure(program: list[str], names: list[str], runs: int) -> dict[str, Any]:
    """Run cases and print a line for each; returns what ``--json`` keeps."""
    suite = yaml.safe_load((HERE / "suite.yaml").read_text(encoding="utf-8"))["cases"]
    about = circumstances(os.getloadavg()[0], runs)
    print(about)
    first = yardstick()
    print(HEADINGS)
    cases: dict[str, Any] = {}
    for name in names:
        arguments = shlex.split(suite[name]["command"].replace("{folder}", str(HERE)))
        best = min((run_once(program, arguments) for _ in range(runs)), key=lambda run: run.cpu_s)
        speed = best.metrics.get("total_output_tokens", 0) / best.cpu_s / 1e6
        print(
            f"{name:<14}{best.wall_s:8.2f}{best.cpu_s:8.2f}{best.peak_mib:6.0f}{speed:14.2f}",
            flush=True,
        )
        cases[name] = {
            "wall_s": round(best.wall_s, 3),
            "cpu_s": round(best.cpu_s, 3),
            "peak_mib": round(best.peak_mib),
            **{key: best.metrics.get(key) for key in SAME},
        }
    stick = min(first, yardstick())
    print(f"yardstick {stick:.4f} s")
    return {"schema": 1, "about": about, "yardstick_s": round(stick, 4), "cases": cases}


def compare(now: dict[str, Any], then: dict[str, Any], limit: float | None) -> bool:
    """Print how much faster each case is than it was; whether all is well."""
    print(f"\ncompared with: {then['about']}")
    print(f"{'case':<14}{'speed-up':>9}{'MiB':>7}  same work")
    ratios, well = [], True
    for name, case in now["cases"].items():
        old = then["cases"].get(name)
        if old is None:
            print(f"{name:<14}{'new':>9}")
            continue
        ratio = (old["cpu_s"] / then["yardstick_s"]) / (case["cpu_s"] / now["yardstick_s"])
        same = all(case[key] == old[key] for key in SAME)
        slow = limit is not None and ratio * limit < 1
        well = well and same and not slow
        remark = ("yes" if same else "NO: the results differ") + (", TOO SLOW" if slow else "")
        print(f"{name:<14}{ratio:8.2f}x{case['peak_mib'] - old['peak_mib']:+7.0f}  {remark}")
        ratios.append(ratio)
    if ratios:
        print(f"{'all':<14}{statistics.geometric_mean(ratios):8.2f}x")
    return well


def stored(path: Path) -> dict[str, Any]:
    """Figures kept by ``--json``; a plain name is also looked for beside this script."""
    if not path.exists() and (HERE / path).exists():
        path = HERE / path
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return figures


def main() -> int:
    """Measure, and keep or compare."""
    suite = yaml.safe_load((HERE / "suite.yaml").read_text(encoding="utf-8"))["cases"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="CASE", choices=suite, help=", ".join(suite))
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each case (3)")
    parser.add_argument("--cmd", default=BLIS, help="program to time (this environment's blis)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="figures kept earlier")
    parser.add_argument("--limit", type=float, metavar="X", help="most allowed slow-down")
    options = parser.parse_args()
    then = stored(options.compare) if options.compare else None
    now = measure(shlex.split(options.cmd), options.only or list(suite), max(options.runs, 1))
    if options.json:
        options.json.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return 0 if then is None or compare(now, then, options.limit) else 1


if __name__ == "__main__":
    sys.exit(main())
