"""Pairs of points: which is better, by how much, and how sure that is."""

from __future__ import annotations

import pytest

from blis_sweep.comparison import compare
from blis_sweep.points import Point
from blis_sweep.store import Finished


def point(**place):
    label = ", ".join(v if k == "point" else f"{k}={v}" for k, v in place.items())
    return Point(label=label, place=place, options={})


def runs(values, metric="ttft_p99_ms", traffic="t"):
    """Finished runs with one figure each, seeds 1, 2, ...; None = it failed."""
    return {
        seed: Finished(metrics={metric: value}, traffic=f"{traffic}{seed}")
        for seed, value in enumerate(values, 1)
        if value is not None
    }


def sentence(ours, theirs, metric="ttft_p99_ms", confidence=0.95):
    points = [point(point="B"), point(point="A")]
    finished = [runs(theirs, metric), runs(ours, metric)]
    (found,) = compare(points, finished, {"point": "B"}, [metric], confidence)
    return found.sentence(confidence)


def test_a_win():
    assert sentence([10.0, 12.0, 11.0], [20.0, 21.0, 22.0]) == (
        "A beats B on p99 TTFT by 10.0 ms (47.6 %), 95 % interval [7.52, 12.5], 3 seeds"
    )


def test_a_loss_and_the_confidence():
    assert sentence([20.0, 21.0, 22.0], [10.0, 12.0, 11.0], confidence=0.5) == (
        "A loses to B on p99 TTFT by 10.0 ms (90.9 %), 50 % interval [9.53, 10.5], 3 seeds"
    )


def test_more_throughput_is_better():
    assert sentence([3.0, 3.1], [2.0, 2.1], "responses_per_sec").startswith(
        "A beats B on throughput by 1.00 requests/s (48.8 %), 95 % interval ["
    )


def test_what_is_neither_good_nor_bad():
    assert sentence([30, 31], [20, 21], "total_input_tokens").startswith(
        "input tokens of A is 10.0 (48.8 %) higher than that of B, 95 % interval ["
    )


def test_nothing_can_be_said():
    assert sentence([10.0, 30.0, 20.0], [20.0, 21.0, 22.0]) == (
        "no clear difference between A and B on p99 TTFT: -1.00 ms (-4.76 %),"
        " 95 % interval [-24.7, 22.7], 3 seeds"
    )


def test_one_seed_gives_no_interval():
    assert sentence([10.0], [20.0]) == (
        "p99 TTFT of A is 10.0 ms (50.0 %) lower than that of B, with one seed; more seeds would"
        " tell whether that is chance"
    )


def test_no_difference_at_all():
    assert sentence([5.0, 6.0], [5.0, 6.0]) == (
        "A and B are equal on p99 TTFT, 95 % interval [0.00, 0.00], 2 seeds"
    )
    assert sentence([5.0], [5.0]).startswith("A and B are equal on p99 TTFT, with one seed")


def test_a_constant_difference_is_certain():
    assert sentence([5.0, 6.0], [6.0, 7.0]).startswith("A beats B on p99 TTFT by 1.00 ms")


def test_nothing_to_divide_by():
    assert sentence([5, 6, 7], [0, 0, 0], "preemption_count").startswith(
        "A loses to B on preemptions by 6.00, 95 % interval"
    )


def test_pairing_removes_what_both_have_in_common():
    noise = [0.0, 500.0, -300.0, 800.0, 100.0]
    ours, theirs = [1000.0 + n for n in noise], [1002.0 + n + n / 1000 for n in noise]
    assert sentence(ours, theirs).startswith("A beats B on p99 TTFT by 2.22 ms")


def test_a_seed_that_failed_is_left_out():
    assert "2 seeds" in sentence([10.0, None, 11.0], [20.0, 21.0, 22.0])
    points = [point(point="B"), point(point="A")]
    finished = [runs([None, 1.0]), runs([1.0, None])]
    assert not list(compare(points, finished, {"point": "B"}, ["ttft_p99_ms"], 0.95))


def test_everything_but_the_baselines_axis_stays():
    places = [(n, r) for n in ("B", "A", "C") for r in ("4", "8")]
    points = [point(point=n, rate=r) for n, r in places]
    finished = [runs([float(i), i + 1.0]) for i in range(len(points))]
    found = list(compare(points, finished, {"point": "B"}, ["ttft_p99_ms"], 0.95))
    assert [(c.point, c.baseline, c.name, c.baseline_name, c.place) for c in found] == [
        ("A, rate=4", "B, rate=4", "A", "B", "rate=4"),
        ("A, rate=8", "B, rate=8", "A", "B", "rate=8"),
        ("C, rate=4", "B, rate=4", "C", "B", "rate=4"),
        ("C, rate=8", "B, rate=8", "C", "B", "rate=8"),
    ]
    assert found[0].sentence(0.95).startswith("at rate=4: A loses to B")
    whole = list(compare(points, finished, {"point": "A", "rate": "8"}, ["ttft_p99_ms"], 0.95))
    assert len(whole) == 5
    assert {c.baseline for c in whole} == {"A, rate=8"}
    assert whole[0].name == "B, rate=4"


@pytest.mark.parametrize(("traffic", "same"), [("t", True), ("u", False)])
def test_whether_both_got_the_same_requests(traffic, same):
    points = [point(rate="1"), point(rate="2")]
    finished = [runs([1.0, 2.0]), runs([1.0, 3.0], traffic=traffic)]
    (found,) = compare(points, finished, {"rate": "1"}, ["ttft_p99_ms"], 0.95)
    assert found.same_traffic is same
