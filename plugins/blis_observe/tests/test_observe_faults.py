"""``blis observe`` and servers that misbehave: nothing hangs, nothing is lost, each request has a
row. All over real sockets."""

from __future__ import annotations

import csv
import json
import socket
import time
from pathlib import Path

import pytest

from blis_core.api import read_trace
from blis_core.cli.main import main
from plugins.blis_observe.tests.fake_server import FakeServer

SPEC = """\
version: "2"
seed: 3
aggregate_rate: 400
num_requests: {count}
clients:
  - id: c
    rate_fraction: 1
    arrival: {{process: constant}}
    streaming: {streaming}
    input_distribution: {{type: constant, params: {{value: 9}}}}
    output_distribution: {{type: constant, params: {{value: 20}}}}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def observe(url, *options, count=1, streaming=True):
    """Observe ``count`` requests; returns the rows by request id."""
    Path("workload.yaml").write_text(
        SPEC.format(count=count, streaming="true" if streaming else "false")
    )
    argv = ["observe", "--server-url", url, "--model", "m", "--workload-spec", "workload.yaml"]
    argv += ["--trace-header", "t.yaml", "--trace-data", "t.csv", *options]
    assert main(argv) == 0
    with Path("t.csv").open(newline="", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["request_id"]))
    assert [row["request_id"] for row in rows] == [str(number) for number in range(count)]
    return rows


def answers(plan, *options, streaming=True, **settings):
    """One row for each entry of a plan."""
    with FakeServer(plan=plan, gap_ms=5, **settings) as server:
        # one after the other, so that the k-th request gets the k-th answer
        return observe(
            server.url,
            "--max-concurrency",
            "1",
            *options,
            count=len(plan.split(",")),
            streaming=streaming,
        )


@pytest.mark.parametrize(
    ("behaviour", "streaming", "status", "text", "chunks"),
    [
        ("reset", True, "error", "connection failed", 0),
        ("close", True, "error", "connection failed", 0),
        ("reset", False, "error", "connection failed", 0),
        ("resetmid", True, "error", "connection failed", 3),
        ("cutmid", True, "error", "connection failed", 3),
        ("eof", True, "ok", "", 3),
        ("resetbody", False, "error", "connection failed", 0),
        ("cutbody", False, "error", "connection failed", 0),
        ("stall", True, "timeout", "timeout after 1 s, waiting for the response header", 0),
        ("stall", False, "timeout", "timeout after 1 s, waiting for the response header", 0),
        ("stallbody", False, "timeout", "timeout after 1 s, waiting for the response body", 0),
        ("stallmid", True, "timeout", "timeout after 1 s, waiting for the stream", 3),
        ("usage-then-stall", True, "timeout", "timeout after 1 s", 4),
        ("stallline", True, "timeout", "timeout after 1 s", 2),
        ("429", True, "error", "HTTP 429: ", 0),
        ("429-body", False, "error", 'HTTP 429: {"error": {"message": "no, \\"thanks\\""', 0),
        ("500", False, "error", "HTTP 500: ", 0),
        ("500-body", True, "error", 'HTTP 500: {"error"', 0),
        ("500-long", True, "error", "HTTP 500: " + "z" * 1500, 0),
        ("500-stall", True, "error", 'HTTP 500: {"partial"', 0),
        ("302", False, "error", "HTTP 302: ", 0),
        ("307", True, "error", "HTTP 307: ", 0),
        ("204", False, "error", "HTTP 204: ", 0),
        ("malformed", True, "ok", "", 12),
        ("nousage", True, "ok", "", 6),
        ("nousage", False, "ok", "", 1),
        ("nearline", True, "ok", "", 7),
        ("bigline", True, "error", "too long", 2),
        ("ctype", True, "ok", "", 7),
        ("ctype", False, "ok", "", 1),
        ("json-ok", True, "ok", "", 0),
        ("empty", True, "ok", "", 0),
        ("empty", False, "error", "not JSON", 1),
        ("badjson", False, "error", "not JSON", 1),
        ("array", False, "error", "not an object", 1),
        ("done-hang", True, "ok", "", 7),
        ("error-event", True, "ok", "", 3),
    ],
)
def test_fault(behaviour, streaming, status, text, chunks):
    # what comes after a fault is not touched by it
    options = ["--timeout", "1"] if "stall" in behaviour else []
    row, after = answers(f"{behaviour},ok", *options, streaming=streaming)
    assert row["status"] == status
    assert text in row["error_message"]
    assert bool(row["error_message"]) == (status != "ok")
    assert int(row["num_chunks"]) == chunks
    assert int(row["send_time_us"]) > 0
    assert bool(int(row["first_chunk_time_us"])) == (chunks > 0)
    assert (after["status"], after["output_tokens"]) == ("ok", "6")


def test_an_answer_after_the_time_limit_is_a_timeout():
    """The limit is on the whole exchange: a slow drip does not extend it."""
    rows = answers("ok,ok", "--timeout", "1", tokens=18)  # 17 gaps
    assert {row["status"] for row in rows} == {"ok"}
    with FakeServer(gap_ms=150, tokens=20) as server:
        (row,) = observe(server.url, "--timeout", "1")
    assert row["status"] == "timeout"
    assert 1 <= int(row["num_chunks"]) < 20


def test_nobody_listens():
    with socket.socket() as reserved:  # bound, never listening
        reserved.bind(("127.0.0.1", 0))
        rows = observe(f"http://127.0.0.1:{reserved.getsockname()[1]}", count=20)
    assert {row["status"] for row in rows} == {"error"}
    assert all("connection failed" in row["error_message"] for row in rows)


@pytest.mark.parametrize(
    "url", ["localhost", "ftp://127.0.0.1:1", "http://", "http://[::1", "http://127.0.0.1:x"]
)
def test_an_address_that_is_none(url):
    (row,) = observe(url)
    assert row["status"] == "error"
    assert row["error_message"]


def test_a_server_that_accepts_and_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        # the calibration request must not hang for long either: it has its own limit
        began = time.monotonic()
        rows = observe_without_calibration(url)
        assert time.monotonic() - began < 25
    assert {row["status"] for row in rows} == {"timeout"}


def observe_without_calibration(url):
    from blis_observe import observe as module

    limit, module._CALIBRATION_S = module._CALIBRATION_S, 0.5
    try:
        return observe(url, "--timeout", "1", count=3)
    finally:
        module._CALIBRATION_S = limit


@pytest.mark.parametrize(
    "reply",
    [
        b"\x00\x01\x02 nonsense\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
)
def test_no_http(reply):
    """Whatever a port says, the exchange ends with a row."""
    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(100_000)
                    connection.sendall(reply)

        thread = threading.Thread(target=speak)
        thread.start()
        rows = observe(f"http://127.0.0.1:{listener.getsockname()[1]}", count=3)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert {row["status"] for row in rows} == {"error"}


def test_everything_at_once():
    """A hundred requests, ten kinds of trouble: as many rows, each with its own fate."""
    plan = "ok,429-body,resetmid,cutmid,500,malformed,empty,close,slow,stall"
    with FakeServer(plan=plan, gap_ms=2) as server:
        rows = observe(server.url, "--timeout", "2", "--record-itl", count=100)
    assert len(rows) == 100
    by_status = {status: [row for row in rows if row["status"] == status] for status in
                 ("ok", "error", "timeout")}  # fmt: skip
    assert {status: len(found) for status, found in by_status.items()} == {
        "ok": 40,
        "error": 50,
        "timeout": 10,
    }
    # the trace can be read, and has the times of exactly the streams that ended well
    trace = read_trace("t.yaml", "t.csv")
    assert len(trace.rows) == 100
    timed = {line.split(",")[0] for line in Path("t.itl.csv").read_text().splitlines()[1:]}
    assert timed == {row["request_id"] for row in by_status["ok"] if row["num_chunks"] != "0"}


def test_summary_names_the_failures(capsys):
    answers("429-body,429-body,ok,stall", "--timeout", "1")
    err = capsys.readouterr().err
    assert "4 requests sent: 1 ok, 2 error, 1 timeout" in err
    assert '2 x HTTP 429: {"error"' in err
    assert "sent after the intended time" in err
    assert "waited for one of the 1 places in flight" in err


def test_headers_that_cannot_be_sent():
    with FakeServer() as server:
        Path("w.yaml").write_text(
            SPEC.format(count=1, streaming="true")
            + '    tenant_id: "a\\nb"\n    slo_class: batch\n'
        )
        argv = ["observe", "--server-url", server.url, "--model", "m", "--workload-spec"]
        argv += ["w.yaml", "--trace-header", "t.yaml", "--trace-data", "t.csv"]
        assert main(argv) == 0
        assert len(server.log) == 1  # the calibration
    (row,) = csv.DictReader(Path("t.csv").read_text().splitlines(True))
    assert row["status"] == "error"


def test_files_that_cannot_be_written(capsys, tmp_path):
    common = ["observe", "--server-url", "http://127.0.0.1:1", "--model", "m", "--rate", "50"]
    common += ["--num-requests", "1"]
    for wrong in (
        ["--trace-header", "none/t.yaml", "--trace-data", "t.csv"],
        ["--trace-header", "t.yaml", "--trace-data", "none/t.csv"],
        ["--trace-header", "same", "--trace-data", "same"],
        ["--trace-header", ".", "--trace-data", "t.csv"],
    ):
        assert main([*common, *wrong]) == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_body_of_a_request():
    """The API key, and nothing that was not asked for."""
    with FakeServer() as server:
        observe(server.url, "--api-key", "secret", "--unconstrained-output", "--api-format", "chat")
        entry = server.log[-1]
    assert entry["headers"]["authorization"] == "Bearer secret"
    assert set(entry["body"]) == {"model", "messages", "stream", "stream_options"}
    json.dumps(entry["body"])


@pytest.mark.parametrize("side", ["input", "output"])
def test_a_workload_that_fails_on_the_way(side, tmp_path, capsys):
    """What was measured until then is written, and the error is told."""
    (tmp_path / "odd.py").write_text(
        "from blis_core.api import BlisError, LengthSampler, hookimpl\n"
        "class Odd(LengthSampler):\n"
        "    def __init__(self, setup):\n"
        "        self.left = 6\n"
        "    def sample(self, rng, n):\n"
        "        self.left -= n\n"
        "        if self.left < 0:\n"
        "            raise BlisError('no lengths left')\n"
        "        return [5] * n\n"
        "@hookimpl\n"
        "def blis_register_length_samplers(register):\n"
        "    register('odd', Odd)\n"
    )
    spec = SPEC.format(count=20, streaming="false").replace(
        f"{side}_distribution: {{type: constant", f"{side}_distribution: {{type: odd"
    )
    Path("w.yaml").write_text(spec)
    with FakeServer() as server:
        argv = ["observe", "--plugin", "odd.py", "--server-url", server.url, "--model", "m"]
        argv += ["--workload-spec", "w.yaml", "--trace-header", "t.yaml", "--trace-data", "t.csv"]
        assert main(argv) == 1
    assert capsys.readouterr().err.endswith("blis: error: no lengths left\n")
    rows = read_trace("t.yaml", "t.csv").rows
    assert [row.status for row in rows] == ["ok"] * 6


def test_sessions_that_fail_on_the_way(tmp_path, capsys):
    (tmp_path / "odd.py").write_text(
        "from blis_core.api import BlisError, LengthSampler, hookimpl\n"
        "made = []\n"
        "class Odd(LengthSampler):\n"
        "    def sample(self, rng, n):\n"
        "        made.extend([5] * n)\n"
        "        if len(made) > 8:\n"
        "            raise BlisError('no lengths left')\n"
        "        return [5] * n\n"
        "@hookimpl\n"
        "def blis_register_length_samplers(register):\n"
        "    register('odd', lambda setup: Odd())\n"
    )
    Path("w.yaml").write_text(
        SPEC.format(count=20, streaming="false")
        .replace("    rate_fraction: 1\n", "    concurrency: 2\n")
        .replace("aggregate_rate: 400\n", "")
        .replace("input_distribution: {type: constant", "input_distribution: {type: odd")
    )
    with FakeServer() as server:
        argv = ["observe", "--plugin", "odd.py", "--server-url", server.url, "--model", "m"]
        argv += ["--workload-spec", "w.yaml", "--trace-header", "t.yaml", "--trace-data", "t.csv"]
        assert main(argv) == 1
    assert capsys.readouterr().err.endswith("blis: error: no lengths left\n")
    assert len(read_trace("t.yaml", "t.csv").rows) >= 7
