#!/usr/bin/env python3
"""Runs the examples in the README and the pages, and compares what they print with what is shown.

    docs/examples.py [PAGE ...]           show the differences
    docs/examples.py --write [PAGE ...]   put the real output into the pages, if it is not shortened

The examples of a page run in order, in one temporary folder:

- a block with ``title="NAME"`` is a file of that name;
- in a ``console`` block, commands follow ``$``. Those that start with ``blis`` are run, and a few
  harmless others (:data:`OTHERS`), unless a comment says ``# not run``. They must end with exit
  code 0, or with N if a comment says ``# exit code N``. ``python examples/FILE`` is that of the
  repository. ``pip install ./FOLDER`` makes the package
  of an example importable; ``make run`` stands for the command of the Makefile;
- a command with ``&`` at its end runs on in the background until the page ends; it has started when
  it has printed a line. Port 8000 of the page stands for a free one;
- a ``python`` block is executed, after those before it. A ``text`` block right behind it shows what
  it prints.

In an output, a line ``...`` stands for any lines, and ``...`` in a line for any characters. Shown
is what a terminal shows: standard output and standard error together, without trailing blanks. An
example that shows nothing must print nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
OTHERS = ("cat", "cp", "head", "python", "tail")

_PORT = "8000"
_CACHE = "BLIS_CACHE_DIR"
_FENCE = re.compile(r"```(\w*)[ ]*(.*)")
_TITLE = re.compile(r'title="([^"]+)"')


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    """Of the first line inside, counted from 1."""
    language: str
    title: str
    text: str
    after: str
    """Language of the block right before it ("" if prose stands between)."""


class Example(NamedTuple):
    """Something that was run."""

    line: int
    """Of the command, or of the first line of the code."""
    what: str
    shown: str
    shown_at: tuple[int, int] | None
    """First line of the shown output, and the line after it; None if nothing is shown."""
    printed: str
    exit_code: int
    wanted_code: int

    @property
    def difference(self) -> str:
        """What is wrong, as text; empty if nothing is."""
        found = ""
        if self.exit_code != self.wanted_code:
            found = f"exit code {self.exit_code} instead of {self.wanted_code}\n{self.printed}"
        elif not matches(self.shown, self.printed):
            lines = difflib.ndiff(self.shown.splitlines(), self.printed.splitlines())
            found = "\n".join(line for line in lines if not line.startswith("?"))
        return found and f"line {self.line}: {self.what}\n{found}"


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines = text.splitlines()
    at, previous, ended = 0, "", -1
    while at < len(lines):
        opening = _FENCE.fullmatch(lines[at])
        if opening is None:
            at += 1
            continue
        end = lines.index("```", at + 1)
        title = _TITLE.search(opening[2])
        adjacent = not any(line.strip() for line in lines[ended + 1 : at])
        yield Block(
            at + 2,
            opening[1],
            title[1] if title else "",
            "".join(line + "\n" for line in lines[at + 1 : end]),
            previous if adjacent else "",
        )
        previous, ended, at = opening[1], end, end + 1


def matches(shown: str, printed: str) -> bool:
    """Whether ``printed`` is what is shown, with ``...`` standing for anything."""
    parts = []
    for line in shown.splitlines():
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r".*?".join(map(re.escape, line.split("..."))) + r"\n")
    return re.fullmatch("".join(parts), printed) is not None


# --------------------------------------------------------------------------------------- running


class Runner:
    """Runs the examples of one page in the current folder."""

    def __init__(self) -> None:
        self._path = list(sys.path)
        self._modules = set(sys.modules)
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._background: list[subprocess.Popen[str]] = []
        self._port = 0
        _reset()

    def close(self) -> None:
        """End what runs in the background, forget what the page's examples have imported."""
        for process in self._background:
            process.send_signal(signal.SIGINT)
        for process in self._background:
            process.communicate(timeout=60)
        sys.path[:] = self._path
        for name in set(sys.modules) - self._modules:
            if str(Path.cwd()) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        _reset()

    def examples(self, text: str) -> Iterator[Example]:
        """Run everything on a page."""
        found = list(blocks(text))
        for block, behind in zip_longest(found, found[1:]):
            if block.title:
                Path(block.title).parent.mkdir(parents=True, exist_ok=True)
                Path(block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                yield from self._console(block)
            elif block.language == "python":
                output = (
                    behind
                    if behind
                    and (behind.language, behind.after)
                    == (
                        "text",
                        "python",
                    )
                    else None
                )
                yield self._python(block, output)

    def _python(self, block: Block, output: Block | None) -> Example:
        def execute() -> int:
            exec(compile(block.text, f"line {block.line}", "exec"), self._names)
            return 0

        printed, code = _captured(execute)
        shown = output.text if output else ""
        at = (output.line, output.line + shown.count("\n")) if output else None
        return Example(block.line, "python", shown, at, printed, code, 0)

    def _console(self, block: Block) -> Iterator[Example]:
        lines = block.text.splitlines()
        at = 0
        while at < len(lines):
            start, command = at, lines[at].removeprefix("$ ")
            while lines[at].endswith("\\"):
                at += 1
                command = command[:-1] + lines[at]
            at += 1
            first = at
            while at < len(lines) and not lines[at].startswith("$ "):
                at += 1
            shown = "".join(line + "\n" for line in lines[first:at])
            where = (block.line + first, block.line + at) if shown else None
            command, _, comment = command.partition(" #")
            if "not run" in comment:
                continue
            wanted = re.search(r"exit code (\d+)", comment)
            command = command.strip()
            if command.endswith("&"):
                result = self._start(command)
            else:
                result = self._command(self._with_port(command))
            if result is not None:
                printed, code = result
                if self._port:
                    printed = printed.replace(str(self._port), _PORT)
                yield Example(
                    block.line + start,
                    command,
                    shown,
                    where,
                    printed,
                    code,
                    int(wanted[1]) if wanted else 0,
                )

    def _with_port(self, command: str) -> str:
        """``command`` with the port that a server of this page really has."""
        return command.replace(_PORT, str(self._port)) if self._port else command

    def _start(self, command: str) -> tuple[str, int]:
        """Start a command in the background; its first line, and 0."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        words = shlex.split(self._with_port(command.removesuffix("&")))
        if words[:2] == ["blis", "serve"] and "--port" not in words:
            words += ["--port", str(self._port)]
        words[0] = str(Path(sys.executable).with_name(words[0]))
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self._background.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        return line, process.poll() or 0

    def _command(self, command: str) -> tuple[str, int] | None:
        """What a command prints, and its exit code; None if it is not to be run."""
        if command == "make run":
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            found = re.search(r"\$\(BIN\)/(blis .*)", makefile)
            assert found is not None
            command = found[1]
        words = shlex.split(command)
        settings = {}
        while re.match(r"[A-Z_]+=", words[0]):
            name, _, settings[name] = words.pop(0).partition("=")
        if words[:2] == ["pip", "install"] and words[2].startswith("./"):
            return self._install(Path(words[2])), 0
        target = Path(words.pop()) if words[-2:-1] == [">"] else None
        if words[0] == "blis" and "|" not in words:
            return _blis(words[1:-1] if target else words[1:], settings, target)
        if words[0] == "python" and words[1].startswith("examples/"):
            command = command.replace(words[1], shlex.quote(str(ROOT / words[1])), 1)
        if words[0] in ("blis", *OTHERS):
            return _shell(command)
        return None

    def _install(self, folder: Path) -> str:
        """Do what matters of ``pip install``: metadata with entry points, and an import path."""
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = (
            folder / "site" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        )
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        lines = [
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
            for group, points in project["entry-points"].items()
        ]
        (info / "entry_points.txt").write_text("".join(lines))
        code = folder / "src" if (folder / "src").is_dir() else folder
        sys.path[:0] = [str(info.parent.absolute()), str(code.absolute())]
        importlib.invalidate_caches()
        return ""


def _blis(arguments: list[str], settings: dict[str, str], target: Path | None) -> tuple[str, int]:
    """``blis`` in this process, which is much faster than starting one."""
    from blis_core.cli.main import main

    before = dict(os.environ)
    os.environ.update(settings, COLUMNS="80")
    _reset()
    try:
        return _captured(lambda: main(arguments), target)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _shell(command: str) -> tuple[str, int]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": path, "COLUMNS": "80"},
    )
    return _trimmed(done.stdout), done.returncode


def _captured(call: Callable[[], int], target: Path | None = None) -> tuple[str, int]:
    """What a call prints on either stream, and its value; 1 and a traceback if it raises.

    Standard output goes to the file ``target``, if there is one.
    """
    raw = io.BytesIO()
    with contextlib.ExitStack() as stack:
        stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
        out = stack.enter_context(target.open("w", encoding="utf-8")) if target else stream
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(stream))
        try:
            code = call()
        except Exception:  # noqa: BLE001 - an example that fails is a finding, not the end
            traceback.print_exc()
            code = 1
        return _trimmed(raw.getvalue().decode()), code


def _trimmed(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def _reset() -> None:
    """Plugins are found afresh, and warn afresh."""
    from blis_core import log, plugins

    plugins.reset()
    log.set_level("warn")


# ------------------------------------------------------------------------------------------ pages


def run_page(page: Path) -> list[Example]:
    """Run the examples of a page in a folder of their own."""
    text = page.read_text(encoding="utf-8")
    before, cache = Path.cwd(), os.environ.get(_CACHE)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ[_CACHE] = str(Path(folder) / ".cache")  # what was kept before does not count
        runner = Runner()
        try:
            return list(runner.examples(text))
        finally:
            runner.close()
            os.chdir(before)
            os.environ.pop(_CACHE)
            if cache is not None:
                os.environ[_CACHE] = cache


def rewrite(page: Path, examples: list[Example]) -> None:
    """Put real outputs in place of those shown that differ, but for those shortened by hand."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for example in reversed(examples):
        failed = example.exit_code != example.wanted_code
        if example.shown_at and example.difference and not failed and "..." not in example.shown:
            start, end = example.shown_at
            lines[start - 1 : end - 1] = example.printed.splitlines()
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Run the pages that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    parser.add_argument("--write", action="store_true", help="put the real output into the pages")
    options = parser.parse_args()
    wrong = 0
    for page in map(Path.absolute, options.pages or PAGES):
        examples = run_page(page)
        if options.write:
            rewrite(page, examples)
        for example in examples:
            if example.difference:
                wrong += 1
                print(f"{page.relative_to(ROOT)}, {example.difference}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
