"""The records of a run: a list of requests, or columns of numbers that behave like one.

The functions here read either without making objects where there are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from blis_core.contracts import Request
from blis_core.engine.compact import BLOCK, Compact

if TYPE_CHECKING:
    import pandas as pd

    from blis_core.contracts import IntArray
    from blis_core.results.arrays import RequestArrays


class _AsColumns(Sequence[Request]):
    """Records that also come as arrays."""

    def arrays(self) -> RequestArrays:
        """The requests as numpy arrays, made anew by each call."""
        from blis_core.results.arrays import arrays_of

        return arrays_of(self)

    def frame(self) -> pd.DataFrame:
        """The requests as a pandas frame, one row each; BlisError if pandas is not installed.

        Columns are those of :class:`RequestArrays`; names that recur are categories.
        """
        try:
            import pandas as pd
        except ImportError:
            from blis_core.errors import BlisError

            raise BlisError(
                "frame: pandas is not installed; pip install pandas, or use arrays(), which needs"
                " numpy only"
            ) from None
        frame = pd.DataFrame(self.arrays().columns())
        recurring = ("state", "instance", "slo_class", "tenant", "client", "model")
        return frame.astype(dict.fromkeys(recurring, "category"))


class RequestList(list[Request], _AsColumns):
    """The records of a run: a list of :class:`Request`, which also comes as columns."""


class CompactRequests(_AsColumns, Compact):
    """The same for runs of many requests, which are kept as numbers.

    A :class:`Request` is made whenever one is asked for: changing it changes nothing here.
    """

    def __init__(self, parts: Sequence[Sequence[Request]]) -> None:
        """``parts`` are archives of ended requests (see engine.archive), or lists."""
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts], dtype=np.int64)

    def column(self, name: str) -> IntArray:
        """The numbers that all requests have as ``name``."""
        return np.concatenate([column(part, name) for part in self._parts])

    def coded(self, name: str) -> tuple[list[str], IntArray]:
        """Texts that the requests have as ``name``, and the place of each one's text in them."""
        places: dict[str, int] = {}
        codes = []
        for part in self._parts:
            texts, code = coded(part, name)
            place = [places.setdefault(text, len(places)) for text in texts]
            codes.append(np.array(place, dtype=np.int64)[code])
        return list(places), np.concatenate(codes)

    def ids(self) -> list[str]:
        """The ids of the requests."""
        return [name for part in self._parts for name in ids(part)]

    def take(self, rows: IntArray) -> Iterator[Request]:
        """The requests of these rows, in their order."""
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            owners = np.searchsorted(self._ends, block, side="right")
            makers = {}
            for owner in np.unique(owners).tolist():
                part, ends = self._parts[owner], int(self._ends[owner])
                makers[owner] = take(part, block[owners == owner] - (ends - len(part)))
            for owner in owners.tolist():
                yield next(makers[owner])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __iter__(self) -> Iterator[Request]:
        return chain.from_iterable(self._parts)


def joined(parts: Sequence[Sequence[Request]]) -> Sequence[Request]:
    """All records of the parts, in order; a list if none of them is compact."""
    if any(isinstance(part, Compact) for part in parts):
        return CompactRequests(parts)
    return list(chain.from_iterable(parts))


def column(requests: Sequence[Request], name: str) -> IntArray:
    """The numbers that all of the requests have as ``name``."""
    if isinstance(requests, Compact):
        return requests.column(name)
    return np.fromiter(map(attrgetter(name), requests), np.int64, len(requests))


def coded(requests: Sequence[Request], name: str) -> tuple[list[str], IntArray]:
    """Texts that the requests have as ``name``, and the place of each one's text in them."""
    if isinstance(requests, Compact):
        return requests.coded(name)
    values = list(map(attrgetter(name), requests))
    texts = list(dict.fromkeys(values))
    if len(texts) == 1:  # the usual case
        return texts, np.zeros(len(values), dtype=np.int64)
    place = {text: i for i, text in enumerate(texts)}
    return texts, np.fromiter(map(place.__getitem__, values), np.int64, len(values))


def ids(requests: Sequence[Request]) -> list[str]:
    """The ids of the requests."""
    if isinstance(requests, Compact):
        return requests.ids()
    return [request.id for request in requests]


def take(requests: Sequence[Request], rows: IntArray) -> Iterator[Request]:
    """The requests of these rows, in their order."""
    if isinstance(requests, Compact):
        return requests.take(rows)
    return map(requests.__getitem__, rows.tolist())


def in_order(requests: Sequence[Request]) -> Iterator[Request]:
    """The requests by time of arrival, equal ones by id."""
    arrivals = column(requests, "arrival")
    if not isinstance(requests, Compact):
        if (arrivals[1:] > arrivals[:-1]).all():  # as they came, usually
            yield from requests
        else:
            yield from sorted(requests, key=attrgetter("arrival", "id"))
        return
    same: list[Request] = []
    for request in take(requests, np.argsort(arrivals, kind="stable")):
        if same and request.arrival != same[0].arrival:
            yield from sorted(same, key=attrgetter("id"))
            same.clear()
        same.append(request)
    yield from sorted(same, key=attrgetter("id"))
