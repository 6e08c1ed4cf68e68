"""The constants of ``data/kernels.json``: closed forms for the kernels of each GPU.

Units: us, bytes, FLOP, and rates per us.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from functools import cache
from importlib import resources
from typing import Any, Final

import attrs

from blis_core.api import BlisError, HardwareDescription

ALIASES: Final = {"A100-SXM": "A100-80"}
"""Catalogue names of GPUs that have their constants under another name."""


@cache
def contents() -> dict[str, Any]:
    """The file. Shared by all callers: do not change it."""
    text = resources.files("blis_latency_kernels").joinpath("data/kernels.json").read_bytes()
    found: dict[str, Any] = json.loads(text)
    return found


@attrs.frozen
class Roofline:
    """Duration of a kernel that moves and computes: a smooth maximum of both, above a floor."""

    floor: float
    """us of the smallest kernel."""
    move: float
    """bytes/us"""
    compute: float
    """FLOP/us"""
    sharpness: float
    """1 = both add up; the larger, the more the slower of them alone counts."""
    tile: float = 0.0
    """Tokens to which the work of each expert is padded on average."""

    def us(self, moved: float, computed: float) -> float:
        """Duration for this many bytes and FLOP."""
        q = self.sharpness
        both: float = ((moved / self.move) ** q + (computed / self.compute) ** q) ** (1 / q)
        return self.floor + both


class Gpu:
    """The kernels of one GPU."""

    def __init__(self, name: str, figures: dict[str, Any]) -> None:
        self.name = name
        self.bandwidth: float = figures["bw_bytes_per_us"]
        self.peak16: float = figures["peak16_flop_per_us"]
        self.peak8: float = figures["peak8_flop_per_us"]
        self.usable_memory_gib: float | None = figures["usable_memory_gib"]
        self.validated: bool = figures["end_to_end"]
        self.pcie: bool = figures["pcie"]
        """Its links are those of the host, so that measured ones may not hold."""
        self._figures = figures

    def quality(self, kernel: str) -> str:
        """How well the closed form of a kernel fits: good, fair, poor, or "" if there is none."""
        form = self._figures.get(kernel)
        return str(form["quality"]).partition(":")[0] if form else ""

    def error_percent(self, kernel: str) -> float:
        """Mean error of the closed form of a kernel."""
        return float(self._figures[kernel]["error_percent"])

    def roofline(self, kernel: str) -> Roofline:
        """The closed form of a matrix or expert kernel; 8-bit ones compute at the 8-bit peak."""
        form = self._figures[kernel]
        peak = self.peak8 if "fp8" in kernel else self.peak16
        return Roofline(
            form["t0"],
            form["eb"] * self.bandwidth,
            form["ec"] * peak,
            form["q"],
            form.get("mt", 0.0),
        )

    @property
    def attn_decode(self) -> tuple[float, float]:
        """us of a decode attention kernel, and bytes/us at which it reads the KV cache."""
        form = self._figures["attn_decode"]
        return form["t0"], form["eb"] * self.bandwidth

    @property
    def attn_prefill(self) -> tuple[float, float, float]:
        """us of a prefill attention kernel, us per token and head, and FLOP/us."""
        form = self._figures["attn_prefill"]
        return form["t0"], form["lin_ns"] / 1000, form["ec"] * self.peak16

    @property
    def tensor_parallel(self) -> list[int]:
        """Degrees for which there are all-reduce measurements."""
        return sorted(map(int, self._figures["allreduce_us"]))

    def allreduce(self, tp: int, link_gb_s: float = 0.0) -> AllReduce:
        """Duration of an all-reduce over ``tp`` GPUs."""
        return AllReduce(self._figures["allreduce_us"][str(tp)], link_gb_s)


class AllReduce:
    """Duration by size: measured points, or a link of given speed."""

    def __init__(self, points_us: list[float], link_gb_s: float) -> None:
        self._sizes: list[int] = contents()["allreduce_bytes"]
        self._points = points_us
        self._link = link_gb_s * 1000  # bytes/us

    def us(self, size: float) -> float:
        """Duration for ``size`` bytes, interpolated between logarithms."""
        if self._link:
            return self._points[0] + size / self._link
        sizes, points = self._sizes, self._points
        if size <= sizes[0]:
            return points[0]
        i = min(bisect_right(sizes, size), len(sizes) - 1) - 1
        share = (math.log(size) - math.log(sizes[i])) / (
            math.log(sizes[i + 1]) - math.log(sizes[i])
        )
        low, high = math.log(points[i]), math.log(points[i + 1])
        return math.exp(low + share * (high - low))


def gpu_names() -> list[str]:
    """GPUs with constants, under the names of the catalogue too."""
    return sorted([*contents()["gpus"], *ALIASES])


@cache
def gpu(name: str) -> Gpu | None:
    """The GPU of this name, None if there are no constants for it."""
    figures = contents()["gpus"].get(ALIASES.get(name, name))
    return Gpu(name, figures) if figures is not None else None


def stand_in(other: str, hardware: HardwareDescription) -> Gpu:
    """The kernels of the GPU ``other`` at the bandwidth and peak rates of ``hardware``.

    BlisError if there are none of ``other``, if there are some of ``hardware`` itself, or if its
    rates are not known.
    """
    name, where = hardware.name, "--latency-option constants_of"
    if gpu(name) is not None:
        raise BlisError(f"{where}: {name} has constants of its own; leave it out")
    if gpu(other) is None:
        raise BlisError(f"{where}: no measurements of GPU {other!r}; choose from {gpu_names()}")
    if hardware.hbm_tb_s <= 0 or hardware.fp16_tflops <= 0:
        raise BlisError(f"{where}: give BwPeakTBs and TFlopsPeak of {name} in --hardware-config")
    figures = contents()["gpus"][ALIASES.get(other, other)]
    rates = {
        "bw_bytes_per_us": hardware.hbm_tb_s * 1e6,
        "peak16_flop_per_us": hardware.fp16_tflops * 1e6,
        "peak8_flop_per_us": hardware.fp8_tflops * 1e6,
        "usable_memory_gib": None,
        "end_to_end": False,
    }
    return Gpu(name, {**figures, **rates})
