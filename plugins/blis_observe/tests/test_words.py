"""Prompts: the vocabulary, prefixes and suffixes, and the tokens per word."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from blis_core.api import Request
from blis_observe.words import CALIBRATION_PROMPT, WORDS, PromptWriter, fnv1a_64, usable_ratio

PLACES = {word: place for place, word in enumerate(WORDS)}
VECTORS = json.loads((Path(__file__).parent / "data" / "observe_prompts.json").read_text())


def request(ids, group="", n=None):
    tokens = np.array([*ids, 7, 7, 7], dtype=np.int32)  # three of output behind the prompt
    n = len(ids) if n is None else n
    return Request("r", 0, tokens, n, 3, prefix_group=group)


def places(text):
    """Indices of the words of a text in which each word has one blank behind it."""
    assert text.endswith(" ")
    return [PLACES[word] for word in text[:-1].split(" ")]


def test_vocabulary():
    assert len(WORDS) == len(set(WORDS)) == 100
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)
    assert CALIBRATION_PROMPT.split(" ") == WORDS


def test_fnv():
    assert fnv1a_64(b"") == 14695981039346656037
    assert fnv1a_64(b"a") == 0xAF63DC4C8601EC8C


NAMED = [case for case in VECTORS["prefix_words"] if case["group"]]
"""A request without a group has no prefix."""


@pytest.mark.parametrize("case", NAMED, ids=str)
def test_prefixes(case):
    group = case["group"]
    length = case["stored_length"]
    writer = PromptWriter(case["seed"], {group: length}, case["tokens_per_word"])
    # a prompt as long as the prefix still has one word of its own
    prompt = writer.prompt(request(range(length), group))
    assert places(prompt)[:-1] == case["indices"]


@pytest.mark.parametrize(
    ("n", "expected"),
    [(20, [12, 13, 14, 15, 16]), (12, [11]), (0, [0])],
)
def test_suffix(n, expected):
    prefix = [41, 23, 28, 57, 91, 79, 2, 13]
    writer = PromptWriter(42, {"g": 12}, 1.6)
    ids = range(1000, 1000 + n)
    assert places(writer.prompt(request(ids, "g"))) == prefix + expected
    assert places(writer.prompt(request(range(1000, 1020), "other"))) == list(range(13))


def test_any_id_has_a_word():
    writer = PromptWriter(42, {})
    ids = [0, 99, 100, 250, -1, -100, -101, 128000]
    assert places(writer.prompt(request(ids))) == [0, 99, 0, 50, 99, 0, 99, 0]


@pytest.mark.parametrize(
    ("tokens", "ratio"), [(100, 1.0), (300, 3.0), (150, 1.5), (99, None), (301, None), (0, None)]
)
def test_ratio(tokens, ratio):
    assert usable_ratio(tokens) == ratio


@pytest.mark.parametrize("ratio", [0, -1.0])
def test_a_ratio_of_nothing_is_one(ratio):
    assert len(places(PromptWriter(1, {}, ratio).prompt(request(range(9))))) == 9
