"""The file of ``replay --results-path``, which calibrate compares with the recorded trace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blis_core.results.model import Results

_ID = re.compile(r"request_([+-]?[0-9]+)")


def write(path: str, results: Results) -> None:
    """Write the file, whole or not at all. BlisError if that is not possible."""
    from blis_core.files import atomic_write

    atomic_write(path, render(results))


def render(results: Results) -> str:
    """One object per completed request of the trace, by number; times in us.

    Follow-up requests of sessions are not rows of the trace and are left out.
    """
    rows = []
    for request in results.requests:
        match = _ID.fullmatch(request.id)
        if match and request.ttft >= 0 and request.e2e >= 0:
            rows.append((int(match[1]), request))
    rows.sort(key=lambda row: row[0])
    objects = [
        "  {\n"
        f'    "request_id": {number},\n'
        f'    "ttft_us": {r.ttft},\n'
        f'    "e2e_us": {r.e2e},\n'
        f'    "input_tokens": {r.prompt_len},\n'
        f'    "output_tokens": {r.output_len}\n'
        "  }"
        for number, r in rows
    ]
    return "[\n" + ",\n".join(objects) + "\n]" if objects else "[]"
