"""Searches groups of deployments for the fewest instances of each that carry the load.

More instances carry no less, so a group takes a bisection. Groups advance in rounds, one trial
each; between rounds a group is given up if whatever it may still turn out to be is dominated. It
then costs at least as much as some finished group and has at most its headroom. Its cost is bounded
by the fewest instances that are still possible; its headroom by that of the fewest which carry the
load so far, plus :data:`SLACK` for chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from blis_plan.candidates import Group
from blis_plan.probing import Probe

SLACK: Final = 0.01
"""How much smaller the headroom of more instances may come out by chance."""

Attempt = tuple[Group, int]
"""A group and a number of instances."""
Attempts = Callable[[Sequence[Attempt]], Sequence[Probe | str]]
"""Tries deployments, all at once if it likes; a text says why one of them could not be tried."""


@attrs.define(eq=False)
class Progress:
    """What is known of a group."""

    group: Group
    probes: dict[int, Probe] = attrs.field(factory=dict)
    """By number of instances."""
    low: int = -1
    """Place of the most instances that do not carry the load; -1 = none is known."""
    high: int | None = None
    """Place of the fewest that do; None = none is known."""
    error: str = ""
    """Why it cannot be tried."""
    beaten_by: Progress | None = None
    """Why it was given up."""

    @property
    def following(self) -> int | None:
        """The place to try next; None = the search is over."""
        if self.error or self.beaten_by is not None:
            return None
        if self.high is None:
            last = len(self.group.instances) - 1
            return last if self.low < last else None
        return (self.low + self.high) // 2 if self.high - self.low > 1 else None

    @property
    def instances(self) -> int | None:
        """The fewest instances that carry the load; None = not known, or there are none."""
        if self.high is None or self.error or self.beaten_by is not None:
            return None
        return self.group.instances[self.high] if self.following is None else None

    @property
    def best(self) -> Probe | None:
        """The trial with so many instances."""
        return None if self.instances is None else self.probes[self.instances]

    @property
    def last(self) -> Probe | None:
        """The trial with the most instances."""
        return self.probes[max(self.probes)] if self.probes else None

    @property
    def cost(self) -> float:
        """Of :attr:`instances`."""
        assert self.instances is not None
        return self.group.cost(self.instances)

    @property
    def least_cost(self) -> float:
        """The cost of the fewest instances that are still possible."""
        return self.group.cost(self.group.instances[self.low + 1])

    @property
    def most_headroom(self) -> float:
        """The most headroom that is still possible."""
        assert self.high is not None
        return self.probes[self.group.instances[self.high]].headroom + SLACK

    def note(self, place: int, found: Probe | str) -> None:
        """Take in the outcome of a trial."""
        if isinstance(found, str):
            self.error = found
            return
        self.probes[self.group.instances[place]] = found
        if found.met:
            self.high = place
        else:
            self.low = place


def search(
    groups: Sequence[Group],
    attempts: Attempts,
    *,
    prune: bool = True,
    on_round: Callable[[int, int], None] = lambda *_: None,
) -> list[Progress]:
    """What becomes of every group. ``on_round(number, trials)`` is called before each round."""
    every = [Progress(group, error=group.misfit) for group in groups]
    number = 0
    while True:
        due = [(p, place) for p in every if (place := p.following) is not None]
        if not due:
            return every
        number += 1
        on_round(number, len(due))
        found = attempts([(p.group, p.group.instances[place]) for p, place in due])
        for (progress, place), outcome in zip(due, found, strict=True):
            progress.note(place, outcome)
        if prune:
            _prune(every)


def _prune(every: Sequence[Progress]) -> None:
    finished = [p for p in every if p.best is not None]
    for progress in every:
        if progress.following is None or progress.high is None:
            continue
        for other in finished:
            assert other.best is not None
            bounds = (progress.least_cost, progress.most_headroom)
            if _dominates((other.cost, other.best.headroom), bounds):
                progress.beaten_by = other
                break


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether (cost, headroom) ``one`` is no worse in both and better in one."""
    return one[0] <= other[0] and one[1] >= other[1] and one != other


def front(every: Sequence[Progress]) -> list[Progress]:
    """Groups that no other one dominates in cost and headroom, the cheapest first."""
    found = [(p, (p.cost, p.best.headroom)) for p in every if p.best is not None]
    best = [p for p, at in found if not any(_dominates(other, at) for _, other in found)]
    return sorted(best, key=lambda p: (p.cost, -(p.best.headroom if p.best else 0.0)))
