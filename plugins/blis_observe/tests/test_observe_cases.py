"""``blis observe`` against a fake server, compared with what the reference sends and records.

Times are not compared here. Texts are compared by the places of their words in the vocabulary.
"""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blis_core.cli.main import main
from blis_observe.words import CALIBRATION_PROMPT, WORDS
from plugins.blis_observe.tests.fake_server import FakeServer

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "observe_cases.json").read_text(encoding="utf-8"))
FLAGS = json.loads((DATA / "observe_flags.json").read_text(encoding="utf-8"))
PLACES = {word: place for place, word in enumerate(WORDS)}
_ATTEMPTS = 4
MEANINGS = {
    "timeout": "timeout",
    "header": "invalid header",
    "signal": "interrupted",
    "json": "JSON",
    "line": "too long",
    "connection": "connection",
}
"""What must stand in an error message of a kind."""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case, tmp_path, capfd, monkeypatch):
    """On a machine that stands still for a moment requests overtake one another, and get each
    other's answers; then the case is tried again."""
    for attempt in range(_ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        monkeypatch.chdir(folder)
        try:
            check_case(case, folder, capfd)
        except AssertionError:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def check_case(case, tmp_path, capfd):
    """Run a case and compare everything that it left."""
    for name, text in case.get("files", {}).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = {name.replace("-", "_"): value for name, value in case["server"].items()}
    with FakeServer(**options) as server:
        argv = ["observe", *(word.replace("{URL}", server.url) for word in case["argv"])]
        if case.get("no_server"):
            server.__exit__()
        if "signal" in case:
            code = interrupted(argv, server, case["signal"])
        else:
            code = main(argv)
    assert code == case["exit"]
    assert capfd.readouterr().out == ""
    check_requests(server.log, case)
    check_rows(tmp_path, case)
    check_header(tmp_path, case)
    if "itl" in case:
        check_chunk_times(tmp_path, case["itl"])


def interrupted(argv, server, plan):
    """Run in a process of its own and send it a signal when so many requests have come."""
    command = [
        sys.executable,
        "-c",
        "import sys; from blis_core.cli.main import main; sys.exit(main())",
    ]
    with subprocess.Popen([*command, *argv], stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while len(server.log) < plan["after_requests"] and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(plan["delay_s"])
        process.send_signal(getattr(signal, plan["name"]))
        return process.wait(60)


def described(text):
    words = text.removesuffix(" ").split(" ")
    found = {
        "words": len(words),
        "distinct": len(set(words)),
        "trailing_blank": text.endswith(" "),
    }
    if text != CALIBRATION_PROMPT:
        found["indices"] = " ".join(str(PLACES[word]) for word in words)
    return found


def check_requests(log, case):
    found, wanted = [], []
    for entry in log:
        body = entry["body"]
        if "prompt" in body:
            body["prompt"] = described(body["prompt"])
        else:
            body["messages"][0]["content"] = described(body["messages"][0]["content"])
        if entry["headers"].get("content-type") == "application/json":
            del entry["headers"]["content-type"]
        shown = {key: entry[key] for key in ("path", "body")}
        if entry["calibration"]:
            shown["calibration"] = True
        if entry["headers"]:
            shown["headers"] = entry["headers"]
        assert entry["method"] == "POST"
        found.append(json.dumps(shown, sort_keys=True))
    for entry in case["requests"]:
        entry = json.loads(json.dumps(entry))
        entry.pop("answer")
        for text in (entry["body"].get("prompt"), *(
            message["content"] for message in entry["body"].get("messages", ())
        )):  # fmt: skip
            if text is not None:
                check_prefix(text, case)
        wanted.append(json.dumps(entry, sort_keys=True))
    # with several connections the order of arrival is the machine's
    assert sorted(found) == sorted(wanted)


def check_prefix(text, case):
    """The recorded prompt begins as its group does."""
    group = text.pop("starts_with_prefix_of", None)
    if group is not None:
        prefix = " ".join(map(str, case["prefix_indices"][group]))
        assert text["indices"].startswith(prefix + " ")


def check_rows(folder, case):
    path = folder / case["argv"][case["argv"].index("--trace-data") + 1]
    assert path.exists() == ("rows" in case)
    if "rows" not in case:
        return
    found = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    wanted = list(csv.DictReader(io.StringIO(case["rows"], newline="")))
    # concurrent answers may overtake one another, and concurrent requests their numbers
    key = lambda row: (row["session_id"], int(row["round_index"]), row["client_id"],  # noqa: E731
                       int(row["input_tokens"]), row["arrival_time_us"], row["status"])  # fmt: skip
    for rows in (found, wanted):
        numbers = {int(row["request_id"]) for row in rows}
        assert len(numbers) == len(rows)
        for row in rows:
            if int(row["round_index"]) > 0 and not case.get("open_loop"):
                row["arrival_time_us"] = "T"
                row["deadline_us"] = "T" if row["deadline_us"] != "0" else "0"
    assert {row["request_id"] for row in found} == {row["request_id"] for row in wanted}
    for row, expected in zip(sorted(found, key=key), sorted(wanted, key=key), strict=True):
        check_row(row, expected)


def check_row(row, expected):
    for name, value in expected.items():
        if name == "request_id":
            continue
        if value == "T" and name not in ("arrival_time_us", "deadline_us"):
            assert int(row[name]) > 10**15, name
        elif name == "error_message" and value.startswith("E:"):
            assert MEANINGS[value[2:]] in row[name]
        else:
            assert row[name] == value, name
    times = [int(row[f"{name}_time_us"]) for name in ("send", "first_chunk", "last_chunk")]
    assert [time for time in times if time] == sorted(time for time in times if time)


def check_header(folder, case):
    path = folder / case["header"]["file"]
    text = re.sub(r'(?m)^created_at: "?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"?$' , "created_at: T",
                  path.read_text(encoding="utf-8"))  # fmt: skip
    assert text.splitlines() == case["header"]["lines"]


def check_chunk_times(folder, expected):
    lines = (folder / expected["file"]).read_text().splitlines()
    assert lines[0] == expected["chunks"]["columns"]
    counts = {}
    previous = {}
    for line in lines[1:]:
        number, chunk, time_us = map(int, line.split(","))
        assert chunk == counts.get(number, 0)
        assert time_us >= previous.get(number, 0)
        counts[number], previous[number] = chunk + 1, time_us
    assert sorted(counts.items()) == sorted(map(tuple, expected["chunks"]["id_count"]))


@pytest.mark.parametrize("case", FLAGS["cases"], ids=lambda case: " ".join(case["argv"][8:]))
def test_flags(case, tmp_path, capfd):
    for name, text in FLAGS["files"].items():
        (tmp_path / name).write_text(text)
    assert main(["observe", *case["argv"]]) == case["exit"]
    out, err = capfd.readouterr()
    if "--help" not in case["argv"]:
        assert out == ""
    if case["exit"]:
        assert "blis: error: " in err
        assert "Traceback" not in err
    path = tmp_path / "t.csv"
    assert path.exists() == (case["rows"] is not None)
    if case["rows"] is not None:
        with path.open(newline="") as file:
            rows = sorted(
                [
                    int(row["arrival_time_us"]),
                    row["client_id"],
                    row["session_id"],
                    row["prefix_group"],
                    int(row["prefix_length"]),
                    int(row["input_tokens"]),
                ]
                for row in csv.DictReader(file)
            )
        assert rows == case["rows"]


@pytest.mark.parametrize("exact", [False, True])
def test_when_follow_ups_are_sent(exact, tmp_path):
    """Usually behind the request of the workload that is waited for, on request when due."""
    case = next(case for case in CASES if case["name"] == "sessions")
    (tmp_path / "workload.yaml").write_text(case["files"]["workload.yaml"])
    with FakeServer(gap_ms=1) as server:
        argv = [word.replace("{URL}", server.url) for word in case["argv"]]
        assert main(["observe", *argv, *(["--exact-follow-ups"] if exact else [])]) == 0
    with (tmp_path / "trace.csv").open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["request_id"]))
    assert len(rows) == 9
    arrivals = [int(row["arrival_time_us"]) for row in rows]
    assert (arrivals == sorted(arrivals)) == exact
    # the first follow-up is due long before the second request
    assert [row["round_index"] for row in rows[:2]] == (["0", "1"] if exact else ["0", "0"])
