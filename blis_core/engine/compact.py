"""Requests that are kept as columns and made when somebody asks for one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from blis_core.contracts import Request

if TYPE_CHECKING:
    from blis_core.contracts import IntArray

BLOCK = 4096
"""Requests that are made at once."""


class Compact(Sequence[Request]):
    """Columns of requests that behave like a list of them.

    A :class:`Request` is made whenever one is asked for: changing it changes nothing here.
    """

    @abstractmethod
    def column(self, name: str) -> IntArray:
        """The numbers that all requests have as ``name``."""

    @abstractmethod
    def coded(self, name: str) -> tuple[list[str], IntArray]:
        """Texts that the requests have as ``name``, and the place of each one's text in them."""

    @abstractmethod
    def ids(self) -> list[str]:
        """The ids of the requests."""

    @abstractmethod
    def take(self, rows: IntArray) -> Iterator[Request]:
        """The requests of these rows, in their order."""

    def __iter__(self) -> Iterator[Request]:
        return self.take(np.arange(len(self)))

    @overload
    def __getitem__(self, index: int) -> Request: ...
    @overload
    def __getitem__(self, index: slice) -> list[Request]: ...
    def __getitem__(self, index: int | slice) -> Request | list[Request]:
        rows = np.arange(len(self))[index]
        if isinstance(index, slice):
            return list(self.take(rows))
        return next(self.take(np.array([rows])))
