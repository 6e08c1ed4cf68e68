"""Reading answers: however the bytes arrive, the same is observed."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_observe.exchange import ERROR, OK, Answer, Server, _Exchange


class Body:
    """The content of a response, in pieces."""

    def __init__(self, pieces):
        self.status = 200
        self.content = self
        self._pieces = list(pieces)

    async def iter_any(self):
        while self._pieces:
            yield self._pieces.pop(0)

    def at_eof(self):
        return not self._pieces


def read(pieces, *, streaming=True, skip_empty=False):
    answer, clock = Answer(), itertools.count(1)
    exchange = _Exchange(answer, lambda: next(clock), skip_empty=skip_empty)
    asyncio.run(exchange.read(Body(pieces), streaming=streaming))
    return answer


def event(**fields):
    return b"data: " + json.dumps(fields).encode()


USAGE = {"prompt_tokens": 12, "completion_tokens": 3}
LINES = (
    event(choices=[{"index": 0, "text": "x", "finish_reason": None}]),
    event(choices=[{"index": 0, "text": "größe", "finish_reason": "length"}]),
    event(choices=[], usage=USAGE),
    event(choices=[{"finish_reason": ""}], usage=None),
    b"",
    b": comment",
    b"data:",
    b"data: ",
    b"data: {broken",
    b"data: null",
    b"data: [1]",
    b"event: x",
    b"\xff\xfe",
    b"data: \xff",
    b"data: [DONE] ",
)


@given(
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 2000), max_size=20),
)
def test_pieces_do_not_matter(lines, done, skip_empty, cuts):
    """Chunks, usage and finish reason are those of the whole text."""
    text = b"".join(line + end for line, end in lines) + (b"data: [DONE]\n\n" if done else b"")
    cuts = sorted({min(cut, len(text)) for cut in cuts})
    pieces = [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)]) if a < b]
    answer, whole = read(pieces, skip_empty=skip_empty), read([text], skip_empty=skip_empty)
    for name in ("status", "error", "output_tokens", "input_tokens", "finish_reason"):
        assert getattr(answer, name) == getattr(whole, name)
    assert answer.status == OK
    counted = [line for line, _ in lines if line.startswith(b"data: ")]
    if skip_empty:
        counted = [line for line in counted if b'"choices": [{' in line]
    assert len(answer.chunk_times) == len(whole.chunk_times) == len(counted)
    if counted:
        assert (answer.first, answer.last) == (answer.chunk_times[0], answer.chunk_times[-1])
        assert answer.chunk_times == sorted(answer.chunk_times)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_an_answer(data, streaming):
    answer = read([data] if data else [], streaming=streaming)
    assert answer.status in (OK, ERROR)
    assert (answer.status == OK) or answer.error


@pytest.mark.parametrize("size", [65_535, 65_536, 200_000])
@pytest.mark.parametrize("piece", [1000, 10**6])
def test_longest_line(size, piece):
    text = b"data: " + b"x" * (size - 6) + b"\ndata: [DONE]\n"
    answer = read([text[at : at + piece] for at in range(0, len(text), piece)])
    assert answer.status == (OK if size < 65_536 else ERROR)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"completion_tokens": 3.9, "prompt_tokens": 1e1}, (3, 10)),
        ({"completion_tokens": True, "prompt_tokens": "7"}, (0, 0)),
        ({"completion_tokens": 1e300, "prompt_tokens": -1e300}, (2**63 - 1, -(2**63))),
        ({"completion_tokens": float("nan"), "prompt_tokens": float("inf")}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_counts_of_odd_types(usage, expected):
    answer = read([json.dumps({"usage": usage}).encode()], streaming=False)
    assert (answer.output_tokens, answer.input_tokens) == expected


@pytest.mark.parametrize("closing", ["chunked", "length", "close"])
def test_all_that_came_before_a_cut_counts(closing):
    """Header, three events and the end of the connection in one packet: no event is lost."""
    events = b"".join(line + b"\n\n" for line in LINES[:3])
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    reply = {
        "chunked": head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(events), events),
        "length": head + b"Content-Length: 9999\r\n\r\n" + events,
        "close": head + b"\r\n" + events,
    }[closing]

    async def ask(url):
        answer = Answer()
        async with Server(url, chat=False, api_key="", clock=lambda: 1) as server:
            await server.ask(b"{}", answer, streaming=True, timeout=10)
        return answer

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak():
            connection, _ = listener.accept()
            with connection:
                connection.recv(100_000)
                connection.sendall(reply)

        thread = threading.Thread(target=speak)
        thread.start()
        answer = asyncio.run(ask(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
    assert len(answer.chunk_times) == 3
    assert answer.output_tokens == 3
    assert answer.status == (OK if closing == "close" else ERROR)
