"""The made-up fleet and the made-up requests."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from blis_core.kv.chains import ChainTable
from blis_core.testing import FixedFleet, make_request, make_requests, sample_fleets


def test_what_is_left_out_is_idle():
    fleet = FixedFleet(3)
    assert len(fleet) == 3
    assert fleet.ids == ("instance_0", "instance_1", "instance_2")
    for signal in (fleet.queue_depth, fleet.running, fleet.in_flight, fleet.load):
        assert signal.tolist() == [0, 0, 0]
    assert fleet.kv_utilization.tolist() == [0.0, 0.0, 0.0]
    assert fleet.free_blocks.tolist() == [1000, 1000, 1000]
    assert fleet.cached_blocks(make_request()).tolist() == [0, 0, 0]


def test_figures_for_all_and_for_each():
    fleet = FixedFleet(queue_depth=[1, 2], running=5, ids="ab", cached_blocks=[3, 0])
    assert fleet.queue_depth.dtype == np.int64
    assert fleet.running.tolist() == [5, 5]
    assert fleet.in_flight.tolist() == [6, 7]
    assert fleet.load.tolist() == [12, 14]
    assert fleet.cached_blocks(make_request()).tolist() == [3, 0]
    assert FixedFleet(2, in_flight=[4, 0]).load.tolist() == [4, 0]


def test_memory_follows_from_either_figure():
    assert FixedFleet(kv_utilization=[0.25, 1.0], total_blocks=200).free_blocks.tolist() == [150, 0]
    assert FixedFleet(free_blocks=[150, 0], total_blocks=200).kv_utilization.tolist() == [0.25, 1.0]
    both = FixedFleet(1, free_blocks=7, kv_utilization=0.5)
    assert (both.free_blocks[0], both.kv_utilization[0]) == (7, 0.5)


def test_cached_blocks_by_request():
    fleet = FixedFleet(2, cached_blocks={"a": [4, 0], "b": 2})
    counts = [fleet.cached_blocks(make_request(id=name)).tolist() for name in "abc"]
    assert counts == [[4, 0], [2, 2], [0, 0]]
    assert fleet.cached_blocks(make_request(40, id="a")).tolist() == [2, 0]  # a short prompt


def test_an_empty_fleet():
    assert len(FixedFleet(0)) == 0
    assert FixedFleet(0).load.tolist() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give the number of instances"),
        ({"queue_depth": [1, 2], "running": [1]}, r"differ \(queue_depth: 2, running: 1\)"),
        ({"size": 3, "ids": ["a"]}, r"differ \(ids: 1, size: 3\)"),
    ],
)
def test_sizes_must_agree(arguments, message):
    with pytest.raises(ValueError, match=message):
        FixedFleet(**arguments)


def test_arrays_cannot_be_written():
    fleet = FixedFleet(2)
    for name in ("queue_depth", "running", "in_flight", "free_blocks", "kv_utilization"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(fleet, name)[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        fleet.cached_blocks(make_request())[0] = 1


def test_keys_stand_for_beginnings_as_those_of_the_simulator_do():
    requests = make_requests(30)
    fleets = [FixedFleet(1, block_size=4), FixedFleet(2, block_size=4)]
    table = ChainTable(4)
    mine = [list(fleets[i % 2].prompt_keys(r)) for i, r in enumerate(requests)]
    theirs = [list(table.keys(r)[: r.prompt_len // 4]) for r in requests]
    assert [len(keys) for keys in mine] == [len(keys) for keys in theirs]
    names = {}
    for ours, keys in zip(mine, theirs, strict=True):
        for a, b in zip(ours, keys, strict=True):
            assert names.setdefault(b, a) == a
    assert len(set(names.values())) == len(names)


def test_requests_without_tokens_are_unlike_all_others():
    fleet = FixedFleet(1)
    first, second = make_request(40), make_request(40)
    first.tokens = second.tokens = None
    keys = {*fleet.prompt_keys(first), *fleet.prompt_keys(second)}
    assert len(keys) == 4


def test_prefixes():
    fleet = FixedFleet(1)
    first = make_request(100)
    second = make_request(80, prefix_of=first, prefix_len=40)
    a, b = fleet.prompt_keys(first), fleet.prompt_keys(second)
    assert (len(a), len(b)) == (6, 5)
    assert [x == y for x, y in zip(a, b, strict=False)] == [True, True, False, False, False]
    with pytest.raises(ValueError, match="prefix of 90 tokens"):
        make_request(80, prefix_of=first, prefix_len=90)


def test_given_tokens():
    request = make_request(tokens=[5, 6, 7], output_len=2, slo_class="batch")
    assert (request.prompt_len, request.tokens[:3].tolist()) == (3, [5, 6, 7])
    assert (len(request.tokens), request.slo_class) == (5, "batch")


def test_equal_arguments_give_equal_requests():
    first, second = make_requests(20), make_requests(20)
    for a, b in zip(first, second, strict=True):
        assert (a.id, a.arrival, a.slo_class, a.session) == (
            b.id,
            b.arrival,
            b.slo_class,
            b.session,
        )
        assert a.tokens.tolist() == b.tokens.tolist()
    assert [r.arrival for r in first] == sorted(r.arrival for r in first)
    assert {len(fleet) for fleet in sample_fleets()} >= {1, 2, 3, 8, 64}


def test_the_kit_needs_no_pytest():
    code = (
        "import sys; sys.modules['pytest'] = None; sys.modules['hypothesis'] = None\n"
        "import blis_core.testing as kit\n"
        "from blis_core.api import Scorer\n"
        "class Half(Scorer):\n"
        "    def score(self, request, fleet): return [0.5] * len(fleet)\n"
        "class Tests(kit.ScorerTests):\n"
        "    def make(self): return Half()\n"
        "Tests().test_gives_each_instance_a_finite_score_from_0_to_1()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
