#!/usr/bin/env python3
"""Measure how the cost of a request grows: with requests, with instances, with sequence length.

    benchmarks/scaling.py --quick                     points of up to 20,000 requests
    benchmarks/scaling.py                             all of them, up to 1,000,000
    benchmarks/scaling.py --only prompt output        some studies
    benchmarks/scaling.py --json mine.json            keep the figures
    benchmarks/scaling.py --compare scaling.json      point out what has become dearer
    benchmarks/scaling.py --from scaling.json         draw figures that were kept, measure nothing

Each point is a process of its own. Of N runs the one with the least CPU time counts; a point that
takes longer than 20 s is run once. The yardstick of run.py is timed before and after each point,
because so long a measurement may outlast a quiet hour. The cost of a request leaves start-up out:
that is what a run of one request takes.

A comparison divides CPU times by the yardstick. A point that was kept and now takes more than
--tolerance times the CPU time, or more than 1.15 times the memory, is named as a regression; so is
one whose results differ. Then the exit code is 1. Pictures go to build/benchmarks.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from run import BLIS, HERE, SAME, circumstances, run_once, stored, yardstick

from blis_core.api import BlisError, atomic_write

PICTURES = HERE.parent / "build" / "benchmarks"
QUICK = 20_000
LONG = 20.0
"""CPU seconds from which on a point is run once."""
TOLERANCE = 1.25
MEMORY_TOLERANCE = 1.15
MODEL = ["run", "--model", "qwen/qwen3-14b", "--latency-model", "trained-physics"]
QUIET = ["--log", "error"]
EACH = 1000
"""Requests for each instance, where their number follows the instances."""
OF_A_LENGTH = 2000
"""Requests where their length is what matters."""


class Point(NamedTuple):
    """One place on one curve."""

    study: str
    curve: str
    x: int
    """What the study varies: requests, instances or tokens."""
    requests: int
    arguments: list[str]
    """Of ``blis``."""


def fleet(instances: int, requests: int) -> list[str]:
    """Chats at 25 requests/s for each instance, which keeps it busy but not overloaded."""
    routing = ["--num-instances", str(instances), "--routing-policy", "weighted"]
    load = ["--workload", "chatbot", "--rate", str(25 * instances)]
    return [*MODEL, *routing, *load, "--num-requests", str(requests), *QUIET]


def lengths(prompt: int, output: int, rate: float, requests: int) -> list[str]:
    """Requests of equal lengths on one instance."""
    load = [*MODEL, "--rate", str(rate), "--num-requests", str(requests), "--timeout", "-1"]
    for name, tokens in (("prompt", prompt), ("output", output)):
        for limit in ("", "-stdev", "-min", "-max"):
            load += [f"--{name}-tokens{limit}", str(tokens)]
    return [*load, *QUIET]


def by_requests() -> Iterator[Point]:
    """More and more requests to the same instances."""
    for instances in (1, 64):
        curve = "1 instance" if instances == 1 else f"{instances} instances"
        for requests in (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000):
            yield Point("requests", curve, requests, requests, fleet(instances, requests))


def by_instances() -> Iterator[Point]:
    """More and more instances with the same load each."""
    for instances in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        requests = EACH * instances
        arguments = fleet(instances, requests)
        yield Point("instances", "1,000 requests each", instances, requests, arguments)


def by_output() -> Iterator[Point]:
    """Longer answers, as many fewer a second: always about seven at once."""
    for tokens in (64, 256, 1024, 4096, 16_384):
        arguments = lengths(128, tokens, 512 / tokens, OF_A_LENGTH)
        yield Point("output", "prompt of 128 tokens", tokens, OF_A_LENGTH, arguments)


def by_prompt() -> Iterator[Point]:
    """Longer prompts, so far apart that they seldom meet."""
    for tokens in (64, 256, 1024, 4096, 16_384, 32_768):
        arguments = lengths(tokens, 128, 0.2, OF_A_LENGTH)
        yield Point("prompt", "output of 128 tokens", tokens, OF_A_LENGTH, arguments)


STUDIES: dict[str, Callable[[], Iterator[Point]]] = {
    "requests": by_requests,
    "instances": by_instances,
    "output": by_output,
    "prompt": by_prompt,
}
START = Point("start", "", 1, 1, fleet(1, 1))
"""What every run pays before its first request."""


# ------------------------------------------------------------------------------------ measuring


def measure(program: list[str], points: list[Point], runs: int) -> dict[str, Any]:
    """Run the points and print a line for each; returns what ``--json`` keeps."""
    about = circumstances(os.getloadavg()[0], runs)
    print(f"{about}\n{len(points)} points")
    print(f"{'study':<10} {'curve':<20} {'x':>9} {'CPU s':>8} {'MiB':>6} {'us/request':>11}")
    stick = yardstick()
    start, stick = best_of(program, START, runs, stick)
    kept: list[dict[str, Any]] = []
    for point in points:
        figures, stick = best_of(program, point, runs, stick)
        kept.append(figures)
        print(
            f"{point.study:<10} {point.curve:<20} {point.x:>9,} {figures['cpu_s']:8.2f} "
            f"{figures['peak_mib']:6} {cost_us(figures, start):11.1f}",
            flush=True,
        )
    return {"schema": 1, "about": about, "start": start, "points": kept}


def best_of(
    program: list[str], point: Point, runs: int, before: float
) -> tuple[dict[str, Any], float]:
    """Figures of a point, and the yardstick (s) after it; ``before`` is the one before it."""
    best = run_once(program, point.arguments)
    for _ in range(runs - 1):
        if best.cpu_s > LONG:
            break
        best = min(best, run_once(program, point.arguments), key=lambda run: run.cpu_s)
    after = yardstick()
    figures = {
        "study": point.study,
        "curve": point.curve,
        "x": point.x,
        "requests": point.requests,
        "wall_s": round(best.wall_s, 3),
        "cpu_s": round(best.cpu_s, 3),
        "peak_mib": round(best.peak_mib),
        "yardstick_s": round(min(before, after), 4),
        **{key: best.metrics.get(key) for key in SAME},
    }
    return figures, after


def cost_us(point: dict[str, Any], start: dict[str, Any]) -> float:
    """CPU time of one request of a point in us, without start-up."""
    return float(max(point["cpu_s"] - start["cpu_s"], 0.0) / point["requests"] * 1e6)


def curves(figures: dict[str, Any], study: str) -> dict[str, list[dict[str, Any]]]:
    """The points of a study by curve, in the order of x."""
    found: dict[str, list[dict[str, Any]]] = {}
    for point in sorted(figures["points"], key=lambda point: point["x"]):
        if point["study"] == study:
            found.setdefault(point["curve"], []).append(point)
    return found


# ------------------------------------------------------------------------------------ comparing


def compare(now: dict[str, Any], then: dict[str, Any], tolerance: float) -> int:
    """Print how each point has changed; the number of regressions."""
    print(f"\ncompared with: {then['about']}")
    print(f"{'study':<10} {'curve':<20} {'x':>9} {'CPU':>7} {'memory':>7}")
    olds = {(old["study"], old["curve"], old["x"]): old for old in then["points"]}
    worse = 0
    for new in now["points"]:
        key = new["study"], new["curve"], new["x"]
        line = f"{key[0]:<10} {key[1]:<20} {key[2]:>9,}"
        old = olds.get(key)
        if old is None:
            print(f"{line} {'new':>7}")
            continue
        time = (new["cpu_s"] / new["yardstick_s"]) / (old["cpu_s"] / old["yardstick_s"])
        memory = new["peak_mib"] / old["peak_mib"]
        remarks = []
        if any(new[key] != old[key] for key in SAME):
            remarks.append("RESULTS DIFFER")
        if time > tolerance:
            remarks.append("SLOWER")
        if memory > MEMORY_TOLERANCE:
            remarks.append("MORE MEMORY")
        worse += bool(remarks)
        print(f"{line} {time:6.2f}x {memory:6.2f}x  {', '.join(remarks)}".rstrip())
    allowed = f"tolerance: {tolerance:g}x CPU, {MEMORY_TOLERANCE:g}x memory"
    print(f"{worse or 'no'} regression{'s' * (worse != 1)} ({allowed})")
    return worse


def draw(figures: dict[str, Any], then: dict[str, Any] | None, folder: Path) -> None:
    """Draw the curves, if matplotlib is there."""
    try:
        from pictures import draw_all
    except ModuleNotFoundError as missing:
        print(f"no pictures: {missing.name} is not installed", file=sys.stderr)
        return
    for path in draw_all(figures, then, folder):
        print(f"drawn: {path}")


def main() -> int:
    """Measure or read figures; keep, compare and draw them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", metavar="STUDY", choices=STUDIES, help=", ".join(STUDIES)
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help=f"the same as --most {QUICK}")
    size.add_argument("--most", type=int, metavar="N", help="only points of up to N requests")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each point (3)")
    parser.add_argument("--cmd", default=BLIS, help="program to time (this environment's blis)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="figures kept earlier")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, metavar="X", help="of CPU time (1.25)"
    )
    parser.add_argument("--from", type=Path, metavar="FILE", dest="source", help="do not measure")
    parser.add_argument("--pictures", type=Path, default=PICTURES, metavar="FOLDER")
    options = parser.parse_args()
    most = QUICK if options.quick else options.most
    points = [
        point
        for study in options.only or STUDIES
        for point in STUDIES[study]()
        if most is None or point.requests <= most
    ]
    if not points:
        parser.error(f"no point has {most} requests or fewer")
    try:
        then = stored(options.compare) if options.compare else None
        now = (
            stored(options.source)
            if options.source
            else measure(shlex.split(options.cmd), points, max(options.runs, 1))
        )
        if options.json:
            atomic_write(options.json, json.dumps(now, indent=2) + "\n")
    except (BlisError, OSError, ValueError) as problem:
        parser.exit(1, f"{parser.prog}: {problem}\n")
    except KeyboardInterrupt:
        parser.exit(130, f"{parser.prog}: interrupted, no figures were kept\n")
    worse = 0 if then is None else compare(now, then, options.tolerance)
    draw(now, then, options.pictures)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
