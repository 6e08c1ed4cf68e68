"""Tables of the ziggurat samplers (Marsaglia and Tsang, 2000) as Go's ``math/rand`` has them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from blis_core import _rng_tables

if TYPE_CHECKING:
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]
    FloatArray = npt.NDArray[np.float64]


class Ziggurat(NamedTuple):
    """Tables of one ziggurat, as lists for single draws and as arrays for bulk draws."""

    layers: list[tuple[int, float]]
    """Limit and width of each."""
    density: list[float]
    rise: list[float]
    """density[i-1] - density[i], rounded to binary32."""
    limit_array: IntArray
    width_array: FloatArray


def _ziggurat(limits: str, widths: str, density: str) -> Ziggurat:
    def binary32(text: str) -> npt.NDArray[np.float32]:
        return np.array([int(t) for t in text.split()], dtype=np.uint32).view(np.float32)

    limit_list = [int(t) for t in limits.split()]
    width_array = binary32(widths).astype(np.float64)
    fs = binary32(density)
    return Ziggurat(
        list(zip(limit_list, width_array.tolist(), strict=True)),
        fs.tolist(),
        (np.roll(fs, 1) - fs).tolist(),
        np.array(limit_list, dtype=np.int64),
        width_array,
    )


@cache
def norm_tables() -> Ziggurat:
    return _ziggurat(_rng_tables.NORM_KN, _rng_tables.NORM_WN, _rng_tables.NORM_FN)


@cache
def exp_tables() -> Ziggurat:
    return _ziggurat(_rng_tables.EXP_KE, _rng_tables.EXP_WE, _rng_tables.EXP_FE)


@cache
def norm_layers() -> list[tuple[int, float]]:
    """What most single draws need of the tables, at hand."""
    return norm_tables().layers


@cache
def exp_layers() -> list[tuple[int, float]]:
    """The same for exponential numbers."""
    return exp_tables().layers
