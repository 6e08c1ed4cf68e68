"""The records of a run as numpy columns, so that statistics cost no Python loop per figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blis_core.contracts import IntArray, Request


@attrs.frozen(eq=False)
class Columns:
    """One row per record. Times are int64 us, -1 = not recorded."""

    requests: Sequence[Request]
    ttft: IntArray
    e2e: IntArray
    scheduling_delay: IntArray
    output_len: IntArray

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Columns:
        """The columns of some records."""
        n = len(requests)
        return cls(
            requests,
            np.fromiter((r.ttft for r in requests), np.int64, n),
            np.fromiter((r.e2e for r in requests), np.int64, n),
            np.fromiter((r.scheduling_delay for r in requests), np.int64, n),
            np.fromiter((r.output_len for r in requests), np.int64, n),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Columns]) -> Columns:
        """The rows of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of([])
        return cls(
            [request for part in parts for request in part.requests],
            np.concatenate([part.ttft for part in parts]),
            np.concatenate([part.e2e for part in parts]),
            np.concatenate([part.scheduling_delay for part in parts]),
            np.concatenate([part.output_len for part in parts]),
        )

    def groups(self, names: Sequence[str]) -> dict[str, IntArray]:
        """Row numbers by name (``names`` has one per row), in byte order of the names."""
        found = sorted(set(names))
        if len(found) == 1:  # the usual case: everything in one group
            return {found[0]: np.arange(len(names))}
        number = {name: i for i, name in enumerate(found)}
        codes = np.fromiter((number[name] for name in names), np.int64, len(names))
        return {name: np.flatnonzero(codes == i) for name, i in number.items()}
