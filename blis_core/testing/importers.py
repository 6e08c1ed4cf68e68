"""Laws of importers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from blis_core.contracts import ImportedRequest, Importer, ImportSetup
from blis_core.errors import BlisError
from blis_core.testing.checks import UNPREDICTABLE, fail, require, require_whole
from blis_core.trace.importing import as_trace, as_workload, collect
from blis_core.trace.replay import check_replayable, fixed_requests
from blis_core.trace.rows import format_rows, parse_rows

_NO_RECORDING = b"\xff\x00{]\n,,;\x07\n"


class ImporterTests:
    """Subclass it and define ``make`` and ``sample``.

    Requests are possible and repeatable; what cannot be read is a BlisError that names the file;
    and what is read makes a trace and a workload that can be simulated.
    """

    def make(self, setup: ImportSetup) -> Importer:
        """A new importer."""
        raise NotImplementedError("define make(self, setup), which returns a new importer")

    def sample(self) -> str | bytes:
        """The contents of a small recording."""
        raise NotImplementedError("define sample(self), which returns a small recording")

    def write(self, folder: Path) -> Path:
        """Put the sample into ``folder`` and return its path. Override it if that is no file."""
        content, path = self.sample(), folder / "recording"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    @contextmanager
    def recording(self) -> Iterator[str]:
        """Path of the sample."""
        with TemporaryDirectory() as folder:
            yield str(self.write(Path(folder)))

    def read(self) -> list[ImportedRequest]:
        """What a new importer reads from the sample."""
        importer = self.make(ImportSetup())
        with self.recording() as path:
            return list(importer.read(path))

    # ------------------------------------------------------------------------------------- laws

    def test_requests_are_possible(self) -> None:
        """Times and lengths are whole numbers of at least 0, blocks fit into their prompts."""
        size = self.make(ImportSetup()).block_tokens
        require_whole(size, 0, "block_tokens")
        requests = self.read()
        require(requests, "read() found no request in the sample")
        for request in requests:
            require(
                isinstance(request, ImportedRequest),
                f"read() gave a {type(request).__name__}; give an ImportedRequest",
            )
            for name in ("arrival_us", "input_tokens", "output_tokens", "round_index"):
                require_whole(getattr(request, name), 0, f"{name} of {request}")
            for number in request.blocks:
                require_whole(number, 0, f"a number in blocks of {request}")
            require(
                not request.blocks or size > 0,
                f"{request} has blocks, but block_tokens says that the format has none",
            )
            require(
                not request.blocks or (len(request.blocks) - 1) * size < request.input_tokens,
                f"{len(request.blocks)} blocks of {size} tokens do not fit into the prompt of"
                f" {request}; only the last may be cut off",
            )

    def test_reading_again_gives_the_same(self) -> None:
        """Nothing is random, and nothing is remembered."""
        importer = self.make(ImportSetup())
        with self.recording() as path:
            first, second = list(importer.read(path)), list(importer.read(path))
        require(
            first == second == self.read(),
            f"the same file read again gives other requests ({UNPREDICTABLE})",
        )

    def test_what_cannot_be_read_is_named(self) -> None:
        """A missing file, and one that holds something else, is a BlisError with its name."""
        with TemporaryDirectory() as folder:
            wrong = Path(folder) / "something-else"
            wrong.write_bytes(_NO_RECORDING)
            for path in (str(wrong), str(Path(folder) / "nowhere")):
                try:
                    list(self.make(ImportSetup()).read(path))
                except BlisError as problem:
                    require(
                        Path(path).name in str(problem),
                        f"the error {str(problem)!r} does not name the file, {path}",
                    )
                except Exception as problem:  # noqa: BLE001 - whatever foreign code raises
                    fail(
                        f"{Path(path).name} made read() raise {type(problem).__name__}:"
                        f" {problem}; raise a BlisError that names the file"
                    )
                else:
                    fail(f"read() accepted {Path(path).name}, which is no recording")

    def test_a_trace_and_a_workload_can_be_made(self) -> None:
        """The trace reads back, has all prompts at their lengths, and can be replayed."""
        requests = self.read()
        try:
            traffic = collect("sample", requests, self.make(ImportSetup()).block_tokens)
            as_workload(traffic)
        except BlisError as problem:
            fail(f"no workload can be made of the sample: {problem}")
        _, rows = as_trace(traffic)
        again = parse_rows(format_rows(rows), "trace.csv")
        require(
            list(again) == list(rows) and again.blocks == rows.blocks,
            "the trace made of the sample does not read back; names must be text that CSV can hold",
        )
        check_replayable(again, "trace.csv")
        lengths = [request.prompt_len for request in fixed_requests(again, 1)]
        wanted = [request.input_tokens for request in traffic.requests]
        require(
            lengths == wanted,
            f"prompts of {wanted[:5]}... tokens are replayed with {lengths[:5]}...",
        )
