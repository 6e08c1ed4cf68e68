"""``blis explain``: parts, baselines, the worst ones, mistakes."""

from __future__ import annotations

import json

import pytest

from blis_core.api import PARTS, BlisError, Outcome
from blis_core.cli.main import main
from blis_report.explanation import Explainer


def explain(capsys, *arguments, code=0):
    assert main(["explain", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


@pytest.mark.parametrize("name", ["plain", "tight", "pools", "late", "rejected", "one"])
def test_every_request_can_be_explained(recordings, name):
    recording = recordings[name]
    explainer = Explainer(recording, "a.rec")
    for row, request in enumerate(recording.ids):
        assert explainer.find(request) == row
        found = explainer.explain(row)
        if found.has_latency:
            assert sum(part.us for part in found.parts) == found.total
            assert found.total == recording.requests["e2e"][row]
        assert [part.name for part in found.parts] == list(PARTS)
        assert found.spans[0][0] == found.arrival if found.spans else found.end == found.arrival


def test_the_text_adds_up_and_names_the_instance(files, recordings, capsys):
    row = int(recordings["tight"].requests["e2e"].argmax())
    text = explain(capsys, files["tight"], recordings["tight"].ids[row])
    e2e = recordings["tight"].requests["e2e"][row]
    assert f"{e2e / 1e3:,.3f}" in next(line for line in text.splitlines() if "in all" in line)
    assert "the slowest of 240" in text
    assert "times as long as alone on an idle instance" in text
    assert "waits in the queue, instance_" in text
    assert text.splitlines()[-1].endswith("done")
    names = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    assert {"queue", "prefill", "decode"} <= set(names)


def test_json_has_the_same_figures_in_us(files, recordings, capsys):
    document = json.loads(explain(capsys, files["plain"], "request_7", "--output", "json"))
    assert [each["id"] for each in document] == ["request_7"]
    (one,) = document
    assert sum(part["us"] for part in one["parts"]) == one["total"]
    assert sum(part["alone_us"] for part in one["parts"]) == one["alone"]
    shares = [part["slowdown_share"] for part in one["parts"]]
    assert sum(shares) == pytest.approx(1)
    assert one["spans"][-1]["end"] == one["end"]
    assert one["slowdown"] == one["total"] / one["alone"] > 1


def test_the_worst_come_first(files, recordings, capsys):
    for metric in ("ttft", "itl", "e2e"):
        document = json.loads(
            explain(capsys, files["tight"], "--worst", metric, "-n", "3", "--output", "json")
        )
        assert len(document) == 3
        key = {"ttft": "ttft", "itl": "mean_itl", "e2e": "total"}[metric]
        values = [each[key] for each in document]
        assert values == sorted(values, reverse=True)
    columns = recordings["tight"].requests
    assert document[0]["total"] == columns["e2e"][columns["outcome"] == Outcome.COMPLETED].max()


def test_a_preempted_request_says_so(files, recordings, capsys):
    columns = recordings["tight"].requests
    row = int(columns["preemptions"].argmax())
    assert columns["preemptions"][row] > 0
    text = explain(capsys, files["tight"], recordings["tight"].ids[row])
    assert "It was preempted" in text
    assert "preempted, waits again" in text


def test_pools_show_the_transfer(files, recordings, capsys):
    text = explain(capsys, files["pools"], "request_3")
    assert "KV cache is transferred" in text
    assert ", then instance_" in text
    assert "As the engine counts in pools" in text


def test_who_got_no_answer_has_no_latency_but_a_time_line(files, recordings, capsys):
    columns = recordings["late"].requests
    outcomes = columns["outcome"].tolist()
    row = outcomes.index(Outcome.UNFINISHED)
    text = explain(capsys, files["late"], recordings["late"].ids[row])
    assert "without an end-to-end latency" in text
    assert text.splitlines()[-1].endswith("the simulation ends")
    text = explain(capsys, files["rejected"], "request_0")
    assert "request_0: rejected" in text
    assert "on no instance" in text


def test_nobody_can_be_the_worst_of_none(files, capsys):
    for name in ("nobody", "rejected"):
        assert "no request completed" in explain(capsys, files[name], "--worst", "ttft", code=1)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["request_99"], 1, "request_99: there is no such request in .*; did you mean request_"),
        (["7"], 1, "did you mean request_7"),
        (["xyz"], 1, "ids are like request_0"),
        ([], 2, "name a request, or give --worst"),
        (["request_1", "--worst", "e2e"], 2, "not both"),
        (["--worst", "e2e", "-n", "0"], 2, "-n: must be at least 1"),
        (["request_1", "--from", "1s"], 2, "belong to --timeline"),
        (["--timeline", "/nowhere/t.json"], 1, "--timeline: folder /nowhere does not exist"),
        (["--timeline", "/"], 1, "is a folder"),
        (["--timeline", "t.json", "--from", "soon"], 1, "--from: 'soon' is not a duration"),
        (["--timeline", "t.json", "--from", "9s", "--to", "2s"], 1, "nothing lies between"),
    ],
)
def test_mistakes_are_one_line(files, capsys, monkeypatch, tmp_path, arguments, code, message):
    import re

    monkeypatch.chdir(tmp_path)
    error = explain(capsys, files["plain"], *arguments, code=code)
    assert re.search(message, error), error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_the_recording_itself_is_not_overwritten(files, capsys):
    before = files["plain"].read_bytes()
    error = explain(capsys, files["plain"], "--timeline", files["plain"], code=1)
    assert "is a recording; choose another name" in error
    assert files["plain"].read_bytes() == before


def test_another_file_is_refused(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("no recording")
    assert "is not a recording" in explain(capsys, tmp_path / "notes.txt", "r", code=1)
    assert "cannot read" in explain(capsys, tmp_path / "none.rec", "r", code=1)


def test_an_unknown_id_in_an_empty_recording(recordings):
    with pytest.raises(BlisError, match="there is no request in a"):
        Explainer(recordings["nobody"], "a.rec").find("request_0")
