"""Mooncake's public traces: one JSON object per line, with the blocks that prompts are made of.

Keys are ``timestamp`` (ms from the start), ``input_length``, ``output_length`` and ``hash_ids``:
one number per block of 512 prompt tokens, equal for equal blocks behind equal beginnings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from blis_core.contracts import ImportedRequest, Importer, ImportSetup
from blis_core.errors import BlisError
from blis_core.files import read_bytes
from blis_core.go_text import parse_int

BLOCK_TOKENS = 512


class MooncakeImporter(Importer):
    """Prompts keep their blocks, so that a simulated prefix cache finds what is shared."""

    def __init__(self, setup: ImportSetup) -> None:
        text = setup.options.get("block-tokens", str(BLOCK_TOKENS))
        try:
            self.block_tokens = parse_int(text)
        except ValueError as problem:
            raise BlisError(f"--block-tokens: {problem}") from None
        if not 1 <= self.block_tokens <= 10**8:
            raise BlisError(f"--block-tokens: must be in [1, 100000000], got {text}")

    def read(self, path: str) -> Iterable[ImportedRequest]:
        """All lines but empty ones; further keys are ignored."""
        return list(self._requests(path))

    def _requests(self, path: str) -> Iterator[ImportedRequest]:
        for number, line in enumerate(read_bytes(path).splitlines(), start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                item = json.loads(line)
            except (ValueError, RecursionError) as problem:
                raise BlisError(f"{where}: not valid JSON: {problem}") from None
            if not isinstance(item, dict):
                raise BlisError(f"{where}: must be an object with timestamp, input_length, ...")
            prompt_len = _count(item, "input_length", where)
            blocks = self._blocks(item.get("hash_ids") or [], prompt_len, where)
            time = item.get("timestamp")
            if not isinstance(time, (int, float)) or isinstance(time, bool) or not 0 <= time < 1e15:
                raise BlisError(f"{where}: timestamp must be a number of ms, not {time!r:.40}")
            yield ImportedRequest(
                round(time * 1000), prompt_len, _count(item, "output_length", where), blocks
            )

    def _blocks(self, ids: Any, prompt_len: int, where: str) -> tuple[int, ...]:
        if not isinstance(ids, list) or not all(
            isinstance(i, int) and not isinstance(i, bool) and 0 <= i < 10**18 for i in ids
        ):
            raise BlisError(f"{where}: hash_ids must be a list of whole numbers of at least 0")
        if ids and (len(ids) - 1) * self.block_tokens >= prompt_len:
            raise BlisError(
                f"{where}: {len(ids)} blocks of {self.block_tokens} tokens are too many for"
                f" input_length {prompt_len}; --block-tokens says how large a block is"
            )
        return tuple(ids)


def _count(item: dict[str, Any], key: str, where: str) -> int:
    value = item.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62:
        return value
    raise BlisError(f"{where}: {key} must be a whole number of at least 0, not {value!r:.40}")
