"""A KV store that checks another one at every call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from blis_core.contracts import KVSequence, KVStore
from blis_core.kv.chains import Chain, Segment
from blis_core.testing.checks import fail, require

_PURE = "a call that is refused must change nothing"


def checked(store: KVStore) -> CheckedStore:
    """``store`` behind checks."""
    names = ("refusals_are_pure", "room_suffices", "mirrors")
    flags = {name: getattr(store, name) for name in names}
    kind: type[CheckedStore] = type("CheckedStore", (CheckedStore,), flags)
    return kind(store)


class CheckedStore(KVStore):
    """Passes all calls on to ``store`` and fails where the contract is broken.

    A block is due exactly where a position (plus the shift of the sequence) is a multiple of the
    block size, so the blocks that a call takes are known beforehand. A store whose refusals have
    effects may claim more; of it only what holds anyway is checked.
    """

    exact: ClassVar[bool] = True

    def __init__(self, store: KVStore) -> None:
        self._store = store
        self.block_size = store.block_size
        self.total_blocks = store.total_blocks
        self._stored: set[int] = set()
        self._holders: set[int] = set()
        self._check_counts("a new store")
        require(
            store.used_blocks == 0,
            f"a new store has {store.used_blocks} used blocks; it must start empty, and share"
            " nothing with other stores",
        )

    @property
    def used_blocks(self) -> int:  # type: ignore[override]
        """Those of the store."""
        return self._store.used_blocks

    @property
    def clock(self) -> int:
        """That of the store."""
        return self._store.clock

    @clock.setter
    def clock(self, value: int) -> None:
        self._store.clock = value

    # ------------------------------------------------------------------------------- queries

    def match(self, keys: Chain, blocks: int) -> Any:
        """No more than was asked for, and nothing that nobody has stored."""
        hit = self._store.match(keys, blocks)
        length = len(hit)
        require(
            0 <= length <= blocks,
            f"match(keys, {blocks}) found {length} blocks; look at the first {blocks} keys only",
        )
        unknown = [key for key in list(keys)[:length] if key not in self._stored]
        require(
            not unknown,
            f"match(keys, {blocks}) found {length} cached blocks, but the contents of"
            f" {len(unknown)} of them have never been stored: the keys must be looked up from the"
            " first on, up to the first that is missing",
        )
        return hit

    def can_admit(self, hit: Any, new_tokens: int) -> bool:
        """As the store says; ``admit`` compares."""
        before = self._state()
        answer = self._store.can_admit(hit, new_tokens)
        require(self._state() == before, "can_admit() changes the store; it is a question")
        size, length = self.block_size, len(hit)
        self._check_not_stuck(
            answer, f"can_admit() of {new_tokens} tokens behind {length} cached blocks of {size}",
            math.ceil(new_tokens / size) + length,
        )  # fmt: skip
        return answer

    def hit_rate(self) -> float:
        """In [0, 1]."""
        return self._rate("hit_rate", self._store.hit_rate())

    def thrashing_rate(self) -> float:
        """In [0, 1]."""
        return self._rate("thrashing_rate", self._store.thrashing_rate())

    def match_frozen(self, keys: Chain, blocks: int) -> int:
        """No more than was asked for."""
        length = self._store.match_frozen(keys, blocks)
        require(0 <= length <= blocks, f"match_frozen(keys, {blocks}) returned {length}")
        return length

    def freeze(self) -> None:
        """Passed on."""
        self._store.freeze()

    # ------------------------------------------------------------------------------- changes

    def admit(self, seq: KVSequence, hit: Any, new_tokens: int) -> bool:
        """Takes what is needed, is refused only for want of blocks, as ``can_admit`` foretold."""
        store, size, length = self._store, self.block_size, len(hit)
        before, free = self._state(seq), store.free_blocks
        foretold = store.can_admit(hit, new_tokens)
        admitted = store.admit(seq, hit, new_tokens)
        call = f"admit() of {new_tokens} tokens behind {length} cached blocks of {size} tokens"
        require(isinstance(admitted, bool), f"{call} returned {admitted!r}, neither True nor False")
        fresh = math.ceil(new_tokens / size)
        if self.refusals_are_pure:
            require(
                admitted == foretold,
                f"{call} returned {admitted}, but can_admit() had said {foretold}",
            )
            require(admitted or self._state(seq) == before, f"{call}: {_PURE}")
        self._check_not_stuck(admitted, call, fresh + length)
        if admitted and self.refusals_are_pure:
            taken = store.used_blocks - before[0]
            least, most = (fresh, fresh + length) if new_tokens else (0, 0)
            require(
                least <= taken <= most,
                f"{call} took {taken} blocks of {free} free ones; it needs {fresh} for the tokens,"
                f" and at most {length} that are cached come back into use",
            )
        if admitted and new_tokens:
            self._holders.add(id(seq))
            self._store_keys(seq, length * size + new_tokens)
        self._check_counts(call)
        return admitted

    def claim(self, seq: KVSequence, hit: Any, new_tokens: int) -> None:
        """``admit``, which must succeed."""
        require(
            self.admit(seq, hit, new_tokens),
            f"admit() of {new_tokens} tokens behind {len(hit)} cached blocks is refused, although"
            f" can_admit() {'or room_suffices ' if self.room_suffices else ''}had promised room",
        )

    def restart(self, seq: KVSequence, keys: Chain, start: int) -> None:
        """Takes no blocks yet."""
        before = self._store.used_blocks
        self._store.restart(seq, keys, start)
        require(self._store.used_blocks == before, "restart() takes blocks; nothing is stored yet")
        self._holders.add(id(seq))

    def extend(self, seq: KVSequence, start: int, end: int) -> bool:
        """Takes a block for each position that needs one."""
        size = self.block_size
        fresh = -((-(end + seq.shift)) // size) + ((-(start + seq.shift)) // size)
        stored = self._take(
            seq, fresh, f"extend() from {start} to {end}, blocks of {size} tokens",
            lambda: self._store.extend(seq, start, end),
        )  # fmt: skip
        if stored:
            self._store_keys(seq, end)
        return stored

    def append(self, seq: KVSequence, position: int) -> bool:
        """Takes a block iff the position needs one."""
        size = self.block_size
        fresh = int((position + seq.shift) % size == 0)
        stored = self._take(
            seq, fresh, f"append() at position {position}, blocks of {size} tokens",
            lambda: self._store.append(seq, position),
        )  # fmt: skip
        if stored:
            self._store_all(seq)
        return stored

    def _take(self, seq: KVSequence, fresh: int, call: str, do: Any) -> bool:
        store = self._store
        before, free = self._state(seq), store.free_blocks
        stored: bool = do()
        require(isinstance(stored, bool), f"{call} returned {stored!r}, neither True nor False")
        if self.refusals_are_pure:
            require(stored or self._state(seq) == before, f"{call}: {_PURE}")
            require(
                stored == (fresh <= free),
                f"{call} returned {stored}; it needs {fresh} blocks, and {free} are free",
            )
            taken = store.used_blocks - before[0]
            require(not stored or taken == fresh, f"{call} took {taken} blocks; it needs {fresh}")
        self._check_counts(call)
        return stored

    def release(self, seq: KVSequence) -> None:
        """Gives blocks back; all of them, if nobody else holds any."""
        before = self._store.used_blocks
        self._store.release(seq)
        self._holders.discard(id(seq))
        used = self._store.used_blocks
        require(used <= before, f"release() took {used - before} blocks instead of giving some")
        require(
            used == 0 or self._holders or not self.refusals_are_pure,
            f"release() of the last sequence leaves {used} blocks used; the blocks given back must"
            " be those that were taken",
        )
        self._check_counts("release()")

    def reach(self, groups: Sequence[Sequence[KVSequence]], start: int, steps: int) -> int:
        """As far as single steps would come."""
        before = self._state()
        reached = self._store.reach(groups, start, steps)
        require(self._state() == before, "reach() changes the store; it is a question")
        expected = KVStore.reach(self, groups, start, steps)
        require(
            reached == expected,
            f"reach() says that {self.free_blocks} free blocks last for {reached} of {steps}"
            f" decode steps; they last for {expected}",
        )
        return reached

    def advance(self, groups: Sequence[Sequence[KVSequence]], start: int, steps: int) -> None:
        """Takes one block per member of the group of each step."""
        size = self.block_size
        fresh = sum(len(groups[step % size]) for step in range(start, start + steps))
        before = self._store.used_blocks
        self._store.advance(groups, start, steps)
        taken = self._store.used_blocks - before
        require(
            taken == fresh,
            f"advance() by {steps} decode steps took {taken} blocks; the members need {fresh}",
        )
        require(
            self._store.clock == start + steps,
            f"advance() to step {start + steps} leaves clock at {self._store.clock}; set it to"
            " start + steps",
        )
        for group in groups:
            for seq in group:
                self._store_all(seq)
        self._check_counts("advance()")

    def mirror(self, members: Iterable[KVSequence], steps: int) -> None:
        """Passed on."""
        self._store.mirror(members, steps)

    def consume_transfer_us(self) -> int:
        """At least 0."""
        extra = self._store.consume_transfer_us()
        if type(extra) is not int or extra < 0:
            fail(f"consume_transfer_us() returned {extra!r}; return whole us, at least 0")
        return extra

    def forget(self, keys: Chain) -> None:
        """Passed on."""
        self._store.forget(keys)
        self._check_counts("forget()")

    def chain_shared(self, segment: Segment) -> None:
        """Changes nothing that can be seen."""
        before = self._state()
        self._store.chain_shared(segment)
        require(self._state() == before, "chain_shared() changes counts; it is only a notice")

    # --------------------------------------------------------------------------------- pieces

    def _state(self, seq: KVSequence | None = None) -> tuple[Any, ...]:
        """What a refused call must leave as it is."""
        store = self._store
        held = None if seq is None else list(seq.blocks)
        return store.used_blocks, store.hit_rate(), held

    def _check_not_stuck(self, accepted: bool, call: str, blocks: int) -> None:
        """An empty store must take what fits, or nothing would ever change."""
        require(
            accepted or self._holders or self._store.used_blocks or blocks > self.total_blocks,
            f"{call} is refused although nobody holds any of the {self.total_blocks} blocks; the"
            " request would wait for ever",
        )

    def _check_counts(self, call: str) -> None:
        used, total = self._store.used_blocks, self.total_blocks
        require(
            type(used) is int and 0 <= used <= total,
            f"{call}: used_blocks is {used!r}; it must be an int from 0 to {total}",
        )
        free = self._store.free_blocks
        require(
            free == total - used,
            f"{call}: {used} used and {free} free blocks are not {total}; blocks are conserved",
        )

    def _rate(self, name: str, value: float) -> float:
        require(0.0 <= value <= 1.0, f"{name}() returned {value}; a rate lies in [0, 1]")
        return value

    def _store_keys(self, seq: KVSequence, end: int) -> None:
        self._stored.update(list(seq.keys)[: end // self.block_size])

    def _store_all(self, seq: KVSequence) -> None:
        self._stored.update(seq.keys)
