"""Traces for Perfetto: the documented format, nothing overlaps, all of it is there."""

from __future__ import annotations

import json

import pytest

from blis_core.cli.main import main
from blis_report import timeline as module
from blis_report.timeline import ENTRANCE, Window, timeline

ALL = ["plain", "tight", "pools", "many", "late", "nobody", "rejected", "one"]


def whole(recording):
    return Window(0, max(recording.end, int(recording.requests["end"].max(initial=0))))


def check_format(document):
    """The rules of the trace event format for the phases in use."""
    assert set(document) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["ts"], int)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "X":
            assert event["dur"] >= 0
        elif event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
        else:
            assert event["ph"] == "M"
            assert event["name"] in (
                "process_name", "process_sort_index", "thread_name", "thread_sort_index"
            )  # fmt: skip
    json.dumps(document, allow_nan=False)


def complete(document, *categories):
    return [
        event
        for event in document["traceEvents"]
        if event["ph"] == "X" and (not categories or event["cat"] in categories)
    ]


@pytest.mark.parametrize("name", ALL)
def test_the_format_is_kept_and_events_nest(recordings, name):
    document, left_out = timeline(recordings[name], whole(recordings[name]))
    assert not left_out
    check_format(document)
    # on a thread, an event lies within another or apart from it
    threads = {}
    for event in complete(document):
        threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for events in threads.values():
        open_until = []
        for event in events:  # in the order of the file
            end = event["ts"] + event["dur"]
            while open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


@pytest.mark.parametrize("name", ALL)
def test_all_phases_of_all_requests_are_there(recordings, name):
    recording = recordings[name]
    document, _ = timeline(recording, whole(recording))
    drawn = {}
    for event in complete(document):
        if event["cat"] not in ("request", "step"):
            request = event["args"]["request"]
            drawn.setdefault(request, []).append((event["ts"], event["ts"] + event["dur"]))
    for row, request in enumerate(recording.ids):
        spans = [(begin, end) for begin, end, _, _ in recording.spans_of(row)]
        assert sorted(drawn.get(request, [])) == spans


def test_steps_and_counters_belong_to_their_instance(recordings):
    recording = recordings["tight"]
    document, _ = timeline(recording, whole(recording))
    steps = complete(document, "step")
    assert len(steps) == len(recording.steps["begin"])
    assert {event["pid"] for event in steps} == {ENTRANCE + 1, ENTRANCE + 2}
    tokens = sum(event["args"]["prefill_tokens"] for event in steps)
    assert tokens == recording.steps["prefill_tokens"].sum()
    counters = [event for event in document["traceEvents"] if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"running", "waiting", "KV blocks in use (%)"}
    use = [e["args"][e["name"]] for e in counters if e["name"].startswith("KV")]
    assert 0 <= min(use) <= max(use) <= 100
    # it ends with nobody in the batch
    last = {}
    for event in counters:
        last[event["pid"], event["name"]] = event["args"][event["name"]]
    assert not any(last.values())


def test_a_window_shows_what_touches_it(recordings):
    recording = recordings["plain"]
    window = Window(1_000_000, 1_500_000)
    document, _ = timeline(recording, window)
    shown = complete(document)
    assert shown
    assert all(e["ts"] <= window.end and e["ts"] + e["dur"] >= window.begin for e in shown)
    everything, _ = timeline(recording, whole(recording))
    assert len(shown) < len(complete(everything))


def test_single_requests(files, recordings, tmp_path, capsys):
    path = tmp_path / "t.json"
    assert main(["explain", str(files["tight"]), "--worst", "e2e", "-n", "2",
                 "--timeline", str(path)]) == 0  # fmt: skip
    assert capsys.readouterr().out.count("Time line") == 2
    document = json.loads(path.read_text())
    check_format(document)
    assert len({event["name"] for event in complete(document, "request")}) == 2


def test_the_whole_run_prints_nothing(files, tmp_path, capsys):
    path = tmp_path / "t.json"
    assert main(["explain", str(files["pools"]), "--timeline", str(path), "--to", "1.5s"]) == 0
    assert capsys.readouterr() == ("", "")
    names = {
        event["args"]["name"]
        for event in json.loads(path.read_text())["traceEvents"]
        if event["name"] == "process_name"
    }
    assert names == {
        "entrance", "instance_0 (prefill)", "instance_1 (prefill)", "instance_2 (decode)",
        "instance_3 (decode)",
    }  # fmt: skip


def test_a_trace_stays_small_enough_to_be_opened(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "MOST_EVENTS", 300)
    path = tmp_path / "t.json"
    assert main(["explain", str(files["plain"]), "--timeline", str(path)]) == 0
    assert "at the end did not fit; choose a part with" in capsys.readouterr().err
    document = json.loads(path.read_text())
    assert len(document["traceEvents"]) == 300
    check_format(document)
