"""Environments of their own: wheels are built and installed there, as a user would.

Works without a network: third-party packages are linked from the running environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
OURS = ("blis-core", *(path.name.replace("_", "-") for path in PLUGINS))
MODEL = ["--model", "qwen/qwen3-14b"]
SMALL = (
    "--num-requests 100 --rate 10 "
    "--output-tokens 20 --output-tokens-stdev 8 --output-tokens-min 4 --output-tokens-max 40"
).split()


class Environment:
    """A virtual environment without any of our distributions."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        venv.create(folder / "venv", symlinks=True)
        self.folder = folder
        self.wheels = wheels
        self.bin = folder / "venv" / "bin"
        (self._site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        self.link(*OURS)

    def link(self, *names: str) -> None:
        """Make the third-party distributions among ``names`` and their requirements available."""
        for path in _third_party_paths(names):
            target = self._site / path.name
            if not target.exists():
                target.symlink_to(path)

    def pip(self, *arguments: str) -> None:
        """Run the pip of this environment on that one, which has none."""
        python = str(self.bin / "python")
        options = ["--python", python, "--quiet", "--disable-pip-version-check"]
        check([sys.executable, "-m", "pip", *options, *arguments])

    def install(self, *names: str) -> None:
        """Install our wheels; pip checks that what they depend on is there."""
        self.pip("install", "--no-index", "--find-links", str(self.wheels), *names)

    def blis(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installed ``blis``."""
        return self._call("blis", *arguments)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter of this environment."""
        return self._call("python", *arguments)

    def _call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"]},
        )

    def listed(self) -> dict[str, dict]:
        """What ``--list-plugins`` says of each plugin."""
        process = self.blis("--list-plugins", "--json")
        assert process.returncode == 0, process.stderr
        return {item["plugin"]: item for item in json.loads(process.stdout)["plugins"]}

    def run(self, *arguments: str) -> dict:
        """Metrics of a successful small simulation without a word on stderr."""
        process = self.blis("run", *MODEL, *SMALL, *arguments)
        assert (process.returncode, process.stderr) == (0, "")
        start = process.stdout.rindex("=== Simulation Metrics ===")
        return json.JSONDecoder().raw_decode(process.stdout, process.stdout.index("{", start))[0]


def check(command: list) -> None:
    """Run a command that must succeed."""
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def _third_party_paths(names: Iterable[str]) -> set[Path]:
    """What distributions and their requirements, ours excepted, have put into site-packages."""
    left = list(names)
    seen: set[str] = set()
    paths: set[Path] = set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        for text in found.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                left.append(requirement.name)
        if name not in OURS:
            tops = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
            paths |= {Path(str(found.locate_file(top))) for top in tops}
    return paths


def build(source: Path, wheels: Path) -> None:
    """Put the wheel of a distribution into a folder."""
    check([sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", wheels, source])
