"""Token ids that the prompts of a prefix group begin with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from blis_core.rng import GoRand

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray
    from blis_core.workload.spec import Client

DEFAULT_PREFIX_LENGTH = 50
"""Tokens of a prefix whose length is given as 0 or not at all."""


def draw_prefixes(clients: Iterable[Client], rng: GoRand) -> dict[str, TokenArray]:
    """The prefix of each group, drawn from ``rng`` in the order in which the groups appear.

    The first client of a group decides the length, even by giving none: later ones are not asked
    (reference quirk 04-1), and a length of 0 is the default one (reference quirk 04-2).
    """
    prefixes: dict[str, TokenArray] = {}
    for client in clients:
        group = client.prefix_group
        if group and group not in prefixes:
            length = client.prefix_length
            prefixes[group] = rng.tokens(length if length > 0 else DEFAULT_PREFIX_LENGTH)
    return prefixes
