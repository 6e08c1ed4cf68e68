"""What a simulation said of each request: the file that ``replay --results-path`` writes."""

from __future__ import annotations

import json
import math
import os
from typing import Any, NamedTuple

from blis_core.errors import BlisError
from blis_core.files import read_bytes

_INT64 = range(-(2**63), 2**63)


class SimulatedRequest(NamedTuple):
    """One completed request of a simulation; the fields are the keys of the file."""

    request_id: int = 0
    ttft_us: float = 0.0
    """Time to first token at the server."""
    e2e_us: float = 0.0
    """End-to-end time at the server."""
    input_tokens: int = 0
    """Length of the whole prompt, prefix included."""
    output_tokens: int = 0


_WHOLE = frozenset(("request_id", "input_tokens", "output_tokens"))


def read_simulated(path: str | os.PathLike[str]) -> list[SimulatedRequest]:
    """The requests in the file ``path``; BlisError, naming place and key, for anything else."""
    return parse_simulated(read_bytes(path), os.fspath(path))


def parse_simulated(content: bytes, source: str) -> list[SimulatedRequest]:
    """The requests in a JSON array of objects; there must be one.

    Keys match whatever their case, unknown ones are ignored, missing ones and nulls are 0.
    """
    try:
        document = json.loads(
            content.decode("utf-8", "replace"),
            object_pairs_hook=_Pairs,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as problem:
        raise BlisError(f"{source}: not valid JSON: {problem}") from None
    if document is not None and (not isinstance(document, list) or isinstance(document, _Pairs)):
        raise BlisError(f"{source}: must be a list of results, one object per request")
    if not document:
        raise BlisError(f"{source}: holds no results, so there is nothing to compare with")
    return [_request(item, f"{source}: [{place}]") for place, item in enumerate(document)]


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object in order, repetitions included."""


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number in JSON")


def _request(item: Any, where: str) -> SimulatedRequest:
    if item is None:
        return SimulatedRequest()
    if not isinstance(item, _Pairs):
        raise BlisError(f"{where}: must be an object")
    values: dict[str, Any] = {}
    for key, value in item:
        name = key.lower()
        if name in SimulatedRequest._fields and value is not None:
            values[name] = _number(value, name in _WHOLE, f"{where}.{name}")
    return SimulatedRequest(**values)


def _number(value: Any, whole: bool, where: str) -> float:
    if isinstance(value, int) and not isinstance(value, bool):
        if not whole:
            return _float(value, where)
        if value in _INT64:
            return value
    elif isinstance(value, float) and not whole:
        return _float(value, where)
    kind = "a whole number of at most 64 bits" if whole else "a number"
    shown = f"{value!r:.40}" if isinstance(value, (int, float, str)) else type(value).__name__
    raise BlisError(f"{where}: must be {kind}, not {shown}")


def _float(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise BlisError(f"{where}: too large for a double")
    return number
