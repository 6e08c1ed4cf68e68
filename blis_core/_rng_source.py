"""The additive lagged Fibonacci source of Go's ``math/rand``: seeding and block generation.

``x[n] = x[n-607] + x[n-273] mod 2**64``, so 273 outputs at a time are one vector addition.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    U64Array = npt.NDArray[np.uint64]

_LAG, _STEP = 607, 273
_MAX_BLOCKS = 32  # outputs kept ahead: 32 * 273 = 8,736, about 70 kB, which stays in the L2 cache
_MERSENNE31 = 2**31 - 1

MAX_OUTPUTS = _MAX_BLOCKS * _STEP
"""Most outputs that a source keeps ahead."""


@cache
def _seed_tables() -> tuple[U64Array, U64Array]:
    """(multipliers[3, 607], masks[607]) of the seeding, in the order of the history.

    The reference fills 607 words from three consecutive states each of the Lehmer generator
    ``y -> 48271 y mod 2**31-1``, after 20 discarded ones, and reads them backwards from index 333.
    """
    from blis_core import _rng_tables

    masks = np.array([int(t) & (2**64 - 1) for t in _rng_tables.SEED_MASK.split()], dtype=np.uint64)
    power = pow(48271, 21, _MERSENNE31)
    powers = []
    for _ in range(3 * _LAG):
        powers.append(power)
        power = power * 48271 % _MERSENNE31
    order = (333 - np.arange(_LAG)) % _LAG
    table = np.array(powers, dtype=np.uint64).reshape(_LAG, 3)
    return np.ascontiguousarray(table.T[:, order]), masks[order]


def _seed_history(seed: int) -> U64Array:
    """The 607 values that precede the first output."""
    multipliers, masks = _seed_tables()
    y = multipliers * np.uint64(seed % _MERSENNE31 or 89482311)
    # Products are below 2**62; two folds reduce them modulo 2**31 - 1 without a division.
    for _ in range(2):
        high = y >> np.uint64(31)
        y &= np.uint64(_MERSENNE31)
        y += high
    a: U64Array
    a, b, c = y
    a <<= np.uint64(40)
    b <<= np.uint64(20)
    a ^= b
    a ^= c
    a ^= masks
    return a


# ------------------------------------------------------------------------------ block generation


class _Workspace(NamedTuple):
    """A buffer (history, then outputs) with the operands of its block-wise additions.

    The operands are kept since slicing costs more than adding.
    """

    buffer: U64Array
    lag: list[U64Array]
    step: list[U64Array]
    out: list[U64Array]


def _workspace() -> _Workspace:
    buffer = np.empty(_LAG + _MAX_BLOCKS * _STEP, dtype=np.uint64)
    starts = range(_LAG, len(buffer), _STEP)
    return _Workspace(
        buffer,
        [buffer[i - _LAG : i - _LAG + _STEP] for i in starts],
        [buffer[i - _STEP : i] for i in starts],
        [buffer[i : i + _STEP] for i in starts],
    )


_shared: list[_Workspace] = []
"""Idle workspaces. Popping from a list is safe when several threads simulate."""


class LaggedFibonacci:
    """A source seeded as Go's ``rand.NewSource(seed)``, with a block of outputs kept ahead.

    The block grows with use: a generator that is used once stays small and cheap. From its largest
    size on it is refilled in place, since fresh memory costs as much as the numbers.
    """

    __slots__ = ("_block", "_end", "_item", "_outputs", "_own", "_pos", "_refills")

    def __init__(self, seed: int) -> None:
        # Go's remainder has the sign of the dividend and then adds 2**31-1 to a negative one,
        # which is what Python's % gives.
        self._start(_seed_history(seed), 0)

    def _start(self, block: U64Array, pos: int) -> None:
        """Continue at output ``pos`` of ``block``: 607 values of history, then the outputs."""
        self._block = block
        self._outputs = block[_LAG:]
        self._item = self._outputs.item
        self._pos = pos
        self._end = len(self._outputs)
        self._refills = 0
        self._own: _Workspace | None = None

    # Copies and pickles must not share, or lose, the views that a workspace consists of.

    def __getstate__(self) -> tuple[U64Array, int]:
        return self._block.copy(), self._pos

    def __setstate__(self, state: tuple[U64Array, int]) -> None:
        self._start(*state)

    def _refill(self, wanted: int) -> None:
        """Replace the used-up block by the next one, of about ``wanted`` outputs or more.

        Views of the old block become invalid.
        """
        self._refills += 1
        self._pos = 0
        own = self._own
        if own is not None:
            buffer, lag, step, out = own
            buffer[:_LAG] = buffer[-_LAG:]
            # Exhausting a map is the cheapest loop there is.
            deque(map(np.add, lag, step, out), 0)
            return
        blocks = min(max(2 * self._end // _STEP, -(-wanted // _STEP)), _MAX_BLOCKS)
        try:
            work = _shared.pop()
        except IndexError:
            work = _workspace()
        buffer, lag, step, out = work
        buffer[:_LAG] = self._block[-_LAG:]
        deque(map(np.add, lag, step, out[:blocks]), 0)  # ends with the shortest operand
        if blocks < _MAX_BLOCKS:
            self._block = buffer[: _LAG + blocks * _STEP].copy()
            _shared.append(work)
        else:
            self._own = work
            self._block = buffer
        self._outputs = self._block[_LAG:]
        self._item = self._outputs.item
        self._end = len(self._outputs)

    def _take(self, n: int) -> U64Array:
        """The next ``n`` outputs: read-only, and valid until the next draw."""
        if n < 0:
            raise ValueError(f"cannot draw {n} numbers")
        if self._pos >= self._end and n:
            self._refill(n)
        pos = self._pos
        if pos + n <= self._end:
            self._pos = pos + n
            return self._outputs[pos : pos + n]
        taken = np.empty(n, dtype=np.uint64)
        done = 0
        while done < n:
            if self._pos >= self._end:
                self._refill(n - done)
            pos = self._pos
            stop = self._pos = min(pos + n - done, self._end)
            taken[done : done + stop - pos] = self._outputs[pos:stop]
            done += stop - pos
        return taken

    def uint64(self) -> int:
        """Uniform in [0, 2**64)."""
        pos = self._pos
        if pos >= self._end:
            self._refill(1)
            pos = 0
        self._pos = pos + 1
        return self._item(pos)
