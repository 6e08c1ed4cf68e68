"""What a simulated server makes of texts: token ids of prompts, and the words of answers.

A word is a token (or so many), whatever a real tokenizer would say. The same word always has the
same id, so prompts with equal beginnings share KV blocks, and so does a conversation that is sent
back with its answers.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from blis_observe.words import WORDS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = npt.NDArray[np.int32]

_IDS = 2**31 - 1
_OUTPUT = tuple(f"{word} " for word in WORDS)


class Tokenizer:
    """Turns words into token ids, ``tokens_per_word`` (> 0) for each."""

    def __init__(self, tokens_per_word: float) -> None:
        self._tokens_per_word = tokens_per_word

    def ids(self, text: str) -> Ids:
        """Token ids of a text, int32; their number is that of the words, scaled and rounded."""
        import numpy as np

        crc32 = zlib.crc32
        of_words: Ids = np.array(
            [crc32(word.encode("utf-8", "replace")) % _IDS for word in text.split()], dtype=np.int32
        )
        if self._tokens_per_word == 1.0:
            return of_words
        count = int(len(of_words) * self._tokens_per_word + 0.5)
        places = (np.arange(count) / self._tokens_per_word).astype(np.int64)
        ids: Ids = of_words[np.minimum(places, max(0, len(of_words) - 1))]
        return ids


class Text:
    """The words of one answer: the same prompt is answered with the same ones."""

    __slots__ = ("_start", "_stride")

    def __init__(self, prompt: Ids) -> None:
        seed = zlib.crc32(prompt.tobytes())
        self._start = seed % 100
        self._stride = (1, 3, 7, 9, 11, 13, 17, 19)[seed // 100 % 8]  # no common factor with 100

    def words(self, first: int, end: int) -> Sequence[str]:
        """The words of the tokens ``first`` to ``end - 1``, each with a blank behind it."""
        start, stride = self._start, self._stride
        return [_OUTPUT[(start + stride * place) % 100] for place in range(first, end)]

    def ids(self, count: int) -> Ids:
        """Their token ids."""
        import numpy as np

        by_word = np.array([zlib.crc32(word.encode()) % _IDS for word in WORDS], dtype=np.int32)
        ids: Ids = by_word[(self._start + self._stride * np.arange(count)) % 100]
        return ids


class Lengths:
    """Lengths at which answers end by themselves; always the same ones for the same seed."""

    def __init__(self, mean: int, stdev: int, seed: int) -> None:
        self._mean, self._stdev = mean, stdev
        self._random = random.Random(seed)

    def draw(self) -> int | None:
        """The next length, at least 1; None = answers do not end by themselves."""
        if not self._mean:
            return None
        return max(1, round(self._random.gauss(self._mean, self._stdev)))
