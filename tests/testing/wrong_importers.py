"""Importers with one mistake each."""

from __future__ import annotations

import itertools
from pathlib import Path

from blis_core.api import BlisError, ImportedRequest, Importer
from blis_core.testing import ImporterTests


class Fine(Importer):
    """One request per line: ``<us> <prompt> <answer>``, blocks behind it."""

    block_tokens = 4

    def read(self, path):
        try:
            with Path(path).open(encoding="utf-8") as file:
                return [self.request(*map(int, line.split())) for line in file]
        except (OSError, ValueError, TypeError) as problem:
            raise BlisError(f"{path}: {problem}") from None

    def request(self, arrival, n_in, n_out, *blocks):
        return ImportedRequest(arrival, n_in, n_out, blocks)


def importer(law, message, base=Fine, sample="0 9 1 5 6\n7 4 2 5\n8 3 0\n", **members):
    made = type("Wrong", (base,), members)
    return (
        type(
            "Kit",
            (ImporterTests,),
            {"make": lambda self, setup: made(setup), "sample": lambda self: sample},
        ),
        law,
        message,
    )


class Forgetful(Fine):
    seen = itertools.count()

    def read(self, path):
        return super().read(path)[next(self.seen) % 2 :]


def trusting(self, path):
    with Path(path).open(encoding="utf-8") as file:
        return [self.request(*map(int, line.split())) for line in file]


def careless(self, path):
    try:
        return trusting(self, path)
    except (OSError, ValueError):
        raise BlisError("cannot read it") from None


def lenient(self, path):
    try:
        return trusting(self, path)
    except (OSError, ValueError):
        return [ImportedRequest(0, 1, 1)]


CASES = [
    importer("requests_are_possible", "no request", sample=""),
    importer("requests_are_possible", "block_tokens returned -1", block_tokens=-1),
    importer("requests_are_possible", "give an ImportedRequest", request=lambda s, *a: a),
    importer(
        "requests_are_possible",
        "arrival_us of",
        request=lambda s, t, *a: ImportedRequest(t / 2, a[0], a[1]),
    ),
    importer(
        "requests_are_possible",
        "at least 0",
        request=lambda s, t, n, *a: ImportedRequest(t, n, -1),
    ),
    importer("requests_are_possible", "the format has none", block_tokens=0),
    importer("requests_are_possible", "do not fit into the prompt", sample="0 4 1 5 6\n"),
    importer("requests_are_possible", "a number in blocks", sample="0 4 1 -5\n"),
    importer("reading_again_gives_the_same", "gives other requests", Forgetful),
    importer("what_cannot_be_read_is_named", "made read() raise UnicodeDecodeError", read=trusting),
    importer("what_cannot_be_read_is_named", "does not name the file", read=careless),
    importer("what_cannot_be_read_is_named", "read() accepted", read=lenient),
    importer(
        "a_trace_and_a_workload_can_be_made",
        "does not read back",
        request=lambda s, t, n, *a: ImportedRequest(t, n, a[0], client="a\r\nb"),
    ),
    importer(
        "a_trace_and_a_workload_can_be_made",
        "no workload can be made",
        request=lambda s, t, n, *a: ImportedRequest(t, n, 10**400),
    ),
]
