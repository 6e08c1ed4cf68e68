"""``blis probe`` against HTTP servers on loopback."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from blis_core.cli.main import main

MODELS = json.dumps({"object": "list", "data": [{"id": "qwen/qwen3-14b"}, {"id": "lora-1"}]})


@contextmanager
def server(answers, *, key=None, delay=0.0):
    """A server with fixed answers: path -> (status, body)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if delay:
                stopped.wait(delay)
            status, body = answers.get(self.path, (404, "not found"))
            if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
                status, body = 401, "who are you?"
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request, client_address):
            """A client that has given up waiting is no error here."""

    stopped = threading.Event()
    with Quiet(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            stopped.set()
            running.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def no_key_or_proxy(monkeypatch):
    for name in ("OPENAI_API_KEY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("suffix", ["", "/", "/v1"])
def test_healthy_server(capsys, suffix):
    with server({"/v1/models": (200, MODELS), "/health": (200, "")}) as url:
        assert main(["probe", "--server-url", url + suffix]) == 0
    out, err = capsys.readouterr()
    assert "models      qwen/qwen3-14b, lora-1" in out
    assert "health      ok" in out
    assert "median of 5" in out
    assert err == ""


def test_json(capsys):
    with server({"/v1/models": (200, MODELS)}) as url:
        assert main(["probe", "--server-url", url, "--json", "--rounds", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["models"] == ["qwen/qwen3-14b", "lora-1"]
    assert report["health"] == "no health endpoint"
    assert report["round_trip_ms"]["samples"] == 3
    assert 0 < report["round_trip_ms"]["min"] <= report["round_trip_ms"]["median"]


def test_api_key(capsys, monkeypatch):
    with server({"/v1/models": (200, MODELS)}, key="secret") as url:
        assert main(["probe", "--server-url", url]) == 1
        assert "--api-key" in capsys.readouterr().err
        assert main(["probe", "--server-url", url, "--api-key", "secret"]) == 0
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        assert main(["probe", "--server-url", url]) == 0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((500, "oops"), "HTTP 500"),
        ((404, "nothing"), "OpenAI-compatible"),
        ((200, "<html>"), "not a list of models"),
        ((200, "[]"), "not a list of models"),
        ((200, '{"data": [{}]}'), "not a list of models"),
        ((200, '{"data": []}'), "serves no model"),
    ],
)
def test_strange_answers(capsys, answer, expected):
    with server({"/v1/models": answer}) as url:
        assert main(["probe", "--server-url", url]) == 1
    check_error(capsys, expected)


def test_sick_server_is_reported(capsys):
    with server({"/v1/models": (200, MODELS), "/health": (503, "")}) as url:
        assert main(["probe", "--server-url", url]) == 0
    assert "health      HTTP 503" in capsys.readouterr().out


def test_nobody_listens(capsys):
    with socket.socket() as reserved:  # bound, never listening
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        assert main(["probe", "--server-url", url]) == 1
    check_error(capsys, "cannot be reached")


def test_no_answer_in_time(capsys):
    with server({"/v1/models": (200, MODELS)}, delay=5) as url:
        assert main(["probe", "--server-url", url, "--timeout", "0.1"]) == 1
    check_error(capsys, "no answer within 0.1 s")


@pytest.mark.parametrize("url", ["localhost:8000", "", "ftp://x", "http://", "http://[::1"])
def test_bad_address(capsys, url):
    assert main(["probe", "--server-url", url]) == 1
    check_error(capsys, "blis: error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--server-url", "http://x", "--timeout", "0"],
        ["--server-url", "http://x", "--rounds=0"],
    ],
)
def test_usage(capsys, arguments):
    assert main(["probe", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 2  # the error and a hint


def check_error(capsys, expected):
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert expected in err
