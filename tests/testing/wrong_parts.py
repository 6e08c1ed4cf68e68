"""Latency models, samplers and KV stores with one mistake each."""

from __future__ import annotations

import random

import numpy as np

from blis_core.api import ArrivalSampler, LatencyModel, LengthSampler
from blis_core.kv.paged import PagedKVStore
from blis_core.testing import (
    ArrivalSamplerTests,
    KVStoreTests,
    LatencyModelTests,
    LengthSamplerTests,
    latency_setup,
)


class Fine(LatencyModel):
    def step_time(self, shape):
        return 10 + shape.decodes + sum(chunk.new_tokens for chunk in shape.prefills)


class Sloppy(Fine):
    def decode_times(self, decodes, context_sum, steps):
        return np.arange(steps) + 10 + decodes


def latency(law, message, base=Fine, **methods):
    made = type("Wrong", (base,), methods)
    kit = type("Kit", (LatencyModelTests,), {"make": lambda self: made(latency_setup())})
    return kit, law, message


LATENCY = [
    latency("steps_take_whole_microseconds", "at least 1", step_time=lambda s, b: b.decodes),
    latency("steps_take_whole_microseconds", "Python int", step_time=lambda s, b: 10.5),
    latency("steps_take_whole_microseconds", "Python int", step_time=lambda s, b: np.int64(5)),
    latency(
        "overheads_are_whole_microseconds", "queueing_time(1)", queueing_time=lambda s, n: n / 2
    ),
    latency("overheads_are_whole_microseconds", "output_token", output_token_time=lambda s: -1),
    latency("overheads_are_whole_microseconds", "completion_time", completion_time=lambda s: None),
    latency(
        "overheads_are_whole_microseconds",
        "first_token_delay(32)",
        first_token_delay=lambda s, n: 0 if n == 1 else 0.5,
    ),
    latency("warnings_are_lines_of_text", "two\\nlines", warnings=("two\nlines",)),
    latency("a_run_of_decode_steps_takes_what_its_steps_take", "step 1 takes 12 us", Sloppy),
    latency(
        "a_run_of_decode_steps_takes_what_its_steps_take",
        "return an int64 array",
        decode_times=lambda s, n, c, steps: [11] * steps,
    ),
    latency(
        "a_run_of_decode_steps_takes_what_its_steps_take",
        "returned float64 of shape",
        decode_times=lambda s, n, c, steps: np.ones(steps),
    ),
    latency(
        "same_batch_takes_the_same_time",
        "a latency model is immutable",
        step_time=lambda s, b: random.randrange(1, 10**9),
    ),
    latency(
        "further_decodes_never_help",
        "set monotone = False",
        step_time=lambda s, b: 1000 // (1 + b.decodes) + 1,
    ),
    latency(
        "cost_does_not_grow_with_the_tokens",
        "its cost grows with the batch",
        step_time=lambda s, b: 1 + sum(1 for _ in range(b.decodes)),
    ),
]


def arrival(law, message, **methods):
    def init(self, setup):
        self.gap = int(1 / setup.rate_per_us)

    made = type("Wrong", (ArrivalSampler,), {"__init__": init, **methods})
    kit = type("Kit", (ArrivalSamplerTests,), {"make": lambda self, setup: made(setup)})
    return kit, law, message


def lengths(law, message, bounds=None, **methods):
    made = type("Wrong", (LengthSampler,), methods)
    kit = type("Kit", (LengthSamplerTests,), {"make": lambda self: made(), **(bounds or {})})
    return kit, law, message


def one_too_many(self, rng, n):
    return [1 + int(x) for x in rng.float64s(n + 1)[:n] * 9]


def reversed_bulk(self, rng, n):
    return [1 + int(x * 1000) for x in rng.float64s(n)][::-1]


def growing(self, rng, n):
    self.calls = getattr(self, "calls", 0)
    start, self.calls = self.calls, self.calls + n
    return [1 + start + i for i in range(n)]


def anew(self, rng, n):
    """Begins its pattern anew at every call."""
    return [1 + i % 2 for i in range(n)]


def onward(self, rng):
    self.count = getattr(self, "count", -1) + 1
    return 1 + self.count % 2


GAPS, STREAM = "gaps_are_whole_and_positive", "same_stream_gives_same_"
BULK = "bulk_draws_equal_single_ones"
SAMPLERS = [
    arrival(GAPS, "time does not run back", sample=lambda s, rng, n: [-1] * n),
    arrival(GAPS, "0 means that there are no further", sample=lambda s, rng, n: [0, 1] * (n // 2)),
    arrival(GAPS, "return Python ints", sample=lambda s, rng, n: list(rng.exps(n))),
    arrival(GAPS, "return a list", sample=lambda s, rng, n: rng.exps(n)),
    arrival(GAPS, "returned list of 1 elements", sample=lambda s, rng, n: [5]),
    arrival(
        BULK,
        "draw 0 is 7 in bulk and 8 as a single one",
        sample=lambda s, rng, n: [7] * n,
        next=lambda s, rng: 8,
    ),
    arrival(
        STREAM + "gaps",
        "must come from rng",
        sample=lambda s, rng, n: [random.randrange(1, 10**9) for _ in range(n)],
    ),
    arrival("the_rate_is_kept", "the rate asks for", sample=lambda s, rng, n: [s.gap * 2] * n),
    lengths(
        "lengths_are_whole_and_within_bounds",
        "the smallest allowed is 1",
        sample=lambda s, rng, n: [0] * n,
    ),
    lengths(
        "lengths_are_whole_and_within_bounds",
        "the largest allowed is 50",
        {"largest": 50},
        sample=lambda s, rng, n: [51] * n,
    ),
    lengths(
        "lengths_are_whole_and_within_bounds",
        "type bool",
        sample=lambda s, rng, n: [True] * n,
    ),
    lengths(BULK, "leaves the random stream at another position", sample=one_too_many,
            next=lambda s, rng: 1 + int(rng.float64() * 9)),
    lengths(BULK, "must give the numbers of n calls of next", sample=reversed_bulk),
    lengths(BULK, "how many are asked for at a time", sample=anew,
            next=onward),
    lengths(
        STREAM + "lengths",
        "two new samplers draw different",
        sample=lambda s, rng, n: [random.randrange(1, 10**9) for _ in range(n)],
    ),
    lengths("sessions_can_share_it", "remembers nothing", sample=growing),
]  # fmt: skip


# ------------------------------------------------------------------------------------- KV stores


class Shared(PagedKVStore):
    """Hands out one and the same memory again."""

    made = None

    def __new__(cls, setup):
        if cls.made is None or cls.made.total_blocks != setup.total_blocks:
            cls.made = super().__new__(cls)
        return cls.made

    def __init__(self, setup):
        if not hasattr(self, "_queue"):
            super().__init__(setup)
            self.used_blocks = 1


class Leaks(PagedKVStore):
    def release(self, seq):
        held = seq.held
        super().release(seq)
        self.used_blocks += held


class Hallucinates(PagedKVStore):
    """Finds whatever is looked for."""

    def match(self, keys, blocks):
        hit = super().match(keys, blocks)
        return type("Hit", (), {"ids": hit.ids, "own": 0, "__len__": lambda self: blocks})()


class LooksTooFar(PagedKVStore):
    def match(self, keys, blocks):
        return super().match(keys, len(keys))


class Promises(PagedKVStore):
    def can_admit(self, hit, new_tokens):
        return True

    def admit(self, seq, hit, new_tokens):
        if not PagedKVStore.can_admit(self, hit, new_tokens):
            return False
        return super().admit(seq, hit, new_tokens)


class Begins(PagedKVStore):
    """Counts a refused admission as misses."""

    def admit(self, seq, hit, new_tokens):
        admitted = super().admit(seq, hit, new_tokens)
        self.misses += not admitted
        return admitted


class Evicts(PagedKVStore):
    """Gives its cache up when it is asked for too much."""

    def extend(self, seq, start, end):
        stored = super().extend(seq, start, end)
        if not stored:
            self.match = lambda keys, blocks: PagedKVStore.match(self, keys, 0)
        return stored


class Overfull(PagedKVStore):
    def append(self, seq, position):
        return super().append(seq, position) or True


class Counts(PagedKVStore):
    """Takes a question for a look-up."""

    def can_admit(self, hit, new_tokens):
        self.misses += 1
        return super().can_admit(hit, new_tokens)


class Never(PagedKVStore):
    def can_admit(self, hit, new_tokens):
        return False


class Greedy(PagedKVStore):
    """Takes one block too many for a prompt."""

    def admit(self, seq, hit, new_tokens):
        admitted = super().admit(seq, hit, new_tokens)
        if admitted and new_tokens and self.free_blocks:
            self.used_blocks += 1
        return admitted


class Shy(PagedKVStore):
    """Keeps the last block to itself."""

    def extend(self, seq, start, end):
        return self.free_blocks > 1 and super().extend(seq, start, end)


class NoBlock(PagedKVStore):
    def append(self, seq, position):
        before = self.used_blocks
        stored = super().append(seq, position)
        self.used_blocks = before
        return stored


class Sure(PagedKVStore):
    def reach(self, groups, start, steps):
        return steps


class Stays(PagedKVStore):
    def advance(self, groups, start, steps):
        self.clock = start + steps


class LosesTheClock(PagedKVStore):
    def advance(self, groups, start, steps):
        super().advance(groups, start, steps)
        self.clock = start


class Talks(PagedKVStore):
    def append(self, seq, position):
        return None


class Rates(PagedKVStore):
    def hit_rate(self):
        return 100.0 * super().hit_rate()


class Gains(PagedKVStore):
    def consume_transfer_us(self):
        return -5


class Restarts(PagedKVStore):
    def restart(self, seq, keys, start):
        super().restart(seq, keys, start)
        self.used_blocks += 1


class Fast(PagedKVStore):
    """Counts hits for runs of several steps only."""

    def advance(self, groups, start, steps):
        super().advance(groups, start, steps)
        if steps > 1:
            self.hits += 1


class Random(PagedKVStore):
    def hit_rate(self):
        return random.random()


class NoCache(PagedKVStore):
    """Correct, but not what ``paged`` is."""

    def match(self, keys, blocks):
        return super().match(keys, 0)


class Forgets(PagedKVStore):
    def match_frozen(self, keys, blocks):
        return 0


class Guesses(PagedKVStore):
    """The past, but for the number of calls."""

    def match_frozen(self, keys, blocks):
        self.asked = getattr(self, "asked", 0) + 1
        return super().match_frozen(keys, blocks) if self.asked < 4 else 7


class Slow(PagedKVStore):
    def release(self, seq):
        for _ in range(seq.prompt_len):
            pass
        super().release(seq)


def store(cls, law, message, **attributes):
    kit = type("Kit", (KVStoreTests,), {"make": lambda self, setup: cls(setup), **attributes})
    return kit, law, message


CALLS = "every_call_keeps_the_contract"
REFUSED = "a_refused_call_changes_nothing"
STORES = [
    store(Shared, CALLS, "it must start empty"),
    store(Leaks, CALLS, "release() of the last sequence leaves"),
    store(Hallucinates, CALLS, "have never been stored"),
    store(LooksTooFar, CALLS, "look at the first"),
    store(Promises, CALLS, "but can_admit() had said True"),
    store(Counts, CALLS, "can_admit() changes the store; it is a question"),
    store(Begins, REFUSED, "a call that is refused must change nothing"),
    store(Evicts, REFUSED, "the cache holds less of a prompt after refused calls"),
    store(Overfull, REFUSED, "append() at position 20, blocks of 4 tokens returned True"),
    store(Never, CALLS, "although nobody holds any of the"),
    store(Greedy, CALLS, "it needs"),
    store(Shy, CALLS, "extend() from"),
    store(NoBlock, CALLS, "took 0 blocks; it needs 1"),
    store(Sure, CALLS, "reach() says that"),
    store(Stays, CALLS, "took 0 blocks; the members need"),
    store(LosesTheClock, CALLS, "set it to start + steps"),
    store(Talks, CALLS, "returned None, neither True nor False"),
    store(Rates, CALLS, "a rate lies in [0, 1]"),
    store(Gains, CALLS, "consume_transfer_us() returned -5"),
    store(Restarts, CALLS, "restart() takes blocks"),
    store(Fast, "runs_of_decode_steps_equal_single_steps", "hit rate: "),
    store(Random, "same_workload_gives_same_results", "the first time"),
    store(
        NoCache,
        "results_equal_those_of_the_paged_store",
        "with the store 'paged'",
        like_paged=True,
    ),
    store(Forgets, "a_frozen_view_does_not_move", "right after freeze()"),
    store(Guesses, "a_frozen_view_does_not_move", "neither the past nor the present"),
    store(Slow, "cost_does_not_grow_with_the_tokens", "the cost grows with the tokens"),
]

CASES = [*LATENCY, *SAMPLERS, *STORES]
