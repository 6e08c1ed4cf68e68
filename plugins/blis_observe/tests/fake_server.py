"""A deterministic fake of an OpenAI-compatible server on loopback, with every fault it may have.

The k-th request (the calibration request does not count) is answered by entry k of the plan, which
starts anew at its end. What was asked is kept in ``FakeServer.log``.

Answers of a plan:

- ``ok``; ``slow``, ``stall``: 400 ms, 8 s before the header; ``reset``, ``close``: before it;
- ``CODE``, ``CODE-body``, ``-text``, ``-utf8``, ``-long``, ``-ok``, ``-stall``: a status other than
  200 and its body;
- usage, finish reasons, choices and bodies of odd kinds: see ``plain``;
- ``json-X``: plain answer X even to a request for a stream;
- forms, contents and ends of streams: see ``stream``.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import struct
import threading

KEEP = ("content-type", "authorization", "x-gateway-inference-fairness-id",
        "x-gateway-inference-objective")  # fmt: skip
REASON = {200: "OK", 201: "Created", 204: "No Content", 302: "Found", 429: "Too Many Requests"}


class Reset(Exception):
    pass


def prompt_of(b):
    if not isinstance(b, dict):
        return ""
    if isinstance(b.get("prompt"), str):
        return b["prompt"]
    m = b.get("messages") or [{}]
    return m[0].get("content") or ""


def is_calibration(b):
    return (
        isinstance(b, dict)
        and b.get("max_tokens") == 1
        and not b.get("stream")
        and len(prompt_of(b).split()) == 100
    )


def head(code, ctype="application/json", length=None, chunked=False, close=False, extra=()):
    h = [f"HTTP/1.1 {code} {REASON.get(code, 'X')}", "Content-Type: " + ctype]
    if length is not None:
        h.append(f"Content-Length: {length}")
    if chunked:
        h.append("Transfer-Encoding: chunked")
    if close:
        h.append("Connection: close")
    return ("\r\n".join(h + list(extra)) + "\r\n\r\n").encode()


class Answer:
    def __init__(self, server, sock, path, body, kind):
        self.server = server
        self.s, self.body, self.kind = sock, body if isinstance(body, dict) else {}, kind
        self.chat = path.endswith("/chat/completions")
        self.words = len(prompt_of(self.body).split())
        mt = self.body.get("max_tokens")
        self.n = min(mt if isinstance(mt, int) else server.tokens, server.tokens)
        self.finish = "length" if self.n == mt else "stop"
        self.usage = {
            "prompt_tokens": int(self.words * server.tpw + 0.5),
            "completion_tokens": self.n,
        }
        self.usage["total_tokens"] = sum(self.usage.values())
        self.chunked = True
        self.close = False

    # -- raw output
    def send(self, b):
        self.s.sendall(b)

    def whole(self, code, data, ctype="application/json", extra=()):
        self.send(head(code, ctype, len(data), extra=extra) + data)

    def piece(self, text):
        d = text.encode()
        self.send(b"%x\r\n%s\r\n" % (len(d), d) if self.chunked else d)

    def event(self, obj, eol="\n\n", lead="data: "):
        self.piece(lead + (obj if isinstance(obj, str) else json.dumps(obj)) + eol)

    # -- objects
    def full(self, **kw):
        c = {"index": 0, "finish_reason": self.finish}
        c["message" if self.chat else "text"] = (
            {"role": "assistant", "content": "x"} if self.chat else "x"
        )
        d = {"id": "r", "object": "x", "model": "served-name", "choices": [c], "usage": self.usage}
        d.update(kw)
        return d

    def chunk(self, finish=None, text="x"):
        c = {"index": 0, "finish_reason": finish}
        c["delta" if self.chat else "text"] = {"content": text} if self.chat else text
        return {"id": "r", "object": "x", "model": "served-name", "choices": [c]}

    def gap(self):
        self.server.sleep(self.server.gap_ms / 1000)

    # -- behaviours
    def run(self):
        k = self.kind
        if k == "slow":
            self.server.sleep(0.4)
        elif k == "stall":
            self.server.sleep(8)
            raise Reset
        elif k == "reset":
            raise Reset
        elif k == "close":
            self.close = True
            return
        if k[:3].isdigit():
            code, what = int(k[:3]), k[4:]
            if code == 302 or code == 307:
                self.whole(code, b"", extra=("Location: /v1/elsewhere",))
                return
            if what == "stall":
                self.send(head(code, length=50) + b'{"partial"')
                self.server.sleep(8)
                raise Reset
            data = {
                "": b"",
                "body": b'{"error": {"message": "no, \\"thanks\\"", "code": %d}}' % code,
                "text": b" line one\nline two \n",
                "utf8": "trop de requêtes".encode(),
                "long": b"z" * 1500,
                "ok": json.dumps(self.full()).encode(),
            }[what]
            if code == 204:
                self.send(b"HTTP/1.1 204 No Content\r\n\r\n")
                return
            self.whole(code, data)
            return
        if self.body.get("stream") and not k.startswith("json-"):
            self.stream(k)
            return
        self.plain(k.removeprefix("json-"))

    def plain(self, k):
        d = self.full()
        ch = d["choices"][0]
        if k == "nousage":
            del d["usage"]
        elif k == "usage-null":
            d["usage"] = None
        elif k == "usage-text":
            d["usage"] = {"prompt_tokens": "12", "completion_tokens": "3"}
        elif k == "usage-float":
            d["usage"] = {"prompt_tokens": 12.9, "completion_tokens": 3.7}
        elif k == "usage-exp":
            d["usage"] = {"prompt_tokens": 1e1, "completion_tokens": None}
        elif k == "usage-negative":
            d["usage"] = {"prompt_tokens": 12, "completion_tokens": -3}
        elif k == "finish-null":
            ch["finish_reason"] = None
        elif k == "finish-number":
            ch["finish_reason"] = 3
        elif k == "abort":
            ch["finish_reason"] = "abort"
        elif k == "finish-odd":
            ch["finish_reason"] = 'tool, "call" '
        elif k == "nochoices":
            del d["choices"]
        elif k == "choices-empty":
            d["choices"] = []
        elif k == "two-choices":
            d["choices"].append({"index": 1, "finish_reason": "abort"})
        elif k == "choice-order":
            d["choices"] = [{"index": 1, "finish_reason": "abort"}, ch]
        elif k == "usage-bool":
            d["usage"] = {"prompt_tokens": True, "completion_tokens": [3]}
        elif k == "error-200":
            d = {"error": {"message": "overloaded"}}
        data = json.dumps(d).encode()
        if k == "empty":
            self.whole(200, b"")
            return
        if k == "badjson":
            self.whole(200, b"<html>no</html>", "text/html")
            return
        if k == "array":
            self.whole(200, b"[1]")
            return
        if k == "null":
            self.whole(200, b"null")
            return
        if k == "trailing":
            self.whole(200, data + b" garbage")
            return
        if k == "ctype":
            self.whole(200, data, "text/plain")
            return
        if k == "gzip":
            self.whole(200, gzip.compress(data), extra=("Content-Encoding: gzip",))
            return
        if k == "chunked":
            self.send(head(200, chunked=True))
            for i in range(0, len(data), 60):
                self.piece(data[i : i + 60].decode())
                self.gap()
            self.send(b"0\r\n\r\n")
            return
        if k in ("slowbody", "stallbody", "resetbody", "cutbody"):
            self.send(head(200, length=len(data)))
            self.server.sleep(0.1)
            self.send(data[:20])
            if k == "slowbody":
                self.server.sleep(0.3)
                self.send(data[20:])
                return
            if k == "stallbody":
                self.server.sleep(8)
            if k == "cutbody":
                self.close = True
                return
            self.server.sleep(0.05)
            raise Reset
        self.whole(200, data)

    def stream(self, k):
        eof = k in ("eof", "tail", "eofline")
        self.chunked, self.close = not eof, eof
        if k == "empty":
            self.whole(200, b"", "text/event-stream")
            return
        self.send(
            head(
                200,
                "application/json" if k == "ctype" else "text/event-stream",
                chunked=self.chunked,
                close=eof,
            )
        )
        eol = "\r\n\r\n" if k == "crlf" else "\n\n"
        if k in ("role", "role-empty"):
            c = self.chunk()
            c["choices"][0].update(
                {"delta": {"role": "assistant", "content": ""}} if k == "role" else {"delta": {}}
            )
            self.event(c)
            self.gap()
        if k == "done-only":
            self.event("[DONE]")
            self.send(b"0\r\n\r\n")
            return
        for i in range(self.n):
            if i:
                self.gap()
            last = i == self.n - 1
            c = self.chunk(self.finish if last else None)
            if i == 2 and k in ("stallmid", "resetmid", "cutmid", "eof", "usage-then-stall"):
                self.event(c)
                if k == "usage-then-stall":
                    self.event(dict(self.chunk("stop"), usage=self.usage))
                if k in ("stallmid", "usage-then-stall"):
                    self.server.sleep(8)
                if k in (
                    "cutmid",
                    "eof",
                ):  # chunked body without its end, or body delimited by the end of the connection
                    self.close = True
                    return
                self.server.sleep(0.05)
                raise Reset
            if i == 2 and k in ("cutline", "eofline", "stallline"):  # the end comes inside a line
                self.piece("data: " + json.dumps(c)[:20])
                self.close = True
                if k == "stallline":
                    self.server.sleep(8)
                return
            if k == "choice-order":
                c["choices"].insert(0, {"index": 1, "finish_reason": "abort" if last else None})
            if k == "malformed":
                if i == 0:
                    self.piece(": comment\nevent: ping\nid: 7\nretry: 10\n\n")
                    self.event("{not json")
                if i == 1:
                    self.piece(
                        'data:{"usage": {"completion_tokens": 99, "prompt_tokens": 98}}\n\n'
                    )  # no blank after the colon
                    self.piece(
                        ' data: {"usage": {"completion_tokens": 97, "prompt_tokens": 96}}\n\n'
                    )  # leading blank
                if i == 2:
                    self.event("")
                    self.event("[DONE")
                    self.event("null")
                    self.event("[1, 2]")
            if k == "error-event" and i == 2:
                self.event({"error": {"message": "overloaded", "code": 503}})
                self.event("[DONE]")
                self.send(b"0\r\n\r\n")
                return
            if k == "bigline" and i == 2:
                c = self.chunk(text="y" * 70000)
            if k == "nearline" and i == 2:
                c = self.chunk(text="y" * 60000)
            if k == "abort" and last:
                c = self.chunk("abort")
            if k == "usage-each":
                c["usage"] = {"prompt_tokens": 40 + i, "completion_tokens": i + 1}
            if k == "usage-last" and last:
                c["usage"] = self.usage
            if k == "usage-nulls":
                c["usage"] = None
            if k == "finish-early" and i == 1:
                c = self.chunk("stop")
            if k == "finish-early" and last:
                c = self.chunk("")
            if k == "nodata-blank":
                self.event(c, lead="data:")
                continue
            if k == "split" and i == 1:  # one event in two writes, two events in one write
                t = "data: " + json.dumps(c) + "\n\n"
                self.piece(t[:9])
                self.server.sleep(0.1)
                self.piece(t[9:] + t)
                continue
            self.event(c, eol)
        if k not in ("nousage", "usage-last", "usage-each"):
            u = dict(self.usage)
            if k == "usage-partial":
                self.event({"choices": [], "usage": u})
                u = {"total_tokens": 1}
            if k == "usage-float":
                u = {"prompt_tokens": 12.9, "completion_tokens": "3"}
            self.event({"choices": [], "usage": u}, "" if k == "tail" else eol)
            if k == "tail":  # last line without a line end, no [DONE]
                return
        if k == "done-blanks":
            self.event("[DONE]  ")
        elif k == "nodone":
            pass
        elif k == "nodata-blank":
            self.event("[DONE]", lead="data:")
        else:
            self.event("[DONE]", eol)
        if k == "after-done":
            self.event(
                dict(self.chunk("abort"), usage={"prompt_tokens": 1, "completion_tokens": 1})
            )
        if k == "done-hang":  # the body stays open after [DONE]
            self.server.sleep(0.6)
        if self.chunked:
            self.send(b"0\r\n\r\n")


class FakeServer:
    """Listens on a free port while used as a context manager."""

    def __init__(self, plan="ok", calib="ok", tpw=1.5, tokens=6, gap_ms=15.0):
        self.plan = plan.split(",")
        self.calib, self.tpw, self.tokens, self.gap_ms = calib, tpw, tokens, gap_ms
        self.log = []
        self.stopped = threading.Event()
        self._count = 0
        self._lock = threading.Lock()
        self._connections = []
        self._threads = []

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for opened in (self._socket, *self._connections):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        for thread in self._threads:
            thread.join()

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            self._start(self._serve, connection)

    def sleep(self, seconds):
        if self.stopped.wait(seconds):
            raise Reset

    def _note(self, method, path, headers, body):
        """Log a request; returns the answer that it gets."""
        calibration = is_calibration(body)
        with self._lock:
            kind = self.calib
            if not calibration:
                kind = self.plan[self._count % len(self.plan)]
                self._count += 1
            self.log.append(
                {
                    "behaviour": kind,
                    "calibration": calibration,
                    "method": method,
                    "path": path,
                    "headers": {name: headers[name] for name in KEEP if name in headers},
                    "body": body,
                }
            )
        return kind

    def _serve(self, connection):
        file = connection.makefile("rb")
        try:
            while line := file.readline():
                method, path = line.decode("latin-1").split()[:2]
                headers = {}
                while header := file.readline().decode("latin-1").strip():
                    name, value = header.split(":", 1)
                    headers[name.lower()] = value.strip()
                raw = file.read(int(headers.get("content-length", "0")))
                try:
                    body = json.loads(raw)
                except ValueError:
                    body = raw.decode("utf-8", "replace")
                answer = Answer(
                    self, connection, path, body, self._note(method, path, headers, body)
                )
                answer.run()
                if answer.close:
                    return
        except Reset:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (OSError, ValueError):
            pass
        finally:
            file.close()
            connection.close()
