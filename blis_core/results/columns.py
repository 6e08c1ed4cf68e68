"""The records of a run as numpy columns, so that statistics cost no Python loop per figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from blis_core.results.request_list import coded, column, joined

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
        return cls(
            requests,
            column(requests, "ttft"),
            column(requests, "e2e"),
            column(requests, "scheduling_delay"),
            column(requests, "output_len"),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Columns]) -> Columns:
        """The rows of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of([])
        return cls(
            joined([part.requests for part in parts]),
            np.concatenate([part.ttft for part in parts]),
            np.concatenate([part.e2e for part in parts]),
            np.concatenate([part.scheduling_delay for part in parts]),
            np.concatenate([part.output_len for part in parts]),
        )

    def groups(self, name: str, unnamed: str = "") -> dict[str, IntArray]:
        """Row numbers by what the requests have as ``name``, in byte order.

        ``unnamed`` stands for an empty text.
        """
        texts, codes = coded(self.requests, name)
        if len(texts) == 1:  # the usual case: everything in one group
            return {texts[0] or unnamed: np.arange(len(codes))}
        members: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            members.setdefault(text or unnamed, []).append(place)
        return {
            text: np.flatnonzero(np.isin(codes, places)) for text, places in sorted(members.items())
        }
