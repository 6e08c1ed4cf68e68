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

    import numpy.typing as npt

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
        self._numbers: list[npt.NDArray[Any]] = []  # of those taken over, chunk by chunk
        self._chunks: dict[str, list[Column]] = {name: [] for name in (*_INTEGERS, "trait")}
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
            self._add(taken, np.array(places))
        return rest

    def _add(self, requests: list[Request], numbers: IntArray) -> None:
        n = len(requests)
        self._numbers.append(numbers.astype(_smallest(0, self._seen)))
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
            self._chunks[name].append(_packed(values))
        for name, get in zip(_FLOATS, _floats, strict=True):
            reals = np.fromiter(map(get, requests), np.float64, n)
            self._reals[name].append(reals if reals.any() else np.broadcast_to(0.0, n))
        self._ids.append(_numbered([request.id for request in requests]))

    def close(self, requests: list[Request], *, without: Container[str] = ()) -> None:
        """Take over ``requests``, ended or not, and put everything in order."""
        self.sweep(requests, without=without, everything=True)
        places = self._places()
        self._numbers = []
        self._size = size = sum(map(len, places))
        self._traits = list(self._combinations)
        for name in list(self._chunks):  # one by one, lest all be there twice
            self._columns[name] = _spread(self._chunks.pop(name), places, size)
        for name in list(self._reals):
            parts = self._reals.pop(name)
            reals: FloatArray = np.broadcast_to(0.0, size)
            if any(part.any() for part in parts):
                reals = np.empty(size)
                for part, place in zip(parts, places, strict=True):
                    reals[place] = part
            self._floats[name] = reals
        if self._ids and all(isinstance(ids, np.ndarray) for ids in self._ids):
            numbers: npt.NDArray[Any] = np.empty(size, np.int32)
            for ids, place in zip(self._ids, places, strict=True):
                numbers[place] = ids
            self._names = numbers
        else:
            names = [""] * size
            for ids, place in zip(self._ids, places, strict=True):
                for row, name in zip(place.tolist(), _texts(ids), strict=True):
                    names[row] = name
            self._names = names
        self._ids = []

    def _places(self) -> list[npt.NDArray[Any]]:
        """The rows of all chunks: their requests in the order in which they came."""
        if sum(map(len, self._numbers)) == self._seen:
            return self._numbers
        present = np.zeros(self._seen, dtype=bool)  # some have left no record
        for numbers in self._numbers:
            present[numbers] = True
        row = np.cumsum(present) - 1
        return [row[numbers] for numbers in self._numbers]

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


def _smallest(low: int, high: int) -> type[np.signedinteger[Any]]:
    """The smallest type that holds these."""
    for kind in (np.int8, np.int16, np.int32):
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return kind
    return np.int64


def _packed(values: IntArray) -> Column:
    low, high = int(values.min()), int(values.max())
    return low if low == high else values.astype(_smallest(low, high), copy=False)


def _spread(chunks: list[Column], places: list[npt.NDArray[Any]], size: int) -> Column:
    """One column of ``size`` rows of its chunks, each with its rows."""
    if not chunks:
        return 0
    low = min(chunk if isinstance(chunk, int) else int(chunk.min()) for chunk in chunks)
    high = max(chunk if isinstance(chunk, int) else int(chunk.max()) for chunk in chunks)
    if low == high:
        return low
    values = np.empty(size, dtype=_smallest(low, high))
    for chunk, place in zip(chunks, places, strict=True):
        values[place] = chunk
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
