"""Prompts made of words: a request's token ids choose the words, so equal beginnings stay equal.

A server counts tokens in its own way, so the number of words is scaled by the tokens per word that
it was measured to see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from blis_core.api import GoRand

if TYPE_CHECKING:
    from blis_core.api import Request

WORDS = (
    "amber anchor apple arrow autumn basket beacon bishop blanket border "
    "bottle bridge butter candle canyon carpet castle cedar cherry circle "
    "clover cobalt copper corner cotton cradle desert donkey dragon eagle "
    "ember engine fabric falcon feather fiddle flower forest fountain garden "
    "ginger glacier guitar hammer harbor hazel helmet hollow honey island "
    "ivory jacket jungle kettle kitchen ladder lantern lemon library lizard "
    "magnet maple marble meadow mirror monkey mountain needle nickel oak "
    "ocean olive orange orchid paddle paper pebble pepper pigeon pillow "
    "planet pocket quartz rabbit ribbon river saddle salmon shadow silver "
    "spider sugar summer temple thunder timber tunnel velvet walnut winter"
).split()
"""The vocabulary. Its order is part of the contract: a token id chooses by its value mod 100."""

CALIBRATION_PROMPT = " ".join(WORDS)
"""A prompt of each word once; a server's count of its tokens gives the tokens per word."""

_SPACED = tuple(f"{word} " for word in WORDS)
_COUNT = len(WORDS)


def usable_ratio(prompt_tokens: int) -> float | None:
    """Tokens per word if the calibration prompt has ``prompt_tokens``; None if unlikely."""
    ratio = prompt_tokens / _COUNT
    return ratio if 1.0 <= ratio <= 3.0 else None


def fnv1a_64(data: bytes) -> int:
    """The FNV-1a hash of ``data``, 64 bits."""
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


class PromptWriter:
    """Writes the prompts of one run.

    ``prefix_lengths`` are tokens by group; ``tokens_per_word`` of 0 or less counts as 1.
    """

    def __init__(
        self, seed: int, prefix_lengths: Mapping[str, int], tokens_per_word: float = 1.0
    ) -> None:
        self._tokens_per_word = tokens_per_word if tokens_per_word > 0 else 1.0
        self._prefixes = {
            group: (self._prefix(seed, group, length), length)
            for group, length in prefix_lengths.items()
        }

    def prompt(self, request: Request) -> str:
        """The text of a request; its ``tokens`` must be there."""
        tokens = request.tokens
        assert tokens is not None, "a prompt is made from the request's tokens"
        n = request.prompt_len
        known = self._prefixes.get(request.prefix_group)
        if known is None:
            return self._words(tokens[:n], self._words_for(n))
        prefix, length = known
        suffix = max(1, n - length)
        return prefix + self._words(tokens[max(0, n - suffix) : n], self._words_for(suffix))

    def _words_for(self, tokens: int) -> int:
        """How many words make about so many tokens; at least one."""
        # Go rounds halves away from zero, Python to even
        return max(1, int(tokens / self._tokens_per_word + 0.5))

    def _words(self, ids: object, count: int) -> str:
        """``count`` words, each with a blank behind it; where there is no id the place decides."""
        import numpy as np

        chosen = (np.asarray(ids)[:count] % _COUNT).tolist()
        chosen += [place % _COUNT for place in range(len(chosen), count)]
        return "".join([_SPACED[index] for index in chosen])

    def _prefix(self, seed: int, group: str, length: int) -> str:
        """The text that the prompts of a group begin with."""
        start = fnv1a_64((seed % 2**64).to_bytes(8, "little") + group.encode())
        random = GoRand(start - 2**64 if start >= 2**63 else start)
        return "".join(_SPACED[random.intn(_COUNT)] for _ in range(self._words_for(length)))
