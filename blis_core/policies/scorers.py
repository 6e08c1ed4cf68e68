"""Scorers of the weighted routing policy: names with weights, as users write them."""

from __future__ import annotations

from blis_core.contracts import Scorer
from blis_core.errors import BlisError
from blis_core.go_text import parse_float
from blis_core.option import finite_positive
from blis_core.plugins import get_registry

WeightedNames = tuple[tuple[str, float], ...]
"""(name, weight) in configured order; weights are above 0, not normalised."""

DEFAULT_SCORERS: WeightedNames = (
    ("precise-prefix-cache", 2.0),
    ("queue-depth", 1.0),
    ("kv-utilization", 1.0),
)
"""Profile if the user names no scorers."""


def parse_scorers(text: str, flag: str = "--routing-scorers") -> WeightedNames:
    """``name:weight,name:weight``. BlisError for what is malformed, listed twice or unknown."""
    pairs: list[tuple[str, float]] = []
    for item in text.split(","):
        name, colon, weight_text = (part.strip() for part in item.partition(":"))
        if not colon or not name:
            raise BlisError(f"{flag}: {item.strip()!r} is not of the form name:weight")
        try:
            weight = parse_float(weight_text)
        except ValueError:
            weight = float("nan")
        try:
            check_scorer(name, weight, [known for known, _ in pairs])
        except BlisError as problem:
            raise BlisError(f"{flag}: {problem}") from None
        pairs.append((name, weight))
    return tuple(pairs)


def check_scorer(name: str, weight: float, before: list[str]) -> None:
    """BlisError if a scorer is unknown, among those ``before`` it, or has no positive weight."""
    get_registry().get("scorer", name)
    if name in before:
        raise BlisError(f"scorer {name!r} is listed twice")
    if not finite_positive(weight):
        raise BlisError(f"the weight of {name} must be a finite number greater than 0")


def make_scorers(names: WeightedNames) -> tuple[tuple[Scorer, float], ...]:
    """New scorers with their weights."""
    registry = get_registry()
    return tuple((registry.create("scorer", name), weight) for name, weight in names)
