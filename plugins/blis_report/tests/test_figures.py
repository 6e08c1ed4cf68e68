"""The figures behind the pictures: time lines, targets, findings, comparison."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.api import BlisError, Outcome
from blis_report.comparison import compare, overall
from blis_report.curves import Steps, curves, edges
from blis_report.findings import (
    bottleneck,
    cautions,
    failures,
    imbalance,
    keeps_up,
    key_figures,
    load,
    prefix_hits,
    routed,
    waits,
)
from blis_report.quantities import duration, parse_duration, percent, short_duration, significant
from blis_report.runs import Run, load_runs, split_name
from blis_report.targets import Target, attainments, parse_targets, unused

# --------------------------------------------------------------------------------- time lines

intervals = st.lists(
    st.tuples(st.integers(0, 900), st.integers(0, 300)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=20,
)


@given(intervals, st.integers(1, 30))
def test_counts_in_bins_are_those_of_every_microsecond(found, bins):
    begins, ends = (np.array([i[k] for i in found], dtype=np.int64) for k in (0, 1))
    steps, borders = Steps.counting(begins, ends), np.arange(0, 1200 + 1, 1200 // bins)
    inside = np.zeros(1200)
    for begin, end in found:
        inside[begin:end] += 1
    groups = [inside[a:b] for a, b in pairwise(borders)]
    assert steps.mean(borders) == pytest.approx([g.mean() for g in groups])
    assert steps.peak(borders) == pytest.approx([g.max() for g in groups])


@pytest.mark.parametrize("name", ["plain", "tight", "pools", "many", "late"])
def test_time_lines_contain_everything(recordings, name):
    recording = recordings[name]
    found = curves(recording, bins=50)
    width = np.diff(found.borders) / 1e6
    columns = recording.requests
    assert (found.arrivals * width).sum() == pytest.approx(len(recording.ids))
    done = (columns["outcome"] == Outcome.COMPLETED).sum()
    assert (found.completions * width).sum() == pytest.approx(done)
    decoded = sum((c.decode_rate * width).sum() for c in found.instances)
    assert decoded == pytest.approx(recording.steps["decode_tokens"].sum(), rel=0.02)
    # Little's law: requests in the system over time are the times in the system, summed up
    inside = (found.waiting + found.running) * width
    on_instances = recording.spans["instance"] >= 0
    phases = ~np.isin(recording.spans["phase"], (0, 1, 2, 10))
    lasted = recording.spans["duration"][on_instances & phases].sum() / 1e6
    assert inside.sum() == pytest.approx(lasted)
    for curve in found.instances:
        assert (curve.kv_use >= 0).all()
        assert (curve.kv_peak <= 1).all()
        assert (curve.kv_use <= curve.kv_peak + 1e-9).all()
        assert (curve.waiting <= curve.waiting_peak + 1e-9).all()


def test_an_empty_run_has_flat_time_lines(recordings):
    found = curves(recordings["nobody"])
    assert not found.arrivals.any()
    assert not found.instances[0].decode_rate.any()
    assert edges(0, 4)[-1] > 0


# ------------------------------------------------------------------------------------ targets


def test_targets_are_read():
    found = parse_targets(["ttft=500ms", "critical:e2e=1.5s", "itl=30 ms"])
    assert found == [
        Target("", "ttft", 500e3), Target("critical", "e2e", 1.5e6), Target("", "itl", 30e3)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("500ms", "write METRIC=DURATION"),
        ("latency=5s", "metrics: ttft, itl, e2e"),
        ("ttft=5", "'5' is not a duration"),
        ("ttft=0ms", "is not a duration"),
        ("ttft=", "is not a duration"),
        ("ttft=-1s", "is not a duration"),
    ],
)
def test_what_is_no_target_is_refused(text, message):
    with pytest.raises(BlisError, match=f"--slo: .*{message}"):
        parse_targets([text])


def test_one_target_for_one_thing():
    with pytest.raises(BlisError, match="is the second target for ttft"):
        parse_targets(["ttft=1s", "ttft=2s"])


def test_attainment_counts_by_class_and_all_together(recordings):
    recording = recordings["tight"]
    targets = parse_targets(["ttft=100ms", "critical:ttft=50ms", "e2e=2s"])
    found = {(a.slo_class, a.metric): a for a in attainments(recording, targets)}
    assert set(found) == {(c, m) for c in ("batch", "critical") for m in ("ttft", "e2e", "all")}
    assert found["critical", "ttft"].limit_us == 50e3
    assert found["batch", "ttft"].limit_us == 100e3
    columns = recording.requests
    code = recording.names("slo_class").index("critical")
    mine = columns["slo_class"] == code
    fast = mine & (columns["ttft"] <= 50e3)
    assert found["critical", "ttft"].met == fast.sum()
    assert found["critical", "ttft"].counted == mine.sum()
    assert found["critical", "all"].met == (fast & (columns["e2e"] <= 2e6)).sum()
    assert unused(recording, [*targets, Target("gold", "ttft", 1.0)]) == ["gold"]


def test_who_failed_missed_and_who_is_under_way_is_not_judged_yet(recordings):
    recording = recordings["late"]
    columns = recording.requests
    (generous,) = attainments(recording, [Target("", "e2e", 100e6)])
    unfinished = (columns["outcome"] == Outcome.UNFINISHED).sum()
    assert unfinished
    assert generous.counted == len(recording.ids) - unfinished
    (strict,) = attainments(recording, [Target("", "e2e", 1.0)])
    assert (strict.met, strict.counted) == (0, len(recording.ids))
    (rejected,) = attainments(recordings["rejected"], [Target("", "ttft", 1e9)])
    assert (rejected.met, rejected.counted, rejected.share) == (0, 5, 0.0)
    assert attainments(recordings["nobody"], [Target("", "ttft", 1e9)]) == []


# ----------------------------------------------------------------------------------- findings


def test_the_load_is_told(recordings):
    assert keeps_up(recordings["plain"]).level == "good"
    steady = dict(recordings["plain"].requests)
    steady["part_queue"] = np.full(len(steady["arrival"]), 10_000_000)
    assert keeps_up(attrs.evolve(recordings["plain"], requests=steady)).title == "Busy"
    found = keeps_up(recordings["tight"])
    assert (found.level, found.title) == ("bad", "Saturated")
    assert found.text.startswith("Requests arrive faster than they are served")
    assert keeps_up(recordings["nobody"]).level == ""
    assert keeps_up(recordings["one"]).level == "good"


def test_cautions_by_name(recordings):
    assert set(cautions(recordings["tight"])) >= {"saturated", "kv-cache"}
    results = {"warnings": ["a thing: is odd", "name: text: more"]}
    about = {**recordings["plain"].about, "results": results}
    assert cautions(attrs.evolve(recordings["plain"], about=about)) == {
        "0": "a thing: is odd", "name": "text: more"
    }  # fmt: skip


def test_what_was_full_is_told(recordings):
    found = bottleneck(recordings["tight"])
    assert "waiting in the queue" in found.text
    assert "--total-kv-blocks" in found.text
    assert sum(load(recordings["tight"]).waits.values()) == pytest.approx(1)
    assert "decode steps made longer" in bottleneck(recordings["plain"]).text
    assert "No completed request" in bottleneck(recordings["one"]).text
    assert bottleneck(recordings["rejected"]).level == ""


def test_counts(recordings):
    assert failures(recordings["plain"]) == {}
    assert failures(recordings["rejected"]) == {"rejected": 5}
    assert set(failures(recordings["late"])) == {"unfinished"}
    requests, tokens = routed(recordings["pools"])
    assert requests.sum() == 160  # every request is on two instances
    both = recordings["pools"].requests
    assert tokens.sum() == both["prompt_tokens"].sum() + both["output_tokens"].sum()
    assert imbalance(recordings["plain"]) is None
    assert 1 <= imbalance(recordings["pools"]) < 2
    assert prefix_hits(recordings["plain"]) == 0
    assert 0 < prefix_hits(recordings["tight"]) < 1
    assert prefix_hits(recordings["rejected"]) is None
    assert (waits(recordings["tight"]) >= 0).all()


@pytest.mark.parametrize("name", ["plain", "tight", "pools", "late", "nobody", "rejected", "one"])
def test_figures_are_those_of_the_results(recordings, name):
    recording = recordings[name]
    figures, cluster = key_figures(recording), recording.results["cluster"]
    assert figures["token_rate"] == cluster["tokens_per_sec"]
    if cluster["completed_requests"]:
        assert figures["ttft_p99"] == cluster["ttft_p99_ms"] * 1e3
    else:
        assert figures["ttft_p99"] is None
    assert 0 <= figures["busy"] <= 1


# --------------------------------------------------------------------------------- comparison


def test_differences_have_a_direction(recordings):
    runs = [Run(name, "", recordings[name]) for name in ("plain", "tight", "plain")]
    targets = parse_targets(["ttft=100ms"])
    rows = dict(compare(runs, targets))
    assert {"Requests", "Targets met", "TTFT, median", "Preemptions"} <= set(rows)
    first, other, same = rows["TTFT, median"]
    assert (first.change, first.verdict) == ("", "") == (same.change, same.verdict)
    assert other.verdict == "worse"
    assert rows["Requests"][1].verdict == ""
    assert rows["Requests"][1].change == "4.0 times"
    assert rows["Preemptions"][1].change == "from 0"
    assert rows["Prompt tokens from the cache"][1].verdict == "better"
    assert overall(runs[0], targets) == 1
    assert overall(Run("x", "", recordings["nobody"]), targets) is None


def test_figures_that_nobody_has_are_left_out(recordings):
    rows = dict(compare([Run("x", "", recordings["nobody"])], []))
    assert "TTFT, median" not in rows
    assert "Busiest instance over the mean" not in rows


# ------------------------------------------------------------------------- names and numbers


def test_names_of_runs(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a=b.rec").write_bytes(files["one"].read_bytes())
    assert split_name("a=b.rec") == ("a=b", "a=b.rec")
    assert split_name("x=a=b.rec") == ("x", "a=b.rec")
    assert split_name("some/day.rec") == ("day", "some/day.rec")
    for bad in ("=a.rec", "a="):
        with pytest.raises(BlisError, match="expected FILE or NAME=FILE"):
            split_name(bad)
    with pytest.raises(BlisError, match=r"there is a run called one already .*one=.* two="):
        load_runs([str(files["one"]), f"one={files['plain']}"])


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 ms"), (7, "7 µs"), (1234, "1.23 ms"), (99_949, "99.9 ms"), (999_400, "999 ms"),
     (999_600, "1.00 s"), (12.345e6, "12.3 s"), (700e6, "11.7 min"), (-2000, "-2.00 ms")],
)  # fmt: skip
def test_times_as_text(us, text):
    assert duration(us) == text


def test_other_numbers_as_text():
    assert short_duration(500e3) == "500 ms"
    assert short_duration(2e6) == "2 s"
    assert short_duration(1.5e6) == "1.5 s"
    assert [percent(v) for v in (0, 1e-6, 0.5, 0.9999, 1)] == [
        "0 %", "< 0.1 %", "50.0 %", "> 99.9 %", "100 %"
    ]  # fmt: skip
    assert significant(12345.6) == "12,346"
    assert significant(0.012345) == "0.0123"


@given(st.integers(1, 10**9))
def test_durations_are_read_back(us):
    assert parse_duration(f"{us}us", "--x") == us
    assert parse_duration(f"{us} ms", "--x") == us * 1000
