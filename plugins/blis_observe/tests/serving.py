"""``blis serve`` in a process of its own, on a free port."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys

COMMAND = [
    sys.executable,
    "-c",
    "import sys; from blis_core.cli.main import main; sys.exit(main())",
]
QUICK = ("--model", "qwen/qwen3-14b", "--latency-model", "trained-physics", "--time-scale", "0.05")


@contextlib.contextmanager
def serving(*options, model=QUICK):
    """Yields the address; the server must end well when it is interrupted."""
    argv = [*COMMAND, "serve", *model, "--port", "0", *options]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"serving \S+ at (http://\S+)", line):
                    break
            else:
                raise AssertionError("".join(said))
            yield found[1]
        finally:
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert code == 0, process.stderr.read()
