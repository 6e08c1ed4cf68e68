"""How much each SLO class matters to admission and to the gateway."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_PRIORITIES: Mapping[str, int] = {
    "critical": 4,
    "standard": 3,
    "batch": -1,
    "sheddable": -2,
    "background": -3,
}
OTHER_PRIORITY = 3
"""Of requests without a class, and of classes that nobody has described."""


class SloPriorities:
    """Priority by SLO class; higher matters more, and below 0 a class is sheddable.

    This is not the priority by which an instance orders its wait queue.
    """

    def __init__(self, overrides: Mapping[str, int] | None = None) -> None:
        """``overrides`` replace defaults class by class, and may add classes."""
        self.table = {**DEFAULT_PRIORITIES, **(overrides or {})}

    def of(self, slo_class: str) -> int:
        """Priority of a class, which is looked up exactly as the request spells it.

        So an override of ``standard`` does not reach requests that name no class.
        """
        return self.table.get(slo_class, OTHER_PRIORITY)

    def sheddable(self, slo_class: str) -> bool:
        """Whether requests of the class may be refused for the good of others."""
        return self.of(slo_class) < 0
