"""The interface of KV stores, and what they are told of a running request.

KV memory is counted in blocks, positions and lengths in tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray
    from blis_core.kv.chains import Chain, Segment


@attrs.frozen(kw_only=True, eq=False, repr=False)
class KVSetup(Record):
    """What a KV store is built from."""

    total_blocks: int
    """GPU blocks, at least 1."""
    block_size: int
    """Tokens per block, at least 1."""
    cpu_blocks: int = 0
    """Blocks of a second tier in CPU memory; 0 = none."""
    transfer_bandwidth: float = 100.0
    """Tokens per us that are brought back from the second tier; finite and above 0."""
    transfer_base_latency: int = 0
    """us per block that is brought back, on top of that; at least 0."""


class KVSequence:
    """The KV blocks of one running request, as a store sees it.

    ``keys``, ``rank``, ``tokens``, ``prompt_len``, ``decoding`` and ``offset`` are the engine's;
    the rest is the store's.
    """

    __slots__ = (
        "blocks",
        "decoding",
        "held",
        "keys",
        "layout",
        "offset",
        "prompt_len",
        "prompt_stored",
        "rank",
        "shift",
        "start",
        "stored",
        "tokens",
        "tracked",
    )

    def __init__(
        self, keys: Chain, rank: int, tokens: TokenArray | None = None, prompt_len: int = 0
    ) -> None:
        self.keys = keys
        """Key of each full block of the sequence (see kv.chains)."""
        self.rank = rank
        """Admission order; within a step smaller ranks come first."""
        self.tokens = tokens
        """Prompt ++ output."""
        self.prompt_len = prompt_len
        self.decoding = False
        self.offset = 0
        """While decoding, step j stores the token of position j - offset."""
        self.blocks: list[int] = []
        self.start = 0
        """Position of the first token of the first block."""
        self.stored = 0
        self.prompt_stored = 0
        self.held = False
        self.tracked = False
        self.shift = 0
        """A position p needs a new block iff p + shift is a multiple of the block size."""
        self.layout: Any = None


class KVStore(ABC):
    """Paged KV memory of one instance with automatic prefix caching.

    Built as ``factory(setup: KVSetup)``. Positions count the tokens of prompt ++ output; a new
    block is needed exactly when a position (plus the ``shift`` of the sequence, normally 0) is a
    multiple of ``block_size``. A call that returns False has changed nothing, unless
    ``refusals_are_pure`` is False.
    """

    block_size: int
    total_blocks: int
    used_blocks: int
    """Blocks that running requests hold."""
    clock: int = 0
    """Number of steps whose decode tokens are stored; kept by ``advance`` and by the engine."""
    refusals_are_pure: ClassVar[bool] = True
    """False: a refused ``admit`` has effects, so it must be tried at every step."""
    room_suffices: ClassVar[bool] = False
    """True: a prompt whose blocks nobody else can hold can be admitted if and only if as many
    blocks as it has are free, and then it need not be asked."""
    mirrors: ClassVar[bool] = False
    """True: ``mirror`` wants to be called."""

    @property
    def free_blocks(self) -> int:
        """Blocks that no running request holds (cached ones included)."""
        return self.total_blocks - self.used_blocks

    @abstractmethod
    def match(self, keys: Chain, blocks: int) -> Any:
        """The longest run of cached blocks among the first ``blocks`` keys.

        ``len()`` of the result is their number; it is handed back to the two methods below.
        """

    @abstractmethod
    def can_admit(self, hit: Any, new_tokens: int) -> bool:
        """Whether ``admit`` would succeed now."""

    @abstractmethod
    def admit(self, seq: KVSequence, hit: Any, new_tokens: int) -> bool:
        """Claim the blocks ``hit`` and store ``new_tokens`` prompt tokens behind them.

        Without new tokens nothing is to be claimed; ``restart`` follows.
        """

    def claim(self, seq: KVSequence, hit: Any, new_tokens: int) -> None:
        """The same, when ``can_admit`` has just said that it would succeed."""
        self.admit(seq, hit, new_tokens)

    def restart(self, seq: KVSequence, keys: Chain, start: int) -> None:
        """``seq``, which holds nothing, goes on at position ``start`` with the chain ``keys``."""
        seq.keys = keys
        seq.start = start

    @abstractmethod
    def extend(self, seq: KVSequence, start: int, end: int) -> bool:
        """Store the prompt tokens of positions ``start..end-1`` of a running request."""

    @abstractmethod
    def append(self, seq: KVSequence, position: int) -> bool:
        """Store one generated token at ``position``."""

    @property
    def counts_only(self) -> bool:
        """Whether a decode step does no more now than to take a block for those that need one.

        If so, ``take_counted`` does that for several at once.
        """
        return False

    def take_counted(self, count: int) -> None:
        """Take ``count`` free blocks, at least one, for as many decodes, one each."""
        raise NotImplementedError

    @abstractmethod
    def release(self, seq: KVSequence) -> None:
        """Give all blocks of ``seq`` back, the last first."""

    def reach(self, groups: Sequence[Sequence[KVSequence]], start: int, steps: int) -> int:
        """How many of ``steps`` decode steps the free blocks last for.

        ``groups[k]`` holds, by rank, the members that need a block in each step whose number is
        congruent to k modulo the block size; the steps are numbered from ``start``.
        """
        size = self.block_size
        free = self.free_blocks
        if steps >= size and sum(map(len, groups)) * (steps // size + 1) <= free:
            return steps
        for step in range(steps):
            free -= len(groups[(start + step) % size])
            if free < 0:
                return step
        return steps

    def advance(self, groups: Sequence[Sequence[KVSequence]], start: int, steps: int) -> None:
        """Store the tokens of ``steps`` decode steps, in batch order within each step.

        All members of ``groups`` (as in ``reach``) decode one token per step; ``reach`` has said
        that the blocks suffice. The default does it token by token through ``append``; a store
        that cares for speed overrides it.
        """
        size = self.block_size
        self.clock = start + steps
        members = sorted(
            (seq.rank, phase, seq) for phase, group in enumerate(groups) for seq in group
        )
        for step in range(start, start + steps):
            for _, phase, seq in members:
                # the position modulo the block size is all that is known here, and enough
                if not self.append(seq, (step - phase) % size):
                    raise RuntimeError("a KV store refused a block that it had promised")

    def mirror(  # noqa: B027 - optional to override
        self, members: Iterable[KVSequence], steps: int
    ) -> None:
        """The last ``steps`` steps have been executed with these members, in batch order.

        Called before those that are done release their blocks. If there is more than one step, all
        members decode or idle, and none of the steps had to refuse anything.
        """

    def consume_transfer_us(self) -> int:
        """us by which transfers between tiers lengthen the step at hand; asked once per step."""
        return 0

    def forget(self, keys: Chain) -> None:  # noqa: B027 - optional to override
        """The waiting request with these keys is gone; give back what refused admissions left."""

    def freeze(self) -> None:  # noqa: B027 - optional to override
        """Remember which keys are cached now, for ``match_frozen``."""

    def settle(self, seq: KVSequence) -> None:  # noqa: B027 - optional to override
        """The engine is about to stop or restart the decoding of ``seq``, which it will keep."""

    def match_frozen(self, keys: Chain, blocks: int) -> int:
        """Length of the longest run of blocks that were cached at the last ``freeze``.

        The default looks at the present: a store that cannot look back is always up to date.
        """
        return len(self.match(keys, blocks))

    def chain_shared(self, segment: Segment) -> None:  # noqa: B027 - optional to override
        """From now on other sequences may look up the keys of ``segment`` (see kv.chains)."""

    @abstractmethod
    def hit_rate(self) -> float:
        """Hit blocks / (hit + newly taken blocks), 0 if none."""

    def thrashing_rate(self) -> float:
        """Evictions from a second tier / stores into it; 0 with one tier."""
        return 0.0
