"""The optional last column of a trace: which blocks of tokens a prompt begins with.

A recorder that knows which parts of prompts are equal, but not the tokens, gives every block of
``size`` tokens a number: equal numbers stand for equal tokens. Prompts then share prefixes of any
length and depth, which a single ``prefix_group`` per row cannot say. The column is called
``prompt_blocks_of_<size>``; a cell holds the numbers of successive blocks with blanks in between,
and may be empty. Readers of version 2 that do not know the column ignore it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_NAME = re.compile(r"prompt_blocks_of_([1-9][0-9]{0,8})", re.ASCII)
_CELL = re.compile(r"(?:[0-9]{1,18}(?: [0-9]{1,18})*)?", re.ASCII)


class PromptBlocks(NamedTuple):
    """The blocks of all rows of a trace."""

    size: int
    """Tokens of a block, at least 1. The last block of a prompt may be cut off by its end."""
    numbers: Sequence[tuple[int, ...]]
    """Numbers (at least 0) of the blocks that each prompt begins with, by row; may be empty."""

    @property
    def column(self) -> str:
        """The name of the column."""
        return f"prompt_blocks_of_{self.size}"


def block_size(header: Sequence[str], width: int) -> int:
    """Tokens per block by the name of the column behind the first ``width``; 0 = no such column."""
    found = _NAME.fullmatch(header[width]) if len(header) > width else None
    return int(found[1]) if found else 0


def parse_cell(cell: str) -> tuple[int, ...]:
    """The numbers in a cell. ValueError, saying what is allowed, for anything else."""
    if not _CELL.fullmatch(cell):
        raise ValueError("numbers of blocks, of at most 18 digits, with single blanks in between")
    return tuple(map(int, cell.split()))


def format_cell(numbers: Sequence[int]) -> str:
    """The text of a cell."""
    return " ".join(map(str, numbers))


def misfit(numbers: Sequence[int], size: int, prompt_len: int) -> bool:
    """Whether there are blocks behind the end of the prompt."""
    return bool(numbers) and (len(numbers) - 1) * size >= prompt_len
