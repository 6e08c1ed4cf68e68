"""Distributions of think times, written as text: ``lognormal:mu=1.5,sigma=0.6,max=30s``.

* ``constant:value=TIME``
* ``lognormal:mu=M,sigma=S``, optionally with ``min=TIME`` and ``max=TIME`` (0 = none); ``mu`` and
  ``sigma`` are mean and standard deviation of the logarithm of the time in seconds.

A TIME is a number with a unit (``us``, ``ms`` or ``s``); without one it is in ms.
"""

from __future__ import annotations

import math

from blis_core.contracts import LengthSampler, LengthSetup
from blis_core.errors import BlisError
from blis_core.go_text import parse_float
from blis_core.workload.lengths import ConstantLengths, LognormalLengths
from blis_core.workload.numeric import trunc_int64

_UNITS = (("us", 1.0), ("ms", 1e3), ("s", 1e6))
"""Suffixes and their us, in the order in which they are tried."""


def parse_think_time(text: str) -> LengthSampler:
    """A sampler of think times in us, at least 1. BlisError that names ``text`` if malformed.

    A constant draws nothing, a log-normal time takes one normal draw.
    """
    try:
        return _parse(text)
    except ValueError as problem:
        raise BlisError(f"think time distribution {text!r}: {problem}") from None


def _parse(text: str) -> LengthSampler:
    kind, colon, rest = text.partition(":")
    if not colon or kind not in ("constant", "lognormal"):
        raise ValueError("must begin with 'constant:' or 'lognormal:'")
    params = _parameters(rest)
    if kind == "constant":
        return ConstantLengths(LengthSetup(params={"value": float(_time(params, "value"))}))
    mu, sigma = _number(params, "mu"), _number(params, "sigma")
    if sigma <= 0:
        raise ValueError(f"sigma must be greater than 0, not {sigma}")
    low, high = (_time(params, name) if name in params else 0 for name in ("min", "max"))
    if 0 < high < low:
        raise ValueError(f"min ({low} us) must not exceed max ({high} us)")
    return LognormalLengths(
        LengthSetup(
            params={
                "mu": mu + math.log(1e6),
                "sigma": sigma,
                "min": float(low),
                "max": float(high),
            }
        )
    )


def _parameters(text: str) -> dict[str, str]:
    """The ``key=value`` items of ``text``; keys that nobody asks for do no harm."""
    params: dict[str, str] = {}
    for item in map(str.strip, text.split(",")):
        if not item:
            continue
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"{item!r} is not of the form key=value")
        if key in params:
            raise ValueError(f"{key} is given twice")
        params[key] = value
    return params


def _text(params: dict[str, str], name: str) -> str:
    if name not in params:
        raise ValueError(f"{name} is missing")
    return params[name]


def _number(params: dict[str, str], name: str) -> float:
    value = parse_float(_text(params, name))
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value}")
    return value


def _time(params: dict[str, str], name: str) -> int:
    """A time in whole us, truncated."""
    text, factor = _text(params, name), 1e3
    for suffix, us in _UNITS:
        if text.endswith(suffix):
            text, factor = text.removesuffix(suffix), us
            break
    value = parse_float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite time of at least 0, not {value}")
    return trunc_int64(value * factor)
