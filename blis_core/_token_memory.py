"""Memory for token ids, in large pieces: that of a page costs more than drawing the ids for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    TokenArray = npt.NDArray[np.int32]

_FIRST = 1 << 16
_PIECE = 1 << 21  # ids; from 4 MiB on, numpy asks the system for huge pages

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
        rest = np.empty(max(_PIECE, n), dtype=np.int32)
    _open.append(rest[n:])
    return rest[:n]
