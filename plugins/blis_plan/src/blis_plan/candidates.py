"""Deployments to choose from: what they are made of, what they cost, whether the model fits."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from blis_core.api import BlisError, RunConfig, UsageError, resolve

if TYPE_CHECKING:
    from blis_core.api import Deployment

MOST_VALUES: Final = 10_000
"""Of a list of numbers; more is a slip of the pen."""


@attrs.frozen(kw_only=True)
class Group:
    """Deployments that differ in nothing but the number of instances."""

    options: Mapping[str, Any] = attrs.field(hash=False)
    """Of ``blis run``, but for the load and ``num_instances``."""
    hardware: str
    tp: int
    max_running: int
    max_tokens: int
    instances: tuple[int, ...]
    """To choose from, ascending."""
    price: float
    """Per GPU and hour; 1 if there are no prices."""
    deployment: Deployment | None = attrs.field(default=None, eq=False, repr=False)
    misfit: str = ""
    """Why it cannot be; empty if it can."""

    def gpus(self, instances: int) -> int:
        """GPUs of so many instances."""
        return instances * self.tp

    def cost(self, instances: int) -> float:
        """Per hour; GPUs if there are no prices."""
        return self.gpus(instances) * self.price


def make_groups(
    base: Mapping[str, Any],
    *,
    hardware: Sequence[str],
    tp: Sequence[int],
    max_running: Sequence[int],
    max_tokens: Sequence[int],
    instances: Sequence[int],
    prices: Mapping[str, float],
    max_gpus: int,
) -> list[Group]:
    """Every combination, in the order of the lists. ``max_gpus`` of 0 is no limit.

    Nothing is simulated here, but model and GPU are looked up: whatever cannot be deployed comes
    back with the reason. BlisError for a GPU without a price, if others have one.
    """
    groups: dict[tuple[Any, ...], Group] = {}
    for choice in itertools.product(hardware, tp, max_running, max_tokens):
        names = ("hardware", "tp", "max_num_running_reqs", "max_num_scheduled_tokens")
        options = {**base, **dict(zip(names, choice, strict=True))}
        group = _resolved(options, tuple(instances), max_gpus)
        if prices and not group.misfit and group.hardware not in prices:
            raise BlisError(
                f"--price: there is none for {group.hardware}; give the price per hour of every GPU"
                " in question, or of none"
            )
        price = prices.get(group.hardware, 1.0)
        key = (group.hardware, group.tp, group.max_running, group.max_tokens)
        groups.setdefault(key, attrs.evolve(group, price=price))
    return list(groups.values())


def _resolved(options: dict[str, Any], instances: tuple[int, ...], max_gpus: int) -> Group:
    group = Group(
        options=options,
        hardware=options["hardware"],
        tp=options["tp"],
        max_running=options["max_num_running_reqs"],
        max_tokens=options["max_num_scheduled_tokens"],
        instances=instances,
        price=1.0,
    )
    try:
        deployment = resolve(RunConfig(**options))
    except BlisError as problem:
        return attrs.evolve(group, misfit=str(problem))
    group = attrs.evolve(
        group,
        hardware=deployment.gpu,
        tp=deployment.tp or 1,
        deployment=deployment,
        misfit=deployment.assumed_blocks,
    )
    if not max_gpus:
        return group
    fitting = tuple(n for n in instances if group.gpus(n) <= max_gpus)
    if not fitting:
        smallest = group.gpus(instances[0])
        reason = f"{instances[0]} instances take {smallest} GPUs; --max-gpus is {max_gpus}"
        return attrs.evolve(group, misfit=group.misfit or reason)
    return attrs.evolve(group, instances=fitting)


# ---------------------------------------------------------------------------------------- parsing


def parse_numbers(flag: str, text: str) -> tuple[int, ...]:
    """Ascending numbers from 1,2,8 or 1-16 or both. UsageError otherwise."""
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", part)
        low = int(found[1]) if found else 0
        high = int(found[2]) if found and found[2] else low
        if low < 1 or high < low:
            raise UsageError(
                f"{flag} {text}: {part.strip()!r} is no number from 1 on and no range; write 1,2,8"
                " or 1-16"
            )
        if high - low >= MOST_VALUES:
            raise UsageError(f"{flag} {text}: more than {MOST_VALUES:,} numbers")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def parse_names(flag: str, text: str) -> tuple[str, ...]:
    """Names without repetitions. UsageError for an empty one."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"{flag} {text!r}: a name is empty; write H100,L40S")
    return tuple(dict.fromkeys(names))


def parse_prices(text: str) -> dict[str, float]:
    """GPU = price, from H100=2.5,L40S=1.1. UsageError otherwise."""
    prices: dict[str, float] = {}
    for part in text.split(",") if text else []:
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            price = float(value)
        except ValueError:
            price = math.nan
        if not name or not (math.isfinite(price) and price > 0):
            raise UsageError(f"--price {part.strip()!r}: write GPU=PRICE above 0, as in H100=2.5")
        if name in prices:
            raise UsageError(f"--price {name}: is given twice; remove one")
        prices[name] = price
    return prices
