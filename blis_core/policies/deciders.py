"""Built-in deciders: which requests are disaggregated.

A decider is built as ``factory(PDDeciderSetup)``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar

from blis_core.contracts import FleetView, PDDecider, PDDeciderSetup, Request


class Never(PDDecider):
    """All requests stay in one piece."""

    def __init__(self, setup: PDDeciderSetup) -> None:
        pass

    def disaggregates(self, request: Request, fleet: FleetView) -> bool:
        """No, never."""
        return False


class Always(PDDecider):
    """All requests go through the pools."""

    def __init__(self, setup: PDDeciderSetup) -> None:
        pass

    def disaggregates(self, request: Request, fleet: FleetView) -> bool:
        """Yes, always."""
        return True


class PrefixThreshold(PDDecider):
    """Requests with many prompt tokens that no earlier prompt began with.

    Remembers the block keys of all prompts that were routed, whatever became of them, the
    ``capacity`` most recently used ones.
    """

    capacity: ClassVar[int] = 10_000

    def __init__(self, setup: PDDeciderSetup) -> None:
        self._threshold = setup.prefix_threshold
        self._block_size = setup.block_size
        self._recent: OrderedDict[int, None] = OrderedDict()

    def disaggregates(self, request: Request, fleet: FleetView) -> bool:
        """Whether more than the threshold of tokens lie behind the known beginning."""
        if request.prompt_len == 0:
            return False
        recent, known = self._recent, 0
        for key in fleet.prompt_keys(request):
            if key not in recent:
                break
            known += 1
        return request.prompt_len - known * self._block_size > self._threshold

    def routed(self, request: Request, fleet: FleetView) -> None:
        """Remember the prompt's blocks, from the first to the last."""
        recent = self._recent
        for key in fleet.prompt_keys(request):
            if key in recent:
                recent.move_to_end(key)
                continue
            if len(recent) >= self.capacity:
                recent.popitem(last=False)
            recent[key] = None
