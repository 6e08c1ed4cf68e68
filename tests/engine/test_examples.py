"""The worked examples of the specification of the engine (01, section 9)."""

from __future__ import annotations

import pytest

from blis_core.engine.formation import Limits
from blis_core.errors import BlisError
from tests.engine.compare import expected, naive, outcome, product
from tests.engine.regression import Regression

A9 = list(range(100, 109))


def span(first, last):
    return list(range(first, last + 1))


def run(requests, *, blocks=100, tokens=2048, long_prefill=0, longest=0):
    limits = Limits(
        max_running=8, max_tokens=tokens, long_prefill=long_prefill, max_model_len=longest
    )
    rows = [(n, a, p, o, d, m) for n, a, p, o, d, m in requests]
    options = {"blocks": blocks, "size": 4, "limits": limits}
    instance, made = product(rows, Regression(), **options)
    engine, naives = naive(rows, Regression(), **options)
    assert outcome(instance, made) == expected(engine, naives)
    return engine, {r.id: r for r in made}, instance


def req(name, prompt, output, arrival=0, deadline=0, budget=None):
    return (name, arrival, prompt, output, deadline, len(output) if budget is None else budget)


def test_basic():
    engine, r, instance = run([
        req("a", span(0, 9), span(100, 103)), req("b", span(50, 55), span(200, 202), 5),
    ])  # fmt: skip
    assert [(t, done, used) for t, done, _, used in engine.rows] == [
        (13, [("a", 10)], 3), (100, [("a", 11), ("b", 6)], 5), (174, [("a", 12), ("b", 7)], 5),
        (228, [], 0),
    ]  # fmt: skip
    assert (r["a"].ttft, r["b"].ttft, r["a"].e2e, r["b"].e2e) == (102, 171, 290, 283)
    assert (r["a"].itl_sum / 3, r["b"].itl_sum / 2) == (188 / 3, 56)
    assert (r["a"].scheduling_delay, r["b"].scheduling_delay) == (13, 95)
    seen = expected(engine, [])
    assert seen["itls"] == [56, 56, 56, 56, 76]
    assert instance.metrics.output_tokens == 7
    assert seen["ended"] == 282
    assert (engine.kv.misses, engine.kv.free) == (7, [*range(7, 100), 5, 2, 1, 0, 6, 4, 3])
    assert seen["peak"] == 6


def test_chunked_prefill():
    engine, r, _instance = run(
        [req("a", span(0, 9), span(100, 102)), req("b", span(50, 58), [200, 201])],
        long_prefill=4, tokens=6,
    )  # fmt: skip
    assert [(t, done) for t, done, _, _ in engine.rows][:3] == [
        (13, [("a", 4), ("b", 2)]), (85, [("a", 8), ("b", 4)]), (157, [("a", 10), ("b", 8)]),
    ]  # fmt: skip
    assert (r["a"].ttft, r["b"].ttft, r["a"].e2e, r["b"].e2e) == (231, 286, 344, 342)
    seen = expected(engine, [])
    assert seen["ended"] == 338
    assert engine.kv.free[-7:] == [6, 3, 2, 0, 5, 4, 1]


def test_preemption():
    engine, r, instance = run(
        [req("a", span(0, 7), A9), req("b", span(50, 57), span(200, 208))], blocks=6
    )
    assert (337, [("a", 13)], ["b"], 4) in engine.rows
    assert (389, [("a", 14), ("b", 8)], [], 4) in engine.rows
    assert instance.metrics.preemptions == 1
    assert (r["a"].ttft, r["b"].ttft, r["a"].e2e, r["b"].e2e) == (123, 123, 567, 559)
    assert r["b"].scheduling_delay == 389
    assert (engine.kv.hits, engine.kv.misses) == (0, 11)
    assert engine.kv.free == [4, 1, 0, 5, 2, 3]
    assert instance.metrics.sim_ended == 861


def test_length_caps():
    _, r, instance = run(
        [req("a", span(0, 7), A9, budget=0), req("x", span(0, 11), A9),
         req("y", span(0, 7), A9, budget=5)],
        longest=12,
    )  # fmt: skip
    m = instance.metrics
    assert r["a"].max_output == 4
    assert r["a"].length_capped
    assert (m.dropped_unservable, m.length_capped, m.output_tokens, m.input_tokens) == (2, 1, 4, 8)
    assert (r["a"].itl_sum, r["a"].itl_count, r["a"].e2e) == (162, 3, 255)
    assert [request.id for request in m.requests] == ["a"]


def test_timeouts():
    _, r, instance = run([
        req("a", span(0, 7), A9, deadline=200), req("b", span(50, 57), [200, 201], deadline=144),
        req("c", span(70, 73), [1], 100, 105),
    ])  # fmt: skip
    m = instance.metrics
    assert (m.timed_out, m.input_tokens, m.sim_ended) == (2, 20, 227)
    assert (r["a"].ttft >= 0, r["b"].ttft >= 0, r["c"].ttft) == (True, True, -1)
    assert (r["a"].e2e, r["b"].e2e) == (-1, 179)


def test_a_full_prefix_hit_works_for_nothing():
    engine, r, _instance = run([
        req("a", span(0, 7), [100, 101]), req("b", span(0, 7), span(300, 305), 1000),
    ])  # fmt: skip
    assert (1012, [("b", 8)], [], 0) in engine.rows
    assert r["b"].ttft == 64
    seen = expected(engine, [])
    assert seen["ended"] == 1322
    assert engine.kv.misses == 5
    assert engine.kv.free == [*range(5, 100), 2, 1, 0, 4, 3]


def test_token_budget():
    engine, r, _ = run(
        [req("a", [0, 1], span(1, 4)), req("b", [10, 11], span(1, 4)),
         req("c", [20, 21], span(1, 4))],
        tokens=2,
    )  # fmt: skip
    assert [row[0] for row in engine.rows] == [11, 68, 123, 178, 232, 287, 342, 394, 446]
    assert [r[name].e2e for name in "abc"] == [240, 350, 506]


def test_the_last_token_may_find_no_block():
    engine, r, instance = run([req("a", span(0, 7), [100])], blocks=2)
    assert [row[0] for row in engine.rows] == [12]
    assert instance.metrics.kv_allocation_failures == 1
    assert r["a"].e2e == 93


def test_endless_self_preemption_is_an_error():
    with pytest.raises(BlisError, match=r"a can never finish .* 17 .*need 7 KV blocks.*are 6"):
        run([req("a", span(0, 8), span(100, 116))], blocks=6)


def test_a_time_out_ends_what_would_never_finish():
    _, r, instance = run([req("a", span(0, 8), span(100, 116), deadline=10_000)], blocks=6)
    assert r["a"].state == "timed_out"
    assert instance.metrics.preemptions > 3


def test_a_model_length_beyond_the_cache_is_refused():
    with pytest.raises(BlisError, match="--max-model-len"):
        run([req("a", [1], [2])], blocks=2, longest=9)
