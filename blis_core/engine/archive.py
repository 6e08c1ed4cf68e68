"""Requests that have ended, as columns of numbers.

A request and what hangs on it take about a kilobyte; here it takes some forty bytes. Objects are
made again when somebody asks for one.
"""

from __future__ import annotations

from array import array
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from blis_core.contracts import COMPLETED, TIMED_OUT, Request
from blis_core.engine.compact import BLOCK, Compact

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from blis_core.contracts import FloatArray, IntArray

    Column = IntArray | int
    """Values, in the smallest type that holds them all; or the one value that all rows have."""

_INTEGERS = (
    "arrival",
    "prompt_len",
    "output_len",
    "max_output",
    "deadline",
    "round_index",
    "prefix_length",
    "text_tokens",
    "image_tokens",
    "audio_tokens",
    "video_tokens",
    "ttft",
    "first_token_delay",
    "itl_sum",
    "itl_count",
    "e2e",
    "scheduling_delay",
    "gateway_enqueue",
    "gateway_dispatch",
)
_FLOATS = ("reason_ratio", "priority")
_TRAITS = (
    "client",
    "tenant",
    "slo_class",
    "model",
    "session",
    "prefix_group",
    "assigned",
    "state",
    "streaming",
    "length_capped",
)
"""What many requests have in common: a row has the number of such a combination."""
_DIFFERENCES = {"max_output": "output_len", "itl_count": "output_len", "deadline": "arrival"}
"""Columns that are kept as differences to another one, which most requests have in common."""
_ID = "request_"

_integers = [attrgetter(name) for name in _INTEGERS]
_floats = [attrgetter(name) for name in _FLOATS]
_traits = attrgetter(*_TRAITS)


class Archive(Compact):
    """The requests of one instance in the order in which they came, once it is closed."""

    def __init__(self) -> None:
        self._seen = 0  # requests that came, ended or not
        self._left = array("q")  # numbers of those that have not ended yet
        self._numbers: list[IntArray] = []
        self._chunks: dict[str, list[tuple[Column, int]]] = {
            name: [] for name in (*_INTEGERS, "trait")
        }
        self._reals: dict[str, list[FloatArray]] = {name: [] for name in _FLOATS}
        self._ids: list[IntArray | list[str]] = []
        self._combinations: dict[tuple[Any, ...], int] = {}
        # of a closed archive
        self._columns: dict[str, Column] = {}
        self._floats: dict[str, FloatArray] = {}
        self._traits: list[tuple[Any, ...]] = []
        self._names: IntArray | list[str] = []
        self._size = 0

    # ----------------------------------------------------------------------------- filling

    def sweep(
        self, requests: list[Request], *, without: Container[str] = (), everything: bool = False
    ) -> list[Request]:
        """Take over those that have ended, and return the others.

        ``requests`` are the ones that were returned last, and those that have come since.
        ``without``: ids of requests that leave no record. ``everything``: take all the others.
        """
        came = self._seen + len(requests) - len(self._left)
        numbers = [*self._left, *range(self._seen, came)]
        self._seen = came
        self._left = array("q")
        taken: list[Request] = []
        places = array("q")
        rest: list[Request] = []
        for number, request in zip(numbers, requests, strict=True):
            if everything or request.state is COMPLETED or request.state is TIMED_OUT:
                if request.id not in without:
                    taken.append(request)
                    places.append(number)
            else:
                rest.append(request)
                self._left.append(number)
        if taken:
            self._add(taken, np.array(places, dtype=np.int64))
        return rest

    def _add(self, requests: list[Request], numbers: IntArray) -> None:
        n = len(requests)
        self._numbers.append(numbers)
        found = {
            name: np.fromiter(map(get, requests), np.int64, n)
            for name, get in zip(_INTEGERS, _integers, strict=True)
        }
        for name, base in _DIFFERENCES.items():
            found[name] -= found[base]
        combinations = self._combinations
        found["trait"] = np.fromiter(
            (
                combinations.setdefault(traits, len(combinations))
                for traits in map(_traits, requests)
            ),
            np.int64,
            n,
        )
        for name, values in found.items():
            self._chunks[name].append((_packed(values), n))
        for name, get in zip(_FLOATS, _floats, strict=True):
            reals = np.fromiter(map(get, requests), np.float64, n)
            self._reals[name].append(reals if reals.any() else np.broadcast_to(0.0, n))
        self._ids.append(_numbered([request.id for request in requests]))

    def close(self, requests: list[Request], *, without: Container[str] = ()) -> None:
        """Take over ``requests``, ended or not, and put everything in order."""
        self.sweep(requests, without=without, everything=True)
        numbers = np.concatenate(self._numbers) if self._numbers else np.empty(0, np.int64)
        order = np.argsort(numbers, kind="stable")
        self._size = len(order)
        self._numbers = []
        self._traits = list(self._combinations)
        for name in list(self._chunks):
            chunks = self._chunks.pop(name)
            values = np.empty(self._size, np.int64)
            at = 0
            for column, n in chunks:
                values[at : at + n] = column
                at += n
            self._columns[name] = _packed(values[order]) if self._size else 0
        for name in list(self._reals):
            parts = self._reals.pop(name)
            reals = np.concatenate(parts)[order] if parts else np.empty(0)
            self._floats[name] = reals if reals.any() else np.broadcast_to(0.0, self._size)
        if all(isinstance(ids, np.ndarray) for ids in self._ids):
            self._names = np.concatenate(self._ids)[order] if self._ids else []
        else:
            names = [name for ids in self._ids for name in _texts(ids)]
            self._names = [names[i] for i in order.tolist()]
        self._ids = []

    # ----------------------------------------------------------------------------- reading

    def column(self, name: str) -> IntArray:
        """The numbers that all requests have as ``name``."""
        values: IntArray = np.full(self._size, self._columns[name], dtype=np.int64)
        base = _DIFFERENCES.get(name)
        return values if base is None else values + self._columns[base]

    def coded(self, name: str) -> tuple[list[str], IntArray]:
        """Texts that the requests have as ``name``, and the place of each one's text in them."""
        at = _TRAITS.index(name)
        places: dict[str, int] = {}
        place = [places.setdefault(traits[at], len(places)) for traits in self._traits]
        codes: IntArray = np.array(place, dtype=np.int64)[self.column("trait")]
        return list(places), codes

    def ids(self) -> list[str]:
        """The ids of the requests."""
        return _texts(self._names)

    def take(self, rows: IntArray) -> Iterator[Request]:
        """The requests of these rows, in their order."""
        for start in range(0, len(rows), BLOCK):
            yield from self._made(rows[start : start + BLOCK])

    def _made(self, rows: IntArray) -> Iterator[Request]:
        columns: list[Iterable[Any]] = []
        for name in _INTEGERS:
            whole = self._columns[name]
            part: Any = whole if isinstance(whole, int) else whole[rows].astype(np.int64)
            if name in _DIFFERENCES:
                other = self._columns[_DIFFERENCES[name]]
                part = part + (other if isinstance(other, int) else other[rows].astype(np.int64))
            columns.append(repeat(part) if isinstance(part, int) else part.tolist())
        columns += [self._floats[name][rows].tolist() for name in _FLOATS]
        ids = self._names
        if isinstance(ids, list):
            names = [ids[row] for row in rows.tolist()]
        else:
            names = _texts(ids[rows])
        of = self._columns["trait"]
        traits: Iterable[int] = repeat(of) if isinstance(of, int) else of[rows].tolist()
        for name, trait, *values in zip(names, traits, *columns, strict=False):
            request = Request(name, 0, None, 0, 0)
            for attribute, value in zip((*_INTEGERS, *_FLOATS), values, strict=True):
                setattr(request, attribute, value)
            for attribute, value in zip(_TRAITS, self._traits[trait], strict=True):
                setattr(request, attribute, value)
            yield request

    @property
    def nbytes(self) -> int:
        """Bytes of all columns of a closed archive."""
        columns = [*self._columns.values(), self._names]
        return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))

    def __len__(self) -> int:
        """Number of requests; 0 before the archive is closed."""
        return self._size


def _packed(values: IntArray) -> Column:
    low, high = int(values.min()), int(values.max())
    if low == high:
        return low
    for kind in (np.int8, np.int16, np.int32):
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return values.astype(kind)
    return values


def _numbered(ids: list[str]) -> IntArray | list[str]:
    """The numbers of ids that consist of nothing else but the usual beginning."""
    digits = [name[len(_ID) :] for name in ids if name.startswith(_ID)]
    if len(digits) < len(ids) or not all(
        text.isdecimal() and text.isascii() and len(text) < 10 and (text[0] != "0" or text == "0")
        for text in digits
    ):
        return ids
    return np.array(digits, dtype=np.int32)


def _texts(ids: IntArray | list[str]) -> list[str]:
    return ids if isinstance(ids, list) else [f"{_ID}{number}" for number in ids.tolist()]
