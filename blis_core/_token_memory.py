"""Memory for token ids, in large pieces: that of a page costs more than drawing the ids for it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    TokenArray = npt.NDArray[np.int32]

_FIRST = 1 << 16  # ids
_PIECE = 1 << 21

_open: list[TokenArray] = []
"""The rest of the latest piece. Popping from a list is safe when several threads simulate."""


def token_memory(n: int) -> TokenArray:
    """Room for ``n`` token ids, not initialised.

    It is given back to the system together with what lies in the same piece, when all of it is out
    of use: who keeps a few ids for long should copy them.
    """
    try:
        rest = _open.pop()
    except IndexError:
        rest = np.empty(_FIRST, dtype=np.int32)
    if n > len(rest):
        rest = _piece(max(_PIECE, n))
    _open.append(rest[n:])
    return rest[:n]


def _piece(n: int) -> TokenArray:
    """Memory from the system itself: between pieces that come and go, malloc's heap would grow."""
    import mmap

    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return np.empty(n, dtype=np.int32)
    memory = mmap.mmap(-1, 4 * n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=np.int32)
