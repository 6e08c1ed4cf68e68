"""Random streams that reproduce Go's ``math/rand`` (version 1) bit for bit, drawn in bulk.

The source is an additive lagged Fibonacci generator, ``x[n] = x[n-607] + x[n-273] mod 2**64``.
A generator keeps a block of outputs ahead of its position, so that a bulk draw is a few numpy
operations on a slice. Bulk draws give the numbers, and leave the stream at the position, of as many
single draws. Instances are not safe for concurrent use by several threads.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left, bisect_right
from collections.abc import MutableSequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from blis_core._rng_source import MAX_OUTPUTS, LaggedFibonacci
from blis_core._rng_ziggurat import (
    exp_layers,
    exp_tables,
    norm_layers,
    norm_tables,
)
from blis_core._token_memory import token_memory

if TYPE_CHECKING:
    import numpy.typing as npt

    from blis_core._rng_ziggurat import Ziggurat
    from blis_core._token_memory import TokenArray

    U64Array = npt.NDArray[np.uint64]
    IntArray = npt.NDArray[np.int64]
    FloatArray = npt.NDArray[np.float64]

VOCABULARY = 128000
"""Random token ids are uniform in [0, VOCABULARY)."""

_MERSENNE31 = 2**31 - 1
_MASK63 = 2**63 - 1
_MASK32 = 2**32 - 1
_SIGN32 = 2**31
_2_POW_63 = 2.0**63
_TOKEN_MAX = _MERSENNE31 - 2**31 % VOCABULARY
"""Largest 31-bit draw that maps to a token id; larger ones are drawn again."""

_NORM_TAIL = 3.442619855899
_NORM_TAIL_INVERSE = 1.0 / _NORM_TAIL
_EXP_TAIL = 7.69711747013104972

_LN2_HI, _LN2_LO = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SQRT_HALF = 0.70710678118654752440
_L1, _L2, _L3, _L4, _L5, _L6, _L7 = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)


def go_log(x: float) -> float:
    """Natural logarithm with the rounding of Go on amd64 (fdlibm ``__ieee754_log``, no FMA).

    The C library differs in the last bit for about 7 % of the arguments. 0 gives -inf, a negative
    argument NaN.
    """
    if not 0.0 < x < math.inf:
        return -math.inf if x == 0 else (x if x > 0 else math.nan)
    f1, k = math.frexp(x)
    if f1 < _SQRT_HALF:
        f1 *= 2.0
        k -= 1
    f = f1 - 1.0
    s = f / (2.0 + f)
    s2 = s * s
    s4 = s2 * s2
    t1 = s2 * (_L1 + s4 * (_L3 + s4 * (_L5 + s4 * _L7)))
    t2 = s4 * (_L2 + s4 * (_L4 + s4 * _L6))
    h = 0.5 * f * f
    return k * _LN2_HI - ((h - (s * (h + (t1 + t2)) + k * _LN2_LO)) - f)


def fnv1a64(name: str) -> int:
    """FNV-1a hash of the UTF-8 bytes of ``name``, as a signed 64-bit integer."""
    h = 14695981039346656037
    for byte in name.encode():
        h = (h ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return h - 2**64 if h >> 63 else h


def stream_seed(master: int, name: str) -> int:
    """Seed of the stream ``name`` of a run with the int64 seed ``master``."""
    return master if name == "workload" else master ^ fnv1a64(name)


class PartitionedRandom:
    """The named streams of one run: each is created on first use and then continued."""

    def __init__(self, master: int) -> None:
        self.master = master
        self._streams: dict[str, GoRand] = {}

    def stream(self, name: str) -> GoRand:
        """The generator of the stream ``name``."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = GoRand(stream_seed(self.master, name))
        return found


_binary32 = struct.Struct("<f")


def _f32(x: float) -> float:
    """``x`` rounded to binary32."""
    rounded: float = _binary32.unpack(_binary32.pack(x))[0]
    return rounded


_spare: list[npt.NDArray[np.uint32]] = []
"""Idle work memory of a token conversion, shared by all generators."""

# ---------------------------------------------------------------------------------- the generator


class GoRand(LaggedFibonacci):
    """A generator equal to Go's ``rand.New(rand.NewSource(seed))``.

    ``seed`` is any integer; seeds that are equal modulo ``2**31 - 1`` give equal streams.
    """

    __slots__ = ("_ids", "_lent", "_skips", "_tokens")

    def _start(self, block: U64Array, pos: int) -> None:
        super()._start(block, pos)
        self._ids: TokenArray = np.empty(0, dtype=np.int32)  # memory for the ids of a block
        self._lent = False  # whether somebody else uses that as well
        self._tokens: TokenArray | None = None  # token ids of the current block, once wanted
        self._skips: list[int] = []  # positions of the outputs that gave none

    def _refill(self, wanted: int) -> None:
        super()._refill(wanted)
        self._tokens = None

    # ---- single draws

    def int63(self) -> int:
        """Uniform in [0, 2**63)."""
        return self.uint64() & _MASK63

    def uint32(self) -> int:
        """Uniform in [0, 2**32)."""
        return self.uint64() >> 31 & _MASK32

    def int31(self) -> int:
        """Uniform in [0, 2**31)."""
        return self.uint64() >> 32 & _MERSENNE31

    def int31n(self, n: int) -> int:
        """Uniform in [0, n) for 0 < n < 2**31, from 31-bit draws."""
        return self._below(n, 31)

    def int63n(self, n: int) -> int:
        """Uniform in [0, n) for 0 < n < 2**63, from 63-bit draws."""
        return self._below(n, 63)

    def intn(self, n: int) -> int:
        """Uniform in [0, n) for n > 0, from 31-bit draws where ``n`` allows it."""
        return self._below(n, 31 if n <= _MERSENNE31 else 63)

    def _below(self, n: int, bits: int) -> int:
        largest = _largest_accepted(n, bits)
        draw = self.int31 if bits == 31 else self.int63
        v = draw()
        while v > largest:
            v = draw()
        return v % n

    def float64(self) -> float:
        """Uniform in [0, 1)."""
        while True:
            f = (self.uint64() & _MASK63) / _2_POW_63
            if f != 1.0:  # the conversion may round up
                return f

    def norm(self) -> float:
        """Standard normal (ziggurat of Marsaglia and Tsang, 128 layers)."""
        layers = norm_layers()
        while True:
            pos = self._pos
            if pos >= self._end:
                self._refill(1)
                pos = 0
            self._pos = pos + 1
            j = self._item(pos) >> 31 & _MASK32
            if j >= _SIGN32:
                j -= 1 << 32
            limit, width = layers[j & 127]
            x: float = j * width
            if -limit < j < limit:
                return x
            i = j & 127
            tables = norm_tables()
            if i == 0:
                while True:
                    x = -go_log(self.float64()) * _NORM_TAIL_INVERSE
                    y = -go_log(self.float64())
                    if y + y >= x * x:
                        return _NORM_TAIL + x if j > 0 else -_NORM_TAIL - x
            if self._below_density(tables, i, math.exp(-0.5 * x * x)):
                return x

    def exp(self) -> float:
        """Exponential with mean 1 (ziggurat, 256 layers)."""
        layers = exp_layers()
        while True:
            pos = self._pos
            if pos >= self._end:
                self._refill(1)
                pos = 0
            self._pos = pos + 1
            j = self._item(pos) >> 31 & _MASK32
            limit, width = layers[j & 255]
            x: float = j * width
            if j < limit:
                return x
            i = j & 255
            tables = exp_tables()
            if i == 0:
                return _EXP_TAIL - go_log(self.float64())
            if self._below_density(tables, i, math.exp(-x)):
                return x

    def _below_density(self, tables: Ziggurat, layer: int, density: float) -> bool:
        """Whether a point that is drawn in the edge of a layer lies below the density there."""
        height = _f32(_f32(self.float64()) * tables.rise[layer])
        return _f32(tables.density[layer] + height) < _f32(density)

    def perm(self, n: int) -> list[int]:
        """A random permutation of 0 .. n-1."""
        p = [0] * n
        for i in range(n):
            j = self.intn(i + 1)
            p[i] = p[j]
            p[j] = i
        return p

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle ``items`` (fewer than 2**31) in place."""
        for i in range(len(items) - 1, 0, -1):
            k = i + 1
            product = self.uint32() * k
            if product & _MASK32 < k:
                threshold = (2**32 - k) % k
                while product & _MASK32 < threshold:
                    product = self.uint32() * k
            j = product >> 32
            items[i], items[j] = items[j], items[i]

    # ---- bulk draws

    def tokens(self, n: int, behind: TokenArray | None = None) -> TokenArray:
        """``n`` token ids, equal to n times ``intn(VOCABULARY)``, ``behind`` others if there are.

        An int32 array of its own, though it keeps others in memory (see ``token_memory``).
        """
        pos = self._pos
        stop = pos + n
        tokens = self._tokens
        if tokens is None or self._skips or not pos <= stop <= self._end:
            return self._tokens_across(n, behind)
        self._pos = stop
        if behind is None:
            self._lent = True
            return tokens[pos:stop]
        start = len(behind)
        joined = token_memory(start + n)
        joined[:start] = behind
        joined[start:] = tokens[pos:stop]
        return joined

    def _tokens_across(self, n: int, behind: TokenArray | None) -> TokenArray:
        """The same, across the end of the block or outputs that give no id."""
        if n < 0:
            raise ValueError(f"cannot draw {n} token ids")
        done = 0 if behind is None else len(behind)
        drawn = token_memory(done + n)
        if behind is not None:
            drawn[:done] = behind
        while done < len(drawn):
            if self._pos >= self._end:
                self._refill(len(drawn) - done)
            part = self._block_tokens(len(drawn) - done)
            drawn[done : done + len(part)] = part
            done += len(part)
        return drawn

    def _block_tokens(self, n: int) -> TokenArray:
        """At most ``n`` token ids from the current block, as a view."""
        tokens = self._tokens
        if tokens is None:
            tokens = self._convert_block()
        skips = self._skips
        # Index k of ``tokens`` belongs to the k-th accepted output.
        first = self._pos - bisect_left(skips, self._pos)
        last = min(first + n, len(tokens)) - 1
        if last < first:  # nothing left but rejected outputs
            self._pos = self._end
        else:
            accepted_before = [s - k for k, s in enumerate(skips)]
            self._pos = last + bisect_right(accepted_before, last) + 1
        return tokens[first : last + 1]

    def _convert_block(self) -> TokenArray:
        """Token ids of all outputs of the block; notes which outputs gave none."""
        size = self._end
        if self._lent or len(self._ids) != size:
            self._ids = token_memory(size)
            self._lent = False
        v = self._ids.view(np.uint32)
        np.right_shift(self._outputs, np.uint64(32), out=v, casting="unsafe")
        v &= np.uint32(_MERSENNE31)
        skips: list[int] = []
        if np.maximum.reduce(v) > _TOKEN_MAX:
            skips = np.flatnonzero(v > _TOKEN_MAX).tolist()
        # Floor division by a constant is vectorised in numpy, the remainder is not.
        try:
            work = _spare.pop()
        except IndexError:
            work = np.empty(MAX_OUTPUTS, dtype=np.uint32)
        q = work[:size]
        np.floor_divide(v, np.uint32(VOCABULARY), out=q)
        q *= np.uint32(VOCABULARY)
        v -= q
        _spare.append(work)
        self._skips = skips
        self._tokens = tokens = np.delete(self._ids, skips) if skips else self._ids
        return tokens

    def uint64s(self, n: int) -> U64Array:
        """``n`` times :meth:`uint64`."""
        return self._take(n).copy()

    def int63s(self, n: int) -> IntArray:
        """``n`` times :meth:`int63`."""
        return (self._take(n) & np.uint64(_MASK63)).view(np.int64)

    def intns(self, limit: int, n: int) -> IntArray:
        """``n`` times ``intn(limit)``."""
        bits = 31 if limit <= _MERSENNE31 else 63
        largest = _largest_accepted(limit, bits)
        shift = np.int64(63 - bits)
        parts: list[IntArray] = []
        while True:
            v = self.int63s(n) >> shift
            if largest < (1 << bits) - 1:
                v = v[v <= largest]
            parts.append(v % np.int64(limit))
            n -= len(v)
            if not n:
                return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def float64s(self, n: int) -> FloatArray:
        """``n`` times :meth:`float64`."""
        parts: list[FloatArray] = []
        while True:
            f = self.int63s(n).astype(np.float64)
            f /= _2_POW_63
            if n and f.max() == 1.0:
                f = f[f != 1.0]
            parts.append(f)
            n -= len(f)
            if not n:
                return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def norms(self, n: int) -> FloatArray:
        """``n`` times :meth:`norm`."""
        return self._ziggurat_draws(n, normal=True)

    def exps(self, n: int) -> FloatArray:
        """``n`` times :meth:`exp`."""
        return self._ziggurat_draws(n, normal=False)

    def _ziggurat_draws(self, n: int, *, normal: bool) -> FloatArray:
        """Bulk draws: whole windows of outputs at once, single draws where a first try fails."""
        if n < 0:
            raise ValueError(f"cannot draw {n} numbers")
        tables = norm_tables() if normal else exp_tables()
        single = self.norm if normal else self.exp
        result = np.empty(n, dtype=np.float64)
        done = 0
        while done < n:
            if self._pos >= self._end:
                self._refill(n - done)
            start = self._pos
            refills = self._refills
            # A value takes at least one output, so a window of this size cannot give too many.
            window = self._outputs[start : start + n - done]
            j: IntArray = (window >> np.uint64(31)).astype(np.uint32).astype(np.int64)
            if normal:
                j = j.astype(np.int32).astype(np.int64)
            layer = j & (127 if normal else 255)
            values = j * tables.width_array[layer]
            slow = np.flatnonzero(np.abs(j) >= tables.limit_array[layer]).tolist()
            used = 0
            for at in slow:
                if at < used:
                    continue  # a slow draw before has consumed this output
                result[done : done + at - used] = values[used:at]
                done += at - used
                self._pos = start + at
                result[done] = single()
                done += 1
                if self._refills != refills:
                    break  # that draw went on into the next block
                used = self._pos - start
            else:
                rest = len(window) - used
                if rest > 0:
                    result[done : done + rest] = values[used:]
                    done += rest
                    self._pos = start + len(window)
        return result


@lru_cache(maxsize=64)
def _largest_accepted(n: int, bits: int) -> int:
    """The largest ``bits``-bit draw that is not repeated for a number below ``n``.

    A power of two accepts every draw; masking, as the reference does, equals the remainder then.
    """
    if not 0 < n < 1 << bits:
        raise ValueError(f"the limit of a random number must be in [1, 2**{bits}), not {n}")
    return (1 << bits) - 1 - (1 << bits) % n
