"""A run without a recording has nothing to do with one."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from blis_core.cli.main import main
main("run --model qwen/qwen3-14b --num-requests 3".split() + sys.argv[1:])
print(sorted(name for name in sys.modules if name.startswith("blis_core.recording")))
"""


def modules(*arguments):
    program = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()


def test_nothing_of_it_is_imported(tmp_path):
    assert modules()[-1] == "[]"
    assert "blis_core.recording.instance" in modules("--record", str(tmp_path / "a.rec"))[-1]
