"""Recordings as files: what is written is read, and what is no recording is refused."""

from __future__ import annotations

import json
import zipfile
from itertools import pairwise

import numpy as np
import pytest

from blis_core.api import BlisError, Outcome, Phase, read_recording, simulate, write_recording
from blis_core.cli.main import main
from blis_core.recording.file import VERSION

RUN = "run --model qwen/qwen3-14b --rate 20 --num-requests 30 --num-instances 2".split()


@pytest.fixture(scope="module")
def recording():
    return simulate(
        model="qwen/qwen3-14b", num_instances=2, rate=20, num_requests=30, keep_recording=True
    ).recording


def test_what_is_written_is_read(recording, tmp_path):
    write_recording(tmp_path / "a.rec", recording)
    again = read_recording(tmp_path / "a.rec")
    assert again.ids == recording.ids
    assert again.about == json.loads(json.dumps(recording.about))
    for table in ("requests", "spans", "steps"):
        one, other = getattr(recording, table), getattr(again, table)
        assert set(one) == set(other)
        assert all((one[name] == other[name]).all() for name in one)
    for one, other in zip(recording.itl, again.itl, strict=True):
        assert (one == other).all()
    assert again.names("slo_class") == [""]
    assert (again.begins() == recording.begins()).all()


def test_the_command_line_writes_the_same_bytes_every_time(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written = []
    for _ in range(2):
        assert main([*RUN, "--record", "a.rec"]) == 0
        written.append((tmp_path / "a.rec").read_bytes())
    assert written[0] == written[1]
    text = capsys.readouterr().out
    assert main(RUN) == 0
    assert text == 2 * capsys.readouterr().out


def test_numpy_opens_it(recording, tmp_path):
    path = tmp_path / "a.rec"
    write_recording(path, recording)
    with np.load(path) as archive:
        assert (archive["requests.e2e"] == recording.requests["e2e"]).all()


def test_spans_of_a_request_follow_one_another(recording):
    begins = recording.begins()
    for row in range(len(recording.ids)):
        spans = recording.spans_of(row)
        assert spans[0][0] == recording.requests["arrival"][row]
        assert spans[-1][1] == recording.requests["end"][row]
        assert all(one[1] == other[0] for one, other in pairwise(spans))
        mine = begins[recording.spans["request"] == row].tolist()
        assert mine == [begin for begin, _, _, _ in spans]
        assert spans[-1][2] is Phase.DECODE


def test_the_steps_process_all_tokens(recording):
    prompt, output = (recording.requests[f"{side}_tokens"].sum() for side in ("prompt", "output"))
    cached = recording.requests["cached_tokens"].sum()
    assert recording.steps["prefill_tokens"].sum() == prompt - cached
    assert recording.steps["decode_tokens"].sum() == output - len(recording.ids)
    assert recording.itl[1].sum() == output - len(recording.ids)


def test_nobody_comes(tmp_path):
    recording = simulate(
        model="qwen/qwen3-14b", rate=0.001, num_requests=3, horizon=1000, keep_recording=True
    ).recording
    write_recording(tmp_path / "a.rec", recording)
    assert read_recording(tmp_path / "a.rec").ids == []


def test_all_are_turned_away(tmp_path):
    recording = simulate(
        model="qwen/qwen3-14b", num_requests=3, admission_policy="reject-all", keep_recording=True
    ).recording
    write_recording(tmp_path / "a.rec", recording)
    again = read_recording(tmp_path / "a.rec")
    assert (again.requests["outcome"] == Outcome.REJECTED).all()
    assert (again.requests["instance"] == -1).all()


def test_a_replay_is_recorded_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "--trace-output", "t", "--record", "run.rec"]) == 0
    replay = "replay --model qwen/qwen3-14b --trace-header t.yaml --trace-data t.csv --record r.rec"
    assert main(replay.split()) == 0
    again = read_recording("r.rec")
    assert again.about["command"] == "replay"
    assert len(again.ids) == 30


# -------------------------------------------------------------------------------- bad files


def damage(path, **members):
    """Replace members of an archive; None leaves one out."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()} | members
    with zipfile.ZipFile(path, "w") as archive:
        for name, new in content.items():
            if new is not None:
                archive.writestr(name, new)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"recording.json": None}, "is an archive without recording.json"),
        ({"recording.json": b"[]"}, "is not that of a recording"),
        ({"recording.json": b'{"format": "blis-recording", "format_version": 99}'}, "version 99"),
        (
            {"recording.json": b'{"format": "blis-recording", "format_version": %d}' % VERSION},
            "is damaged",
        ),
        ({"recording.json": b"{"}, "is damaged"),
        ({"requests.e2e.npy": None}, "it has no 'requests.e2e'"),
        ({"requests.e2e.npy": b"nonsense"}, "is damaged"),
        ({"ids.npy": None}, "is damaged"),
    ],
)
def test_a_bad_file_is_refused_by_name(recording, tmp_path, members, message):
    path = tmp_path / "bad.rec"
    write_recording(path, recording)
    damage(path, **members)
    with pytest.raises(BlisError, match=f"bad.rec: .*{message}"):
        read_recording(path)


def test_columns_must_fit_together(recording, tmp_path):
    one = simulate(model="qwen/qwen3-14b", num_requests=3, keep_recording=True).recording
    write_recording(tmp_path / "one.rec", one)
    write_recording(tmp_path / "bad.rec", recording)
    with zipfile.ZipFile(tmp_path / "one.rec") as archive:
        damage(tmp_path / "bad.rec", **{"steps.begin.npy": archive.read("steps.begin.npy")})
    with pytest.raises(BlisError, match="columns of steps differ in length"):
        read_recording(tmp_path / "bad.rec")


@pytest.mark.parametrize("content", [b"", b"not a recording\n", b"PK\x03\x04 cut off"])
def test_another_file_is_no_recording(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(BlisError, match=r"notes.txt: is not a recording; .*--record FILE"):
        read_recording(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(BlisError, match=r"cannot read .*none\.rec"):
        read_recording(tmp_path / "none.rec")


def test_it_is_found_out_before_the_run_that_nothing_can_be_written(tmp_path, capsys):
    assert main([*RUN, "--record", str(tmp_path / "no" / "a.rec")]) == 1
    shown = capsys.readouterr()
    assert "--record: folder" in shown.err
    assert not shown.out
